"""The front end's rows: each request when it arrives and when it ends, its ingress and return, every delivery."""

import asyncio
import time
from collections.abc import Callable

from engine.api.attempt import Attempt, Verdict
from engine.api.beginnings import Beginning, Beginnings
from engine.api.deliveries import Delivery
from engine.messages import Heartbeat, StepOutput
from recorder.producer import Producer
from recorder.words import ON_EVENT_LOOP, EventKind, Phase, Reason, Source, StallKind, Status

TABLES = ("requests", "spans", "deliveries", "events", "stalls")


class State:
    """A worker's load as it last told; it is recorded with each arrival."""

    def __init__(self) -> None:
        self.queue_depth = 0
        self.queued_tokens = 0
        self.running = 0
        self.kv_used = 0

    def take(self, output: StepOutput | Heartbeat) -> None:
        """Remember what it told."""
        self.queue_depth = output.waiting
        self.queued_tokens = output.waiting_tokens
        self.running = output.running
        self.kv_used = output.kv_used


class FrontLedger:
    """Writes what only the front end knows. Times in ns of the run's monotonic clock."""

    def __init__(self, producer: Producer, beginnings: Beginnings | None = None) -> None:
        self._row = producer.row
        self._beginnings = beginnings
        self._begun: dict[int, Beginning] = {}
        self._deliver: Callable[..., bool] = producer.appender("deliveries")
        self._at_arrival: dict[int, dict[str, object]] = {}
        self.settled = asyncio.Event()
        """No request is open: every one that arrived has its last row."""
        self.settled.set()

    def arrived(self, attempt: Attempt, state: State) -> None:
        """The row of a request that is about to be handed to the worker."""
        known = {**_asked(attempt), "worker": attempt.worker, **vars(state)}
        self._at_arrival[attempt.rid] = known
        self._row("requests", **known, status=Status.OPEN)
        if attempt.workers == 1:
            self._tokenised(attempt)
        self.settled.clear()

    def sent(self, attempt: Attempt) -> None:
        """It is on its way, and has time to be compared with those before it."""
        if self._beginnings:
            met = self._begun[attempt.rid] = self._beginnings.meet(attempt.rid, attempt.submission.prompt)
            self._at_arrival[attempt.rid].update(prefix_of=met.prefix_of, prefix_tokens=met.prefix_tokens)

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

    def turned_away(self, attempt: Attempt, why: Reason) -> None:
        """The gate has refused it as it arrived; after its row, so that readers know whose it was."""
        self._event(EventKind.REJECTED, None, attempt.rid, why)

    def routed(self, attempt: Attempt, reason: Reason) -> None:
        """Why it went to its worker; after its row, so that readers know whose it was."""
        self._event(EventKind.ROUTED, attempt.worker, attempt.rid, reason)

    def lost(self, attempt: Attempt) -> None:
        """Its worker is lost, and it with it."""
        self._event(EventKind.FAILED, attempt.worker, attempt.rid)

    def handed_on(self, attempt: Attempt, why: str) -> None:
        """The last row of an attempt that was lost with its worker; its request goes on as another one."""
        self._last_row(attempt, Verdict(Status.FAILED, why))

    def worker_event(self, kind: EventKind, worker: int, reason: Reason = Reason.NONE) -> None:
        """A worker is ready, or lost."""
        self._event(kind, worker, None, reason)

    def _event(self, kind: EventKind, worker: int | None, rid: int | None, reason: Reason = Reason.NONE) -> None:
        self._row("events", t=time.monotonic_ns(), worker=worker, rid=rid, kind=kind, reason=reason)

    def _end(self, attempt: Attempt, verdict: Verdict) -> None:
        self._last_row(attempt, verdict)
        if not self._at_arrival:
            self.settled.set()

    def _last_row(self, attempt: Attempt, verdict: Verdict) -> None:
        end = attempt.end
        if end:
            self._span(attempt, Phase.INGRESS, attempt.submission.arrival, end.queued)
        if end and end.last_token is not None and verdict.returned is not None:
            self._span(attempt, Phase.RETURN, end.ended, verdict.returned)
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
        if self._beginnings and (met := self._begun.pop(attempt.rid, None)):
            self._beginnings.answered(met, attempt.tokens)

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

    def _span(self, attempt: Attempt, phase: Phase, start: int, end: int) -> None:
        if end > start:
            who = {"rid": attempt.rid, "attempt": attempt.number, "worker": attempt.worker}
            self._row("spans", **who, name=phase, start=start, end=end)


def _asked(attempt: Attempt) -> dict[str, object]:
    asked = attempt.submission
    return {
        "rid": attempt.rid,
        "request_id": asked.request_id,
        "attempt": attempt.number,
        "retry_of": attempt.retry_of,
        "tenant": asked.tenant,
        "tier": asked.tier,
        "model": asked.model,
        "arrival": asked.arrival,
        "deadline": asked.deadline,
        "prompt_tokens": len(attempt.prompt),
        "max_tokens": attempt.max_tokens,
    }
