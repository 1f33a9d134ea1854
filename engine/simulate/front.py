"""The front end of virtual time: what goes in, what came of it, and the rows that a front end writes."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.core import EXPIRED
from engine.messages import Finished, Refused, StepOutput
from engine.scheduling.deadlines import EXPIRED_WORDS
from engine.simulate.clock import Delays
from engine.simulate.router import Backlog
from recorder.producer import Producer
from recorder.words import Phase, Status

FRONT_TABLES: Final = ("requests", "spans", "deliveries")
"""What the front end's producer has to take."""
PREFIX_TOKENS: Final = 512
"""Tokens of a prompt that one number of `Arrival.prefix` stands for."""
GONE: Final = "the client went away"
_HTTP: Final = {Status.OK: 200, Status.EXPIRED: 504}
_EMPTY: Final = {"queue_depth": 0, "queued_tokens": 0, "running": 0, "kv_used": 0}


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One request of a workload; times in ns. `output_tokens` is where the model would stop (None: nowhere)."""

    arrival: int
    prompt_tokens: int
    max_tokens: int
    output_tokens: int | None = None
    request_id: str = ""
    tier: str = ""
    tenant: str = ""
    cancel_at: int | None = None
    """When its client goes away."""
    priority: int = 0
    """1 is the highest; 0: none of its own."""
    deadline: int | None = None
    """Instant after which the answer is worthless."""
    prefix: Sequence[int] = ()
    """`Workload.prefixes` of this one."""


@dataclass(slots=True)
class Outcome:
    """What came of one request. `end` has the worker's stamps; None while it is open, and when it was refused."""

    rid: int
    arrival: Arrival
    worker: int = 0
    status: Status = Status.OPEN
    end: Finished | None = None
    returned: int | None = None
    reason: str = ""
    http_status: int | None = None
    """Of a refusal."""
    retry_after_ms: int | None = None


class _Worker:
    """What the front end knows of one worker: its reports as they come in, and the work it was sent."""

    def __init__(self) -> None:
        self.backlog = Backlog()
        self._reports: deque[tuple[int, dict[str, int]]] = deque()
        self._state = _EMPTY

    def report(self, received: int, message: StepOutput) -> None:
        state = {
            "queue_depth": message.waiting,
            "queued_tokens": message.waiting_tokens,
            "running": message.running,
            "kv_used": message.kv_used,
        }
        self._reports.append((received, state))

    def state_at(self, t: int) -> dict[str, int]:
        """The last report received by `t`. Asked with `t` never falling."""
        while self._reports and self._reports[0][0] <= t:
            self._state = self._reports.popleft()[1]
        return self._state


class VirtualFrontEnd:
    """Takes the workers' outputs as `engine.loop.Outbox` and turns them into outcomes, and into rows if it may.

    `ended(rid, t)` is told when the answer (or the refusal) of a request has been handed to its client.
    """

    def __init__(
        self,
        delays: Delays,
        producer: Producer | None = None,
        workers: int = 1,
        ended: Callable[[int, int], None] | None = None,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._delays = delays
        self._producer = producer
        self._workers = [_Worker() for _ in range(workers)]
        self._at_arrival: dict[int, dict[str, int]] = {}
        self._ended = ended or (lambda rid, t: None)

    @property
    def backlogs(self) -> list[Backlog]:
        """What each worker was sent and has not answered."""
        return [worker.backlog for worker in self._workers]

    def arrive(self, asked: Arrival, worker: int) -> Outcome:
        """The next request, on its way to `worker`; arrivals come in order of time."""
        outcome = Outcome(len(self.outcomes) + 1, asked, worker)
        self.outcomes.append(outcome)
        self._workers[worker].backlog.sent(asked.prompt_tokens)
        self._at_arrival[outcome.rid] = self._workers[worker].state_at(asked.arrival)
        self._write_request(outcome)
        return outcome

    def send(self, message: StepOutput) -> None:
        """One step's output on its way: read after the link's delay, then written stream by stream."""
        received = message.t_sent + self._delays.link_ns
        worker = self._workers[message.worker]
        worker.report(received, message)
        written = received
        streams = dict.fromkeys(rid for rid, _ in message.tokens)
        for rid in streams:
            written += self._delays.write_ns
            outcome = self.outcomes[rid - 1]
            if outcome.returned is None:
                worker.backlog.answered(received, outcome.arrival.prompt_tokens)
            outcome.returned = written
        self._deliver(message, received, written, len(streams))
        for end in message.finished:
            self._finish(end, received)
        for refused in message.refused:
            self._refuse(refused, received)

    def _deliver(self, message: StepOutput, received: int, written: int, streams: int) -> None:
        if self._producer:
            self._producer.row(
                "deliveries",
                worker=message.worker,
                step=message.step,
                t_sent=message.t_sent,
                t_received=received,
                t_written=written,
                streams=streams,
            )

    def _finish(self, end: Finished, received: int) -> None:
        outcome = self.outcomes[end.rid - 1]
        outcome.end = end
        backlog = self._workers[outcome.worker].backlog
        if end.first_token is None:
            backlog.answered(received, outcome.arrival.prompt_tokens)
        backlog.finished(received)
        if end.finish_reason == "cancelled":
            outcome.status, outcome.returned, outcome.reason = Status.CANCELLED, None, GONE
        elif end.finish_reason == EXPIRED:
            outcome.status, outcome.reason = Status.EXPIRED, EXPIRED_WORDS
        else:
            outcome.status, outcome.reason = Status.OK, end.finish_reason
        self._write_request(outcome)
        self._write_span(outcome, Phase.INGRESS, outcome.arrival.arrival, end.queued)
        if outcome.returned is not None and end.last_token is not None:
            self._write_span(outcome, Phase.RETURN, end.last_token, outcome.returned)
        self._ended(end.rid, received if outcome.returned is None else outcome.returned)

    def _refuse(self, refused: Refused, received: int) -> None:
        outcome = self.outcomes[refused.rid - 1]
        outcome.status, outcome.reason = Status.REJECTED, refused.reason
        outcome.http_status, outcome.retry_after_ms = refused.status, refused.retry_after_ms
        backlog = self._workers[outcome.worker].backlog
        backlog.answered(received, outcome.arrival.prompt_tokens)
        backlog.finished(received)
        self._write_request(outcome)
        self._ended(refused.rid, received)

    def _write_span(self, outcome: Outcome, phase: Phase, start: int, end: int) -> None:
        if self._producer and end > start:
            self._producer.row(
                "spans", rid=outcome.rid, attempt=1, name=phase, start=start, end=end, worker=outcome.worker
            )

    def _write_request(self, outcome: Outcome) -> None:
        if self._producer is None:
            return
        asked = outcome.arrival
        self._producer.row(
            "requests",
            rid=outcome.rid,
            request_id=asked.request_id or request_id(outcome.rid),
            attempt=1,
            tenant=asked.tenant,
            tier=asked.tier,
            model="virtual",
            worker=outcome.worker,
            arrival=asked.arrival,
            deadline=asked.deadline,
            admitted=asked.arrival + self._delays.ingress_ns,
            prompt_tokens=asked.prompt_tokens,
            max_tokens=asked.max_tokens,
            returned=outcome.returned,
            status=outcome.status,
            reason=outcome.reason,
            http_status=outcome.http_status or _HTTP.get(outcome.status),
            retry_after_ms=outcome.retry_after_ms,
            **(outcome.end.columns() if outcome.end else {}),
            **self._at_arrival[outcome.rid],
        )


def request_id(rid: int) -> str:
    """The id of a request that brought none."""
    return f"v-{rid:04d}"
