"""In which order waiting requests start: by arrival, by a key that never changes, or fair to tenants. Nobody starves.

An order holds those that have never started. It is asked for its front, and told of every start.
"""

import heapq
import math
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from engine.config import SchedulerConfig
from engine.core import Request
from engine.scheduling.sequence import Sequence
from recorder.words import Reason

Key = Callable[[Sequence], float]
"""Smaller starts earlier; among equals, who came first. It must not change while its sequence waits."""

_NEVER: Final = math.inf


def make_order(config: SchedulerConfig) -> "Order":
    """The configured order, empty."""
    if config.order == "fcfs":
        return Order()
    if config.order == "fair":
        return FairOrder(config.fair_output_weight)
    return KeyOrder(_key(config), math.ceil(1 / config.min_share))


def level(request: Request, config: SchedulerConfig) -> int:
    """Priority of a request, 1 the highest: its own, else its tier's place, else the default."""
    if request.priority:
        return min(request.priority, config.priority_levels)
    if request.tier in config.tiers:
        return config.tiers.index(request.tier) + 1
    return config.default_priority_level


def _key(config: SchedulerConfig) -> Key:
    if config.order == "spf":
        return lambda sequence: sequence.request.prompt_tokens
    if config.order == "edf":
        return _deadline
    ageing_ns = config.ageing_ns
    return lambda sequence: sequence.progress.queued + (level(sequence.request, config) - 1) * ageing_ns


def _deadline(sequence: Sequence) -> float:
    deadline = sequence.request.deadline
    return _NEVER if deadline is None else deadline


class Order:
    """First come, first served; the other orders begin here."""

    def __init__(self) -> None:
        self._by_age: OrderedDict[int, Sequence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_age)

    @property
    def oldest(self) -> Sequence:
        """Who has waited longest. Of an empty order: StopIteration."""
        return next(iter(self._by_age.values()))

    @property
    def front(self) -> Sequence:
        """Who starts next. Of an empty order: StopIteration."""
        return next(self.in_order())

    def in_order(self) -> Iterator[Sequence]:
        """All of them, as they would start if nobody else came."""
        yield from self._by_age.values()

    def why_front(self) -> Reason:
        """Why the front is not simply who came first; NONE if it is."""
        return Reason.NONE if self.front is self.oldest else Reason.ORDER

    def join(self, sequence: Sequence) -> None:
        """It waits from now on."""
        self._by_age[sequence.rid] = sequence

    def leave(self, sequence: Sequence) -> None:
        """It waits no more: it has started, or was cancelled."""
        del self._by_age[sequence.rid]

    def start(self) -> Sequence:
        """Take the front out, to start it."""
        sequence = self.front
        self.leave(sequence)
        return sequence

    def served(self, sequence: Sequence, output_tokens: int) -> None:
        """A started one was given output tokens."""

    def delay(self, sequence: Sequence) -> None:
        """Its deadline has passed: it goes behind all that wait now."""
        self._by_age.move_to_end(sequence.rid)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence.rid in self._by_age


class KeyOrder(Order):
    """By a key; but every `every`-th start is that of the oldest, whatever its key (SPEC D6).

    So one that joins behind n others has started after `every * (n + 1)` starts, whatever comes later.
    """

    def __init__(self, key: Key, every: int) -> None:
        super().__init__()
        self._key = key
        self._every = every
        self._starts = 0
        self._joined = count()
        self._sorted: list[tuple[float, int, int]] = []
        """Key, number of the arrival, rid."""
        self._places: dict[int, tuple[float, int, int]] = {}

    def join(self, sequence: Sequence) -> None:
        """It waits from now on, in the place that its key gives it."""
        super().join(sequence)
        place = self._places[sequence.rid] = (self._key(sequence), next(self._joined), sequence.rid)
        insort(self._sorted, place)

    def leave(self, sequence: Sequence) -> None:
        """It waits no more."""
        super().leave(sequence)
        del self._sorted[bisect_left(self._sorted, self._places.pop(sequence.rid))]

    def delay(self, sequence: Sequence) -> None:
        """Its key counts no more; what is given to the oldest still is."""
        place = self._places[sequence.rid]
        del self._sorted[bisect_left(self._sorted, place)]
        last = self._places[sequence.rid] = (_NEVER, place[1], sequence.rid)
        insort(self._sorted, last)

    def start(self) -> Sequence:
        """Take the front out, to start it; this is one more start."""
        sequence = super().start()
        self._starts += 1
        return sequence

    def in_order(self) -> Iterator[Sequence]:
        """By key, with the oldest in between."""
        taken: set[int] = set()
        by_key, by_age = (self._by_age[rid] for _, _, rid in self._sorted), iter(self._by_age.values())
        for start in range(self._starts + 1, self._starts + len(self) + 1):
            source = by_key if start % self._every else by_age
            sequence = next(waiting for waiting in source if waiting.rid not in taken)
            taken.add(sequence.rid)
            yield sequence

    def why_front(self) -> Reason:
        """ORDER for who overtakes, MIN_SHARE for the oldest whom its key alone would not have brought here."""
        if self.front is not self.oldest:
            return Reason.ORDER
        return Reason.NONE if self._sorted[0][2] == self.oldest.rid else Reason.MIN_SHARE


class FairOrder(Order):
    """Whichever tenant was served least, by a virtual counter of tokens; each tenant's own first come, first served.

    A start counts the prompt, each output token `output_weight`. A tenant that comes back counts at least as much as
    the least of those that wait, so that nobody saves up. While two wait, what they are given stays within a constant.
    """

    def __init__(self, output_weight: float) -> None:
        super().__init__()
        self._output_weight = output_weight
        self._counters: dict[str, float] = {}
        self._lanes: dict[str, OrderedDict[int, Sequence]] = {}
        """Of tenants that wait."""
        self._last_left = 0.0
        """Counter of the tenant whose last request was the last to start."""

    def join(self, sequence: Sequence) -> None:
        """It waits in its tenant's lane; a new lane is lifted to the least of the others."""
        super().join(sequence)
        tenant = sequence.request.tenant
        if tenant not in self._lanes:
            least = min((self._counters[other] for other in self._lanes), default=self._last_left)
            self._counters[tenant] = max(self._counters.get(tenant, 0.0), least)
            self._lanes[tenant] = OrderedDict()
        self._lanes[tenant][sequence.rid] = sequence

    def leave(self, sequence: Sequence) -> None:
        """It waits no more; a lane without requests is closed."""
        super().leave(sequence)
        tenant = sequence.request.tenant
        del self._lanes[tenant][sequence.rid]
        if not self._lanes[tenant]:
            del self._lanes[tenant]
            self._last_left = self._counters[tenant]

    def delay(self, sequence: Sequence) -> None:
        """It goes to the end of its lane."""
        super().delay(sequence)
        self._lanes[sequence.request.tenant].move_to_end(sequence.rid)

    def start(self) -> Sequence:
        """Take the front out; its prompt counts at once."""
        sequence = self.front
        self._counters[sequence.request.tenant] += sequence.request.prompt_tokens
        self.leave(sequence)
        return sequence

    def served(self, sequence: Sequence, output_tokens: int) -> None:
        """Output counts as it comes: how much there will be is not known before."""
        self._counters[sequence.request.tenant] += output_tokens * self._output_weight

    def in_order(self) -> Iterator[Sequence]:
        """Lane by lane, as the prompts of those before would count."""
        lanes = {tenant: iter(lane.values()) for tenant, lane in self._lanes.items()}
        heap = [(self._counters[tenant], next(lane).rid, tenant) for tenant, lane in lanes.items()]
        heapq.heapify(heap)
        while heap:
            counter, rid, tenant = heapq.heappop(heap)
            sequence = self._by_age[rid]
            yield sequence
            following = next(lanes[tenant], None)
            if following is not None:
                heapq.heappush(heap, (counter + sequence.request.prompt_tokens, following.rid, tenant))
