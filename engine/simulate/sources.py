"""Where requests come from during a simulation: a list known beforehand, or users who wait for answers."""

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.simulate.drive import FOREVER
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
