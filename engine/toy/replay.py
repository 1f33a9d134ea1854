"""The tick loop (SPEC E2): replays a ledger under a policy; leaves stamps per request and an audit row per tick."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from engine.toy.ledger import LEDGER, Hardware, ToyRequest, arrivals_s, check_ledger
from engine.toy.policies import Moment, Policy, Settings, may_start

GRACE_S = Fraction(14, 10)


@dataclass(slots=True)
class Journey:
    """A request on its way. Stamps count ticks, at the boundary where the thing happened; None: it did not happen.

    `arrival_tick` is the first tick that starts at or after the arrival: the one in which the request joins the queue.
    """

    request: ToyRequest
    arrival_s: Fraction
    arrival_tick: int
    prefill_start: int | None = None
    prefill_end: int | None = None
    token_ends: list[int] = field(default_factory=list)

    @property
    def first_token(self) -> int | None:
        """End of the tick that emitted the first token."""
        return self.token_ends[0] if self.token_ends else None

    @property
    def finish(self) -> int | None:
        """End of the tick that emitted the last token; it may lie after the window, which need not end on a tick."""
        return self.token_ends[-1] if len(self.token_ends) == self.request.output else None

    @property
    def cached(self) -> int:
        """Tokens in the KV cache once the prefill has ended."""
        return self.request.prompt + len(self.token_ends)


@dataclass(frozen=True, slots=True)
class Tick:
    """An audit row: what happened in the tick that starts at `tick`, in the order of SPEC E2, and the state it left.

    `cached` still counts what finished in this tick; `reserved` is prompt + output of all started and unfinished.
    """

    tick: int
    joined: tuple[str, ...]
    emitted: tuple[tuple[str, int], ...]
    finished: tuple[str, ...]
    started: tuple[str, ...]
    prefilling: tuple[str, ...]
    prefilled: tuple[str, ...]
    queued: int
    ready: int
    cached: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay. `ticks` leaves out those of an idle machine in which nothing joined and no wait ran out."""

    settings: Settings
    hardware: Hardware
    journeys: tuple[Journey, ...]
    ticks: tuple[Tick, ...]
    window_s: Fraction
    end_tick: int


def replay(settings: Settings, requests: Sequence[ToyRequest] = LEDGER, hardware: Hardware | None = None) -> Replay:
    """Run every tick that starts before the window's end (SPEC E5); ToyError if the machine can't run the ledger."""
    machine = hardware or Hardware()
    check_ledger(requests, machine)
    arrivals = arrivals_s(requests, settings.rate)
    journeys = [
        Journey(request, arrival, ceil(arrival / machine.tick_s))
        for request, arrival in zip(requests, arrivals, strict=True)
    ]
    window_s = arrivals[-1] + GRACE_S
    end_tick = ceil(window_s / machine.tick_s)
    ticks = tuple(_Machine(settings, machine, journeys).run(end_tick))
    return Replay(settings, machine, tuple(journeys), ticks, window_s, end_tick)


class _Machine:
    """The state between ticks: who is still to come, who waits, whose prefill runs, who is ready to emit."""

    def __init__(self, settings: Settings, hardware: Hardware, journeys: Sequence[Journey]) -> None:
        self.settings = settings
        self.hardware = hardware
        self.to_come = deque(journeys)
        self.queue: deque[Journey] = deque()
        self.ready: deque[Journey] = deque()
        self.prefill: list[Journey] = []
        self.prefill_end = 0

    def run(self, end_tick: int) -> list[Tick]:
        ticks = []
        now = 0
        while now < end_tick:
            ticks.append(self._tick(now))
            now = self._next_tick(now, end_tick)
        return ticks

    def _tick(self, now: int) -> Tick:
        joined = self._join(now)
        emitted = self._emit(now)
        finished = [journey for journey in emitted if journey.finish is not None]
        started = self._start(now)
        reserved = self._reserved()
        prefilling = tuple(self.prefill)
        prefilled = self._end_prefill(now)
        return Tick(
            tick=now,
            joined=_ids(joined),
            emitted=tuple((journey.request.id, len(journey.token_ends)) for journey in emitted),
            finished=_ids(finished),
            started=_ids(started),
            prefilling=_ids(prefilling),
            prefilled=_ids(prefilled),
            queued=len(self.queue),
            ready=len(self.ready),
            cached=sum(journey.cached for journey in (*self.ready, *finished)),
            reserved=reserved,
        )

    def _join(self, now: int) -> list[Journey]:
        joined = []
        while self.to_come and self.to_come[0].arrival_tick <= now:
            joined.append(self.to_come.popleft())
        self.queue.extend(joined)
        return joined

    def _emit(self, now: int) -> list[Journey]:
        emitting = [self.ready.popleft() for _ in range(min(self.hardware.decode_slots, len(self.ready)))]
        for journey in emitting:
            journey.token_ends.append(now + 1)
        self.ready.extend(journey for journey in emitting if journey.finish is None)
        return emitting

    def _start(self, now: int) -> list[Journey]:
        """Take the longest prefix of the queue that the batch limit and the KV reserve allow, if the policy starts."""
        if self.prefill or not may_start(self.settings, self._moment(now)):
            return []
        room = self.hardware.kv_tokens - self._reserved()
        while self.queue and len(self.prefill) < self.settings.batch_limit and self.queue[0].request.tokens <= room:
            journey = self.queue.popleft()
            room -= journey.request.tokens
            journey.prefill_start = now
            self.prefill.append(journey)
        prompts = sum(journey.request.prompt for journey in self.prefill)
        self.prefill_end = now + ceil(Fraction(prompts, self.hardware.prefill_tokens_per_tick))
        return list(self.prefill)

    def _moment(self, now: int) -> Moment:
        waited = now * self.hardware.tick_s - self.queue[0].arrival_s if self.queue else Fraction(0)
        return Moment(len(self.queue), waited, len(self.ready) + len(self.prefill), bool(self.to_come))

    def _reserved(self) -> int:
        return sum(journey.request.tokens for journey in (*self.ready, *self.prefill))

    def _end_prefill(self, now: int) -> list[Journey]:
        if not self.prefill or self.prefill_end > now + 1:
            return []
        ended, self.prefill = self.prefill, []
        for journey in ended:
            journey.prefill_end = now + 1
        self.ready.extend(ended)
        return ended

    def _next_tick(self, now: int, end_tick: int) -> int:
        """The next tick in which anything can change; a machine with nothing started jumps over the idle ones."""
        if self.ready or self.prefill:
            return now + 1
        wakes = [end_tick]
        if self.to_come:
            wakes.append(self.to_come[0].arrival_tick)
        if self.queue and self.settings.policy is Policy.STATIC:
            due_s = self.queue[0].arrival_s + self.settings.max_wait_s
            wakes.append(ceil(due_s / self.hardware.tick_s))
        return max(now + 1, min(wakes))


def _ids(journeys: Sequence[Journey]) -> tuple[str, ...]:
    return tuple(journey.request.id for journey in journeys)
