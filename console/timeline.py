"""The layout of the timeline, pure: which instant is in which column, what fills a cell, where ticks go.

Times are ns on the run's clock. A column is the half-open stretch between two neighbouring edges of the window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CLOSEST: Final = 1_000
"""The narrowest window, ns; closer there is nothing that a stamp from Python could resolve."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch `[start, end)` that is shown of a run's extent `[low, high)`."""

    low: int
    high: int
    start: int
    end: int

    @classmethod
    def whole(cls, low: int, high: int) -> Self:
        """Everything; a run without duration gets one of a microsecond, so that it has a place."""
        high = max(high, low + CLOSEST)
        return cls(low, high, low, high)

    @property
    def span(self) -> int:
        """Its length in ns, at least 1."""
        return self.end - self.start

    def edges(self, width: int) -> Ints:
        """The `width + 1` instants between columns."""
        edges: Ints = self.start - (-np.arange(width + 1, dtype=np.int64) * self.span // max(width, 1))
        return edges

    def column(self, t: int, width: int) -> int:
        """The column that holds `t`; below 0 or from `width` on when `t` is outside."""
        return (t - self.start) * width // self.span

    def instant(self, column: int, width: int) -> int:
        """The first instant of a column."""
        return self.start + -(-column * self.span // max(width, 1))

    def zoom(self, numerator: int, denominator: int, about: int) -> Self:
        """The span times `numerator / denominator`; `about` keeps its place on the screen, if it is on it."""
        span = min(max(self.span * numerator // denominator, min(CLOSEST, self.high - self.low)), self.high - self.low)
        fixed = about if self.start <= about <= self.end else self.start + self.span // 2
        return self._at(fixed - (fixed - self.start) * span // self.span, span)

    def pan(self, numerator: int, denominator: int) -> Self:
        """Moved by a part of its span, never beyond the run."""
        return self._at(self.start + self.span * numerator // denominator, self.span)

    def fit(self) -> Self:
        """The whole run."""
        return self._at(self.low, self.high - self.low)

    def reveal(self, t: int) -> Self:
        """Itself where `t` is on screen, else moved so that `t` is a quarter from the nearer side."""
        if self.start <= t < self.end or (t == self.high == self.end):
            return self
        lead = self.span // 4 if t >= self.end else self.span * 3 // 4
        return self._at(t - lead if t < self.start else t - self.span + lead, self.span)

    def centred(self, t: int) -> Self:
        """Moved so that `t` is in its middle, or as near to it as the run goes."""
        return self._at(t - self.span // 2, self.span)

    def around(self, start: int, end: int) -> Self:
        """A window that shows `[start, end)` with a tenth of air on both sides, where the run has it."""
        air = max((end - start) // 10, CLOSEST // 2)
        span = min(max(end - start + 2 * air, CLOSEST), self.high - self.low)
        return self._at(start - air, span)

    def between(self, start: int, end: int) -> Self:
        """Exactly `[start, end)`, both inside the run; never narrower than what can be told apart."""
        return self._at(start, min(max(end - start, CLOSEST), self.high - self.low))

    def latest(self, span: int) -> Self:
        """The last `span` ns of the run, or all of a shorter one."""
        span = min(span, self.high - self.low)
        return self._at(self.high - span, span)

    def over(self, low: int, high: int) -> Self:
        """The same window over a run that has grown; one that showed everything still does."""
        grown = replace(self, low=low, high=max(high, low + CLOSEST))
        return grown.fit() if (self.start, self.end) == (self.low, self.high) else grown._at(self.start, self.span)

    def _at(self, start: int, span: int) -> Self:
        start = min(max(start, self.low), self.high - span)
        return replace(self, start=start, end=start + span)


def lane_cells(spans: Iterable[tuple[str, int, int]], window: Window, width: int) -> list[str | None]:
    """The phase in each of `width` columns: the one that fills most of it; None where there is none.

    `spans` are `(phase, start, end)` in order of time. However short a span is, it wins an otherwise empty column.
    """
    cells: list[str | None] = [None] * width
    covered = [0] * width
    for phase, start, end in spans:
        if end <= window.start or start >= window.end or width == 0:
            continue
        first = max(window.column(start, width), 0)
        last = min(window.column(end - 1, width), width - 1)
        for column in (first, last):
            amount = min(end, window.instant(column + 1, width)) - max(start, window.instant(column, width))
            if max(amount, 1) > covered[column]:
                cells[column], covered[column] = phase, max(amount, 1)
        if last - first > 1:
            cells[first + 1 : last] = [phase] * (last - first - 1)
    return cells


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the time axis."""

    column: int
    label: str


def ticks(window: Window, width: int, apart: int = 14) -> list[Tick]:
    """Marks at round times since the run's beginning, at least `apart` columns from each other."""
    if width <= 0:
        return []
    step = _round_step(window.span * apart // width + 1)
    first = -(-(window.start - window.low) // step) * step
    instants = range(window.low + first, window.end, step)
    return [Tick(window.column(t, width), _tick_label(t - window.low, step)) for t in instants]


def _round_step(least: int) -> int:
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def _tick_label(since: int, step: int) -> str:
    """As many digits as tell neighbours apart: `12s`, `12.25s`, `12.000250s`."""
    if since == 0:
        return "0s"
    digits = 0
    while digits < 9 and step % 10 ** (9 - digits):
        digits += 1
    whole, rest = divmod(since, 10**9)
    return f"{whole}.{rest:09d}"[: len(str(whole)) + 1 + digits].rstrip(".") + "s"


class Passes:
    """The passes of one worker, in order; they tile time, so most questions are one look into a running sum."""

    def __init__(
        self, columns: dict[str, Ints], kinds: Sequence[str], kind_of: Ints, head_reasons: Sequence[str] = ()
    ) -> None:
        self.columns = columns
        self.starts, self.ends = columns["t_sched"], columns["t_end"]
        self.kinds, self.kind_of = kinds, kind_of
        self.head_reasons = head_reasons
        lengths = self.ends - self.starts
        self._filled = {
            kind: np.concatenate([[0], np.cumsum(np.where(kind_of == i, lengths, 0))]) for i, kind in enumerate(kinds)
        }
        self._bounds = np.append(self.starts, self.ends[-1:])

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, t: int) -> int | None:
        """The index of the pass that holds instant `t`; the last one also holds its end."""
        place = int(np.searchsorted(self.starts, t, "right")) - 1
        if place < 0 or t > self.ends[place] or (t == self.ends[place] and place + 1 < len(self)):
            return None
        return place

    def before(self, t: int) -> int | None:
        """The index of the last pass that began at or before `t`."""
        place = int(np.searchsorted(self.starts, t, "right")) - 1
        return place if place >= 0 else None

    def kind_at(self, place: int) -> str:
        """The kind of the pass at an index."""
        return self.kinds[int(self.kind_of[place])]

    def busiest(self, window: Window, width: int) -> list[str | None]:
        """The kind that fills most of each column; None outside the recording."""
        if not len(self) or width <= 0:
            return [None] * max(width, 0)
        edges = window.edges(width)
        amounts = np.array([np.diff(np.interp(edges, self._bounds, self._filled[kind])) for kind in self.kinds])
        winners, best = amounts.argmax(axis=0), amounts.max(axis=0)
        return [self.kinds[kind] if amount > 0 else None for kind, amount in zip(winners, best, strict=True)]

    def peaks(self, values: Ints, window: Window, width: int) -> list[int | None]:
        """The highest value (one a pass) that held in each column; None outside the recording."""
        if not len(self) or width <= 0:
            return [None] * max(width, 0)
        edges = window.edges(width)
        first = np.maximum(np.searchsorted(self.starts, edges[:-1], "right") - 1, 0)
        stop = np.maximum(np.searchsorted(self.starts, edges[1:], "left"), first + 1)
        inside = (edges[1:] > self.starts[0]) & (edges[:-1] < self.ends[-1])
        return [int(values[a:b].max()) if seen else None for a, b, seen in zip(first, stop, inside, strict=True)]


def in_flight(starts: Ints, ends: Ints, edges: Ints) -> Ints:
    """How many of the stretches `[start, end)` touch each column between `edges`."""
    begun = np.searchsorted(np.sort(starts, kind="stable"), edges[1:], "left")
    over = np.searchsorted(np.sort(ends, kind="stable"), edges[:-1], "right")
    flying: Ints = np.maximum(begun - over, 0).astype(np.int64)
    return flying
