"""Which stretches of time the flight recorder keeps: a pure function of the attempts that ended and the settings."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from recorder.attribution.columns import Bools, Ints
from recorder.words import Status

FOR_EVER: Final = 2**62
"""Later than any instant, yet far enough from the edge of int64 that sums don't wrap."""

_ALWAYS: Final = frozenset({Status.OPEN, Status.FAILED, Status.EXPIRED})
"""Who ended like this (or did not before the run did) got no answer: slow, however soon it was told so."""

Window = tuple[int, int]
"""First and last instant that is kept, ns."""


@dataclass(frozen=True)
class KeepRule:
    """Which attempts are slow, and how much time around them is kept.

    `slo_ns` of 0: no attempt is slow by itself. `slowest` is the share of the last `among` attempts that is slow
    however fast all are; 0: none.
    """

    slo_ns: int = 0
    slowest: float = 0.0
    among: int = 1000
    margin_ns: int = 0


@dataclass(frozen=True)
class Ended:
    """One attempt with its last row; `end` is its return, or the last instant known of it."""

    status: Status
    arrival: int
    end: int


class Judge:
    """Says of one attempt after the other whether it was slow: by the earlier ones alone, so a verdict is final."""

    def __init__(self, rule: KeepRule) -> None:
        self._rule = rule
        self._latest: deque[int] = deque()
        self._sorted: list[int] = []

    def is_slow(self, attempt: Ended) -> bool:
        """Whether the time around it is kept. Attempts that were turned away took no time of any worker."""
        if attempt.status is Status.REJECTED:
            return False
        length = attempt.end - attempt.arrival
        broke = 0 < self._rule.slo_ns < length
        return self._is_among_slowest(length) or broke or attempt.status in _ALWAYS

    def _is_among_slowest(self, length: int) -> bool:
        """Whether it is one of the slowest share of the last ones, itself included. Of equals the later is slower."""
        if not self._rule.slowest:
            return False
        insort(self._sorted, length)
        self._latest.append(length)
        if len(self._latest) > self._rule.among:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        return length >= self._sorted[-ceil(self._rule.slowest * len(self._sorted))]


def window(attempt: Ended, rule: KeepRule) -> Window:
    """The life of a slow attempt and the margin on both sides."""
    return attempt.arrival - rule.margin_ns, attempt.end + rule.margin_ns


def kept_windows(attempts: Iterable[Ended], rule: KeepRule) -> list[Window]:
    """The windows around the slow ones among attempts in the order in which they ended; apart, and in order."""
    judge = Judge(rule)
    return union(window(attempt, rule) for attempt in attempts if judge.is_slow(attempt))


def union(windows: Iterable[Window]) -> list[Window]:
    """The same instants as windows that lie apart and in order."""
    return list(_merged(sorted(windows)))


def _merged(ordered: list[Window]) -> Iterator[Window]:
    if not ordered:
        return
    begin, end = ordered[0]
    for first, last in ordered[1:]:
        if first > end:
            yield begin, end
            begin, end = first, last
        end = max(end, last)
    yield begin, end


def touched(windows: list[Window], begin: Ints, end: Ints) -> Bools:
    """Which of the stretches [begin, end] share an instant with any of the windows, which lie apart and in order."""
    if not windows:
        return np.zeros(len(begin), bool)
    bounds = np.array(windows, np.int64)
    at = np.searchsorted(bounds[:, 1], begin)
    nearest = np.minimum(at, len(bounds) - 1)
    found: Bools = (at < len(bounds)) & (bounds[nearest, 0] <= end)
    return found
