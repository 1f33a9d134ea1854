"""Where requests come from during a simulation: a list known beforehand, users who wait for answers, and whoever is
turned away and comes again."""

import heapq
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Generic, TypeVar

from engine.load.retry import Refusal, RetryBudget, Retrying, decide
from engine.simulate.drive import FOREVER, Source
from engine.simulate.front import Arrival, Outcome, request_id
from engine.simulate.workload import Workload

Asked = TypeVar("Asked")


class OpenLoop(Generic[Asked]):
    """Requests come when they come, whatever the answers do (SPEC B8). Implements `engine.simulate.drive.Source`."""

    closed = False

    def __init__(self, workload: Workload, make: Callable[[int, int], Asked]) -> None:
        self._arrival: list[int] = workload.arrival.tolist()
        self._make = make
        self._taken = 0

    def peek(self) -> float | None:
        """Arrival of the next request."""
        return self._arrival[self._taken] if self._taken < len(self._arrival) else None

    def take(self) -> Asked:
        """The next request, made of its place and its arrival."""
        index = self._taken
        self._taken += 1
        return self._make(index, self._arrival[index])

    def ended(self, rid: int, t: int) -> None:
        """Nobody waits for it."""


class ClosedLoop(Generic[Asked]):
    """Users who think after each answer, then ask again (SPEC B8). Implements `engine.simulate.drive.Source`."""

    closed = True

    def __init__(self, workload: Workload, make: Callable[[int, int], Asked]) -> None:
        if workload.closed is None:
            raise ValueError("the workload is an open loop")
        self._think: list[int] = workload.closed.think_ns.tolist()
        self._to_come: list[int] = workload.arrival.tolist()
        self._left = len(workload)
        self._make = make
        self._taken = 0

    def peek(self) -> float | None:
        """Arrival of the next request; FOREVER while all users wait for answers."""
        if self._taken == self._left:
            return None
        return self._to_come[0] if self._to_come else FOREVER

    def take(self) -> Asked:
        """The next request of whoever has thought enough."""
        index = self._taken
        self._taken += 1
        return self._make(index, heapq.heappop(self._to_come))

    def ended(self, rid: int, t: int) -> None:
        """Its user begins to think; how long goes with the request that has ended."""
        heapq.heappush(self._to_come, t + self._think[rid - 1])


class Clients:
    """Who is turned away at the door comes again as often as `retrying` has it, by the policy of `tailtrace load`
    (SPEC A8, B2). Implements `engine.simulate.drive.Source`: the n-th request taken gets rid n."""

    def __init__(self, source: Source[Arrival], retrying: Retrying) -> None:
        self._source = source
        self._retrying = retrying
        self._budget = RetryBudget(retrying.budget_share)
        self._again: list[tuple[int, int, Arrival]] = []
        """When they come again, the number that they had in the source, and the attempt."""
        self._numbers: list[int] = []
        """Of each rid, its number in the source."""
        self._rids: dict[int, int] = {}
        """Of each number, the rid of its latest attempt."""

    @property
    def closed(self) -> bool:
        """Whether the source's arrivals depend on when answers come."""
        return self._source.closed

    def peek(self) -> float | None:
        """Arrival of the next request, be it the first of its client or another attempt."""
        following = self._source.peek()
        if not self._again:
            return following
        return self._again[0][0] if following is None else min(following, self._again[0][0])

    def take(self) -> Arrival:
        """The next request; of two at one instant the one that comes for the first time."""
        following = self._source.peek()
        if self._again and (following is None or self._again[0][0] < following):
            _, number, asked = heapq.heappop(self._again)
        else:
            asked, number = self._source.take(), len(self._rids) + 1
            self._budget.sent()
        self._numbers.append(number)
        self._rids[number] = len(self._numbers)
        return replace(asked, prefix_of=self._rids.get(asked.prefix_of, 0)) if asked.attempt == 1 else asked

    def ended(self, rid: int, t: int) -> None:
        """The client of that request has its answer."""
        self._source.ended(self._numbers[rid - 1], t)

    def handed_back(self, asked: Arrival) -> None:
        """It goes on with another worker, as its own is lost."""
        heapq.heappush(self._again, (asked.routed, self._numbers[(asked.retry_of or 0) - 1], asked))

    def turned_away(self, outcome: Outcome) -> None:
        """It comes again, or has its answer with that."""
        asked, t = outcome.arrival, outcome.returned or outcome.arrival.arrival
        name = asked.request_id or request_id(outcome.rid)
        again = decide(
            Refusal(outcome.http_status, t / 1e9, outcome.retry_after_ms, t / 1e9),
            self._retrying,
            asked.attempt - 1,
            left_ns=None if asked.deadline is None else asked.deadline - t,
            budget=self._budget,
            draw=Random(f"{name} {asked.attempt}").random(),
        )
        if again.wait_ns is None:
            self.ended(outcome.rid, t)
            return
        later = replace(
            asked, arrival=t + again.wait_ns, attempt=asked.attempt + 1, retry_of=outcome.rid, request_id=name
        )
        heapq.heappush(self._again, (later.arrival, self._numbers[outcome.rid - 1], later))
