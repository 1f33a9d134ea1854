"""Deadlines of those that have never started: given or by default, and whose has passed (SPEC A6)."""

import heapq
from typing import Final

from engine.config import SchedulerConfig
from engine.scheduling.sequence import Sequence

EXPIRED_WORDS: Final = "its deadline passed while it waited to be started"


def deadline_of(own: int | None, arrival: int, config: SchedulerConfig) -> int | None:
    """A request's own deadline, else the default from its arrival, if there is one; ns."""
    timeout_ns = config.default_timeout_microseconds * 1000
    return own if own is not None or not timeout_ns else arrival + timeout_ns


class Deadlines:
    """Those that wait and have a deadline, earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._waiting: dict[int, Sequence] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def earliest(self) -> int | None:
        """The next deadline to pass; None if nobody waits for one."""
        while self._heap and self._heap[0][1] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def join(self, sequence: Sequence) -> None:
        """It waits, perhaps without a deadline."""
        if sequence.request.deadline is not None:
            heapq.heappush(self._heap, (sequence.request.deadline, sequence.rid))
            self._waiting[sequence.rid] = sequence

    def leave(self, sequence: Sequence) -> None:
        """It waits no more, or its deadline counts no more."""
        self._waiting.pop(sequence.rid, None)

    def passed(self, now: int) -> list[Sequence]:
        """Take out those whose deadline has come, earliest first."""
        gone = []
        while (earliest := self.earliest) is not None and earliest <= now:
            gone.append(self._waiting.pop(heapq.heappop(self._heap)[1]))
        return gone
