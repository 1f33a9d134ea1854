"""The front end of virtual time: what goes in, what came of it, and the rows that a front end writes."""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.core import EXPIRED, Admission, Request
from engine.messages import Finished, Refused, Starting, StepOutput
from engine.scheduling.deadlines import EXPIRED_WORDS
from engine.scheduling.gate import Gate
from engine.scheduling.handback import HandedBack, ending, lost_words
from engine.scheduling.router import Lease, Router
from engine.simulate.faults import Loss
from engine.simulate.setup import Setup
from recorder.producer import Producer
from recorder.words import EventKind, Phase, Reason, Status

FRONT_TABLES: Final = ("requests", "spans", "deliveries", "events")
"""What the front end's producer has to take."""
SUMMARY_TABLES: Final = ("requests",)
"""The same where nothing but requests is kept."""
GONE: Final = "the client went away"
_HTTP: Final = {Status.OK: 200, Status.EXPIRED: 504, Status.REJECTED: 400}
"""Of those that were turned away at the door, the gate says it."""
_NOBODY: Final = Admission(False, "no worker is left to take requests", 503)
_NOBODY_ELSE: Final = "its worker was lost, and there is no other; it is safe to send it again"
_LOST_BY: Final = {True: Reason.HEARTBEAT, False: Reason.NONE}
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
    prefix_of: int = 0
    """Number of the earlier request that it begins like for longest; 0: nobody, or not known."""
    prefix_tokens: int = 0
    """For how many tokens: they may reach into the output of that one."""
    attempt: int = 1
    retry_of: int | None = None
    """The rid that it had when it was refused, or when its worker was lost."""
    handed_back: int = 0
    """Workers that were lost with it, and those of them that were running it."""
    losses: int = 0
    handed_on: int | None = None
    """When the last of them was found to be lost. Its client has waited from the arrival on."""

    @property
    def routed(self) -> int:
        """When it is decided which worker it goes to."""
        return self.arrival if self.handed_on is None else self.handed_on

    def request(self, rid: int) -> Request:
        """What may be known of it where it is decided whether it is taken in."""
        return Request(
            rid,
            self.prompt_tokens,
            self.max_tokens,
            self.arrival,
            self.attempt,
            self.tier,
            self.tenant,
            self.priority,
            self.deadline,
        )


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
    """Of those turned away at the door, and of those that ended with their worker."""
    retry_after_ms: int | None = None
    given: int = 0
    """Tokens that its client has."""


class _Worker:
    """What the front end knows of one worker: its reports as they come in."""

    def __init__(self) -> None:
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
    """Takes the workers' outputs as `engine.loop.Outbox` and turns them into outcomes, and into rows of `tables` if it
    has a producer.

    `ended(rid, t)` is told when the answer (or the worker's refusal) of a request has been handed to its client; whom
    the gate turns away, `arrive` tells at once.
    """

    def __init__(
        self,
        setup: Setup,
        producer: Producer | None = None,
        ended: Callable[[int, int], None] | None = None,
        tables: Collection[str] = FRONT_TABLES,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._delays = setup.delays
        self._producer = producer
        self._tables = tables
        self._workers = [_Worker() for _ in range(setup.workers)]
        self._at_arrival: dict[int, dict[str, int]] = {}
        self._ended = ended or (lambda rid, t: None)
        self._config = setup.config.router
        self.router = Router(setup.config, [setup.num_blocks] * setup.workers)
        self._gate = Gate(setup.config.scheduler)
        for number in range(setup.workers):
            self._gate.joins(number, setup.room, setup.known_cost())
        self._untold: list[tuple[int, int, StepOutput | Starting]] = []
        """Messages on their way to the gate: when each is read, and its number among all."""
        self._messages = 0

    @property
    def next_rid(self) -> int:
        """The rid of whoever arrives next."""
        return len(self.outcomes) + 1

    def arrive(self, asked: Arrival, prompt: Sequence[int] = ()) -> Outcome:
        """The next request, on its way to a worker unless it is turned away; called in the order of `asked.routed`.

        Only where prefixes are cached it matters what its `prompt` is made of.
        """
        t = asked.routed
        choice = self.router.choose(prompt, t)
        outcome = Outcome(self.next_rid, asked, choice.replica if choice else 0)
        self.outcomes.append(outcome)
        self._at_arrival[outcome.rid] = self._workers[outcome.worker].state_at(t)
        self._hear_until(t)
        admission = self._admit(outcome) if choice else _NOBODY
        if choice and admission.accepted:
            self.router.send(outcome.rid, choice, asked.prompt_tokens)
        else:
            self._turn_away(outcome, admission)
        self._write_request(outcome)
        if choice and admission.accepted and len(self._workers) > 1:
            reason = choice.reason if asked.handed_on is None else Reason.HANDED_BACK
            self._write_event(EventKind.ROUTED, t, outcome.worker, outcome.rid, reason)
        return outcome

    def _admit(self, outcome: Outcome) -> Admission:
        """Whether it is taken in; whoever was before is not asked again."""
        asked = outcome.arrival.request(outcome.rid)
        if outcome.arrival.handed_on is None:
            return self._gate.judge(asked, outcome.worker, outcome.arrival.arrival)
        self._gate.hands_over(asked, outcome.worker)
        return Admission(True)

    def _hear_until(self, t: int) -> None:
        """Let the gate know what has been read by then."""
        while self._untold and self._untold[0][0] <= t:
            received, _, message = heapq.heappop(self._untold)
            self._gate.told(message, received)

    def turned_away(self, rid: int) -> bool:
        """Whether that request was refused at the door; it never reaches a worker."""
        outcome = self.outcomes[rid - 1]
        return outcome.status is Status.REJECTED and outcome.http_status is not None

    def _turn_away(self, outcome: Outcome, admission: Admission) -> None:
        outcome.status, outcome.reason = Status.REJECTED, admission.reason
        outcome.http_status, outcome.retry_after_ms = admission.status, admission.retry_after_ms
        outcome.returned = outcome.arrival.arrival + self._delays.write_ns
        self._write_event(EventKind.REJECTED, outcome.arrival.arrival, None, outcome.rid, admission.why)

    def starting(self, message: Starting) -> None:
        """A worker begins requests: on its way to the gate."""
        self.router.started(message.rids)
        self._tell_gate(message.t_sent + self._delays.link_ns, message)

    def _tell_gate(self, received: int, message: StepOutput | Starting) -> None:
        if self._gate.closed:
            self._messages += 1
            heapq.heappush(self._untold, (received, self._messages, message))

    def send(self, message: StepOutput) -> None:
        """One step's output on its way: read after the link's delay, then written stream by stream."""
        received = message.t_sent + self._delays.link_ns
        worker = self._workers[message.worker]
        worker.report(received, message)
        self._tell_gate(received, message)
        written = received
        streams = dict.fromkeys(rid for rid, _ in message.tokens)
        for rid in streams:
            written += self._delays.write_ns
            outcome = self.outcomes[rid - 1]
            self.router.answered(rid, received)
            outcome.given += 1
            outcome.returned = written
        self._deliver(message, received, written, len(streams))
        for end in message.finished:
            self._finish(end, received)
        for refused in message.refused:
            self._refuse(refused, received)

    def _deliver(self, message: StepOutput, received: int, written: int, streams: int) -> None:
        self._write(
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
        self.router.ended(end.rid, received)
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
        self.router.ended(refused.rid, received)
        self._write_request(outcome)
        self._ended(refused.rid, received)

    # -- workers that are lost -----------------------------------------------------------------------------------------

    def finds_out(self, loss: Loss) -> int:
        """When it is known here that a worker is lost."""
        return loss.at + (self._config.heartbeat_timeout_ns if loss.silent else self._delays.link_ns)

    def lose(self, loss: Loss) -> list[Arrival]:
        """A worker is found to be lost. Returns what is to go on elsewhere; the rest of what it held has ended."""
        t = self.finds_out(loss)
        self._hear_until(t)
        self._gate.leaves(loss.worker)
        self._write_event(EventKind.WORKER_LOST, t, loss.worker, None, _LOST_BY[loss.silent])
        return [again for lease in self.router.lost(loss.worker) if (again := self._take_back(lease, loss, t))]

    def _take_back(self, lease: Lease, loss: Loss, t: int) -> Arrival | None:
        """An attempt that ends with its worker; what its request is as another attempt, if it is tried again."""
        outcome = self.outcomes[lease.rid - 1]
        asked = replace(
            outcome.arrival,
            attempt=outcome.arrival.attempt + 1,
            retry_of=lease.rid,
            request_id=outcome.arrival.request_id or request_id(lease.rid),
            handed_back=outcome.arrival.handed_back + 1,
            losses=outcome.arrival.losses + lease.running,
            handed_on=t,
        )
        self._write_event(EventKind.FAILED, t, loss.worker, lease.rid)
        if self._ends_with_worker(outcome, asked, t):
            self._write_request(outcome)
            self._ended(lease.rid, t)
            return None
        outcome.status, outcome.returned = Status.FAILED, None
        outcome.reason = lost_words(loss.worker, silent=loss.silent)
        self._write_request(outcome)
        return _going_on(asked, outcome.given)

    def _ends_with_worker(self, outcome: Outcome, asked: Arrival, t: int) -> bool:
        """Whether a request is not tried again, and how it ends then: every client here is one that reads a stream."""
        if asked.cancel_at is not None and asked.cancel_at <= t:
            outcome.status, outcome.reason, outcome.returned = Status.CANCELLED, GONE, None
            return True
        case = HandedBack(asked.handed_back, asked.losses, asked.deadline, outcome.given)
        end = ending(case, self._config, t)
        if end:
            outcome.status, outcome.reason = end.status, end.words
        elif not self.router.living:
            outcome.status, outcome.reason = Status.FAILED, _NOBODY_ELSE
        else:
            return False
        outcome.returned = t + self._delays.write_ns
        outcome.http_status = 200 if outcome.given else 504 if outcome.status is Status.EXPIRED else 500
        return True

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _write_event(
        self, kind: EventKind, t: int, worker: int | None, rid: int | None, reason: Reason = Reason.NONE
    ) -> None:
        self._write("events", t=t, worker=worker, rid=rid, kind=kind, reason=reason)

    def _write_span(self, outcome: Outcome, phase: Phase, start: int, end: int) -> None:
        if end > start:
            who = {"rid": outcome.rid, "attempt": outcome.arrival.attempt, "worker": outcome.worker}
            self._write("spans", **who, name=phase, start=start, end=end)

    def _write_request(self, outcome: Outcome) -> None:
        if self._producer is None:
            return
        asked = outcome.arrival
        self._write(
            "requests",
            rid=outcome.rid,
            request_id=asked.request_id or request_id(outcome.rid),
            attempt=asked.attempt,
            retry_of=asked.retry_of,
            tenant=asked.tenant,
            tier=asked.tier,
            model="virtual",
            worker=outcome.worker,
            arrival=asked.arrival,
            deadline=asked.deadline,
            admitted=None if self.turned_away(outcome.rid) else asked.routed + self._delays.ingress_ns,
            prompt_tokens=asked.prompt_tokens,
            max_tokens=asked.max_tokens,
            prefix_of=asked.prefix_of or None,
            prefix_tokens=asked.prefix_tokens,
            returned=outcome.returned,
            status=outcome.status,
            reason=outcome.reason,
            http_status=outcome.http_status or _HTTP.get(outcome.status),
            retry_after_ms=outcome.retry_after_ms,
            **(outcome.end.columns() if outcome.end else {}),
            **self._at_arrival[outcome.rid],
        )

    def _write(self, table: str, **columns: object) -> None:
        if self._producer and table in self._tables:
            self._producer.row(table, **columns)


def _going_on(asked: Arrival, given: int) -> Arrival:
    """The request with what its client has as part of its prompt, which is that of the attempt before (SPEC C9)."""
    return replace(
        asked,
        prompt_tokens=asked.prompt_tokens + given,
        max_tokens=asked.max_tokens - given,
        output_tokens=None if asked.output_tokens is None else asked.output_tokens - given,
        prefix_of=asked.retry_of or 0,
        prefix_tokens=asked.prompt_tokens + given,
    )


def answers(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What came of each request in the end: of one tried again, the last attempt; in the order of the first ones."""
    latest: dict[int, Outcome] = {}
    first: dict[int, int] = {}
    for outcome in outcomes:
        number = first[outcome.rid] = first.get(outcome.arrival.retry_of or 0, outcome.rid)
        latest[number] = outcome
    return list(latest.values())


def request_id(rid: int) -> str:
    """The id of a request that brought none."""
    return f"v-{rid:04d}"
