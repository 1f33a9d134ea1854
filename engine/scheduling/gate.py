"""Who is taken in, decided as it arrives: bounds of the queue, the wait to expect, its deadline, its tenant's rate.

The front end asks, real or virtual (SPEC A3, A6, B1, C7, C8). The gate knows what was sent to each worker and what came
back of it. Who is refused is told when to come again. A request of the highest level has the whole of each bound; all
others leave `reserved_share` of it to those. What can't be foreseen does not refuse anybody.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from engine.config import SchedulerConfig
from engine.core import Admission, Request
from engine.messages import Finished, Starting, StepOutput
from engine.scheduling.admission import Room, refusal
from engine.scheduling.forecast import Predictor
from engine.scheduling.foresight import Foresight
from engine.scheduling.order import level
from engine.scheduling.rate import RateLimits
from engine.scheduling.view import Sent, WorkerView
from recorder.words import Reason

_OVERLOADED: Final = 529
_TOO_MANY: Final = 429
_UNKNOWN_NS: Final = 1e9
"""The wait that is told where nothing is known of how fast the worker is."""
_TAKEN: Final = Admission(True)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A limit of what waits at one worker, and what each request counts towards it."""

    most: float
    weigh: Callable[[Request], int]
    words: Callable[[int], str]
    even_alone: bool = False
    """Also a request that finds nobody waiting may be too much."""


class Gate:
    """One for a whole fleet. Times in ns of one clock; `told` and `judge` are called in the order of time."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._rates = RateLimits(config.tenant_burst_tokens)
        self._workers: dict[int, WorkerView] = {}
        self.closed = config.guards_queue
        """Somebody may have to be refused; an open gate need not be told anything."""

    # -- what happens ----------------------------------------------------------------------------------------------

    def joins(self, worker: int, room: Room, predictor: Predictor | None = None) -> None:
        """A worker is there, with nothing to do. What its steps take is told by `predictor`, else by itself."""
        self._workers[worker] = WorkerView(room, predictor)

    def leaves(self, worker: int) -> None:
        """A worker is gone, if it ever was there: what those in its hands did not use is their tenants' again."""
        if (view := self._workers.pop(worker, None)) is None:
            return
        for sent in (*view.running.values(), *view.waiting.values()):
            self._settle(sent, sent.given + sent.request.prompt_tokens * (sent.request.rid in view.running))

    def told(self, message: StepOutput | Starting, received: int) -> None:
        """A worker's message was read."""
        if not self.closed:
            return
        view = self._workers[message.worker]
        view.take(message, received)
        if isinstance(message, Starting):
            return
        for refused in message.refused:
            if sent := view.drop(refused.rid):
                self._settle(sent, 0)
        for end in message.finished:
            if sent := view.drop(end.rid):
                self._settle(sent, _used(sent, end))

    def _settle(self, sent: Sent, used: int) -> None:
        """It has ended: what was paid for it and not used is its tenant's again."""
        if sent.charged:
            self._rates.refund(sent.request.tenant, sent.charged - used)

    # -- decisions -------------------------------------------------------------------------------------------------

    def judge(self, request: Request, worker: int, now: int) -> Admission:
        """Take the request in for that worker, or say why not and when to come again.

        Who can never be served there is none of the gate's: the worker will tell it so.
        """
        if not self.closed:
            return _TAKEN
        view = self._workers[worker]
        if refusal(request, self._config, view.room):
            view.send(request, 0)
            return _TAKEN
        rate, tokens = self._tokens_per_ns(), request.prompt_tokens + request.max_tokens
        objections = list(self._objections(request, view, rate, now))
        if objections:
            return max(objections, key=_lasts)
        if rate:
            self._rates.charge(request.tenant, tokens, now, rate)
        view.send(request, tokens if rate else 0)
        return _TAKEN

    def _objections(self, request: Request, view: WorkerView, rate: float, now: int) -> Iterator[Admission]:
        share = 1.0 if level(request, self._config) == 1 else 1.0 - self._config.reserved_share
        foresight = Foresight(self._config, view, now)
        yield from self._queue(request, view, share, foresight, now)
        yield from self._wait(view, share, foresight, now)
        yield from self._deadline(request, foresight, now)
        yield from self._rate(request, rate, now)

    def hands_over(self, request: Request, worker: int) -> None:
        """A request that was taken in before goes to that worker, as its own is lost: at nobody's expense."""
        if self.closed:
            self._workers[worker].send(request, 0)

    def _queue(
        self, request: Request, view: WorkerView, share: float, foresight: Foresight, now: int
    ) -> Iterator[Admission]:
        """The queue is bounded by count and by memory (SPEC A6)."""
        for bound in self._bounds(view):
            held = [bound.weigh(sent.request) for sent in view.waiting.values()]
            excess = sum(held) + bound.weigh(request) - bound.most * share
            if excess <= 0 or not (held or bound.even_alone):
                continue
            place = _first_to_cover(held, excess)
            words = f"{bound.words(sum(held))}; try again later"
            wait_ms = None if place is None else self._room_ms(place, view, foresight, now)
            yield Admission(False, words, _OVERLOADED, wait_ms, Reason.QUEUE_FULL)

    def _room_ms(self, place: int, view: WorkerView, foresight: Foresight, now: int) -> int:
        """When the one that waits in that place will have started, and it is known here."""
        starts = foresight.start(place)
        if starts is not None:
            return _ms(starts + view.way_ns + 1 - now)
        tokens = sum(sent.request.prompt_tokens for sent in islice(view.waiting.values(), place + 1))
        return _ms(tokens * view.token_ns or _UNKNOWN_NS)

    def _bounds(self, view: WorkerView) -> Iterator[_Bound]:
        config = self._config
        if config.max_queue_size:
            yield _Bound(config.max_queue_size, lambda _: 1, "{} requests are waiting".format, even_alone=True)
        if config.max_queue_tokens:
            yield _Bound(config.max_queue_tokens, _prompt, "{} prompt tokens are waiting".format)
        if config.max_queue_memory_mb and view.room.token_bytes:
            yield _Bound(
                config.max_queue_memory_mb * 2**20,
                lambda request: view.room.bytes_for(request.prompt_tokens),
                lambda held: f"those that wait need {held / 2**20:.1f} MiB of the KV cache",
            )

    def _wait(self, view: WorkerView, share: float, foresight: Foresight, now: int) -> Iterator[Admission]:
        """Queued tokens over recent throughput (SPEC C7)."""
        most_ns = self._config.max_estimated_wait_ms * 1e6 * share
        queued = view.begun_tokens + sum(sent.request.prompt_tokens for sent in view.waiting.values())
        estimate = queued * view.token_ns
        if not self._config.max_estimated_wait_ms or estimate <= most_ns:
            return
        excess = math.ceil(queued - most_ns / view.token_ns)
        words = f"requests that come now would wait about {estimate / 1e9:.1f} s"
        done = foresight.computed(excess)
        wait_ns = excess * view.token_ns if done is None else done + view.way_ns - now
        yield Admission(False, words, _OVERLOADED, _ms(wait_ns), Reason.OVERLOADED)

    def _deadline(self, request: Request, foresight: Foresight, now: int) -> Iterator[Admission]:
        """Only who can finish in time is let in; when the excess has been worked off, one like it could (SPEC B1)."""
        if not self._config.deadline_admission or request.deadline is None:
            return
        alone, finish = foresight.alone(request), foresight.finish(request)
        if finish is None or finish <= request.deadline:
            return
        late, never = finish - request.deadline, alone is not None and alone > request.deadline
        words = f"it would be finished {late / 1e6:.1f} ms after its deadline"
        words += ", even if nobody else were here" if never else ""
        yield Admission(False, words, _TOO_MANY, None if never else _ms(late), Reason.DEADLINE)

    def _rate(self, request: Request, rate: float, now: int) -> Iterator[Admission]:
        """What its tenant may use (SPEC C8)."""
        tokens = request.prompt_tokens + request.max_tokens
        wait = self._rates.wait(request.tenant, tokens, now, rate) if rate else 0
        if wait:
            words = f"the prompt and max_tokens ({tokens} tokens) are more than this tenant's rate allows now"
            yield Admission(False, words, _TOO_MANY, _ms(wait), Reason.RATE_LIMIT)

    def _tokens_per_ns(self) -> float:
        """What a tenant may use: set, or its share of what the fleet computes of late, once that is known; 0: no limit.

        A worker that has not been measured yet counts like the mean of those that have.
        """
        measured = [1 / view.token_ns for view in self._workers.values() if view.token_ns]
        if self._config.tenant_capacity_share and measured:
            return self._config.tenant_capacity_share * sum(measured) / len(measured) * len(self._workers)
        return self._config.tenant_tokens_per_s / 1e9


def _lasts(objection: Admission) -> float:
    """How long an objection stands, in ms: the one that stands longest is told."""
    return math.inf if objection.retry_after_ms is None else objection.retry_after_ms


def _prompt(request: Request) -> int:
    return request.prompt_tokens


def _used(sent: Sent, end: Finished) -> int:
    """Tokens that a request used: its prompt, where it began, and its output."""
    return end.output_tokens + (sent.request.prompt_tokens if end.first_scheduled is not None else 0)


def _first_to_cover(held: list[int], excess: float) -> int | None:
    """The place of the one with whose start so much has left the queue; None where all of it is not enough."""
    left = 0
    for place, weight in enumerate(held):
        left += weight
        if left >= excess:
            return place
    return None


def _ms(ns: float) -> int:
    """Whole ms, at least one: whoever waits so long has waited long enough."""
    return max(1, math.ceil(ns / 1e6))
