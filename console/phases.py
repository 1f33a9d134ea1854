"""The phases of lanes: all of them in memory, or, of a run that has too many, those of the lanes that are looked at."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from console.lane_columns import Columns
from console.timeline import Ints
from recorder.schema import NONE

Phase = tuple[str, int, int]
"""Name, start and end, ns on the run's clock."""

_STAMPED: Final = (
    ("ingress", "arrival"),
    ("queue", "queued"),
    ("prefill", "first_scheduled"),
    ("decode", "first_token"),
    ("return", "last_token"),
)
"""Which stamp begins a phase."""

_MOST: Final = 20_000
"""Lanes whose phases are remembered; who has looked at more of them can ask again."""


class Phases(Protocol):
    """What the lanes of a run went through."""

    def of(self, lane: int) -> list[Phase]:
        """Of one lane, in order of time."""
        ...

    def wanted(self) -> list[int]:
        """The lanes that were asked for and whose phases have to be read; they are told once."""
        ...

    def learn(self, lanes: Sequence[int], spans: pa.Table) -> None:
        """All phases (`lane, name, start, end`, in order) of some lanes have been read."""
        ...


class AllPhases(Phases):
    """All phases (`lane, name, start, end`) in the order of lane and time."""

    def __init__(self, spans: pa.Table, lanes: int) -> None:
        self._names = spans["name"].to_pylist()
        self._starts, self._ends = _ints(spans, "start"), _ints(spans, "end")
        self._first = np.searchsorted(_ints(spans, "lane"), np.arange(lanes + 1))

    def of(self, lane: int) -> list[Phase]:
        """They are in memory."""
        own = slice(int(self._first[lane]), int(self._first[lane + 1]))
        return list(zip(self._names[own], self._starts[own].tolist(), self._ends[own].tolist(), strict=True))

    def time_in(self, phase: str) -> Ints:
        """How long each lane was in a phase, in ns."""
        named = np.fromiter((name == phase for name in self._names), bool, len(self._names))
        so_far = np.concatenate([[0], np.cumsum(np.where(named, self._ends - self._starts, 0))])
        times: Ints = np.diff(so_far[self._first])
        return times

    def wanted(self) -> list[int]:
        """None."""
        return []

    def learn(self, lanes: Sequence[int], spans: pa.Table) -> None:
        """There is nothing to learn."""
        raise NotImplementedError


class SomePhases(Phases):
    """Phases that are read a screenful at a time; until then a lane shows those that its stamps prove."""

    def __init__(self, stamps: Columns) -> None:
        self._stamps = stamps
        self._known: dict[int, list[Phase]] = {}
        self._asked: dict[int, None] = {}

    def of(self, lane: int) -> list[Phase]:
        """As they were recorded, where they have been read."""
        found = self._known.get(lane)
        if found is None:
            self._asked[lane] = None
            return self._proved(lane)
        return found

    def wanted(self) -> list[int]:
        """Those that were asked for since it was asked last."""
        asked, self._asked = list(self._asked), {}
        return asked

    def learn(self, lanes: Sequence[int], spans: pa.Table) -> None:
        """Remember them, and forget others where they are many."""
        if len(self._known) + len(lanes) > _MOST:
            self._known = {}
        self._known.update({lane: [] for lane in lanes})
        for lane, name, start, end in zip(*(spans[name].to_pylist() for name in spans.column_names), strict=True):
            self._known[lane].append((name, start, end))

    def _proved(self, lane: int) -> list[Phase]:
        finish = int(self._stamps["finish"][lane])
        begun = [(name, int(self._stamps[stamp][lane])) for name, stamp in _STAMPED]
        known = [(name, start) for name, start in begun if start != NONE]
        ends = [*(start for _, start in known[1:]), finish]
        return [(name, start, end) for (name, start), end in zip(known, ends, strict=True) if end > start]


def _ints(table: pa.Table, name: str) -> Ints:
    column: Ints = table[name].cast(pa.int64()).fill_null(NONE).to_numpy()
    return column
