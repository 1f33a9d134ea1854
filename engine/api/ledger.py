"""The front end's rows: each request when it arrives and when it ends, its ingress and return, every delivery."""

import asyncio
import time
from collections.abc import Callable

from engine.api.attempt import Attempt, Verdict
from engine.api.deliveries import Delivery
from engine.messages import StepOutput
from recorder.producer import Producer
from recorder.words import ON_EVENT_LOOP, EventKind, Phase, Source, StallKind, Status

TABLES = ("requests", "spans", "deliveries", "events", "stalls")


class State:
    """The worker's load as it last told; it is recorded with each arrival."""

    def __init__(self) -> None:
        self.queue_depth = 0
        self.queued_tokens = 0
        self.running = 0
        self.kv_used = 0

    def take(self, output: StepOutput) -> None:
        """Remember what a step told."""
        self.queue_depth = output.waiting
        self.queued_tokens = output.waiting_tokens
        self.running = output.running
        self.kv_used = output.kv_used


class FrontLedger:
    """Writes what only the front end knows. Times in ns of the run's monotonic clock."""

    def __init__(self, producer: Producer, worker: int = 0) -> None:
        self._row = producer.row
        self._deliver: Callable[..., bool] = producer.appender("deliveries")
        self._worker = worker
        self._at_arrival: dict[int, dict[str, object]] = {}
        self.settled = asyncio.Event()
        """No request is open: every one that arrived has its last row."""
        self.settled.set()

    def arrived(self, attempt: Attempt, state: State) -> None:
        """The row of a request that is about to be handed to the worker."""
        known = {**_asked(attempt), "worker": self._worker, **vars(state)}
        self._at_arrival[attempt.rid] = known
        self._row("requests", **known, status=Status.OPEN)
        self._tokenised(attempt)
        self.settled.clear()

    def delivery(self, output: StepOutput, t_received: int) -> Delivery:
        """A step whose row is written when its last stream is."""
        return Delivery(output, t_received, self._deliver)

    def ended(self, attempt: Attempt, verdict: Verdict) -> None:
        """The row of a request that has ended, after that of its last step's delivery."""
        if attempt.last_delivery is None:
            self._end(attempt, verdict)
        else:
            attempt.last_delivery.when_closed(lambda: self._end(attempt, verdict))

    def refused(self, attempt: Attempt, reason: str, http_status: int) -> None:
        """The one row of a request that never reached the worker."""
        self._row("requests", **_asked(attempt), status=Status.REJECTED, reason=reason, http_status=http_status)
        self._tokenised(attempt)

    def worker_event(self, kind: EventKind) -> None:
        """The worker is ready, or lost."""
        self._row("events", t=time.monotonic_ns(), worker=self._worker, kind=kind)

    def _end(self, attempt: Attempt, verdict: Verdict) -> None:
        end = attempt.end
        if end:
            self._span(attempt.rid, Phase.INGRESS, attempt.submission.arrival, end.queued)
        if end and end.last_token is not None and verdict.returned is not None:
            self._span(attempt.rid, Phase.RETURN, end.ended, verdict.returned)
        self._row(
            "requests",
            **self._at_arrival.pop(attempt.rid),
            **(end.columns() if end else {}),
            admitted=attempt.admitted,
            returned=verdict.returned,
            status=verdict.status,
            reason=verdict.reason,
            http_status=attempt.http_status,
            retry_after_ms=attempt.failure.retry_after_ms if attempt.failure else None,
        )
        if not self._at_arrival:
            self.settled.set()

    def _tokenised(self, attempt: Attempt) -> None:
        """How long its prompt took to tokenise; after the row of the request, so that readers know whose it was."""
        if stretch := attempt.submission.tokenised:
            self._row(
                "stalls",
                t_start=stretch.begin,
                t_end=stretch.end,
                source=Source.FRONTEND,
                device=0,
                kind=StallKind.TOKENISE,
                rid=attempt.rid,
                detail=ON_EVENT_LOOP if stretch.on_loop else "thread",
            )

    def _span(self, rid: int, phase: Phase, start: int, end: int) -> None:
        if end > start:
            self._row("spans", rid=rid, attempt=1, name=phase, start=start, end=end, worker=self._worker)


def _asked(attempt: Attempt) -> dict[str, object]:
    asked = attempt.submission
    return {
        "rid": attempt.rid,
        "request_id": asked.request_id,
        "attempt": 1,
        "tenant": asked.tenant,
        "tier": asked.tier,
        "model": asked.model,
        "arrival": asked.arrival,
        "deadline": asked.deadline,
        "prompt_tokens": len(asked.prompt),
        "max_tokens": asked.max_tokens,
    }
