"""The latency heat map: who came when and took how long, boxes of its cells, and the filter that a box means. Pure."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np

from console.filter import Bound, Filter
from console.lanes import Lanes
from console.tiles import histogram
from console.timeline import Ints, Window
from recorder.schema import NONE

_WIDE: Final = 4
"""From this ratio of the largest value to the smallest on, rows grow by a factor and not by an amount."""


@dataclass(frozen=True, slots=True)
class Box:
    """Some cells: from the corner that stays to the one that moves, both inside. Row 0 holds the lowest values."""

    column: int
    row: int
    to_column: int
    to_row: int

    @property
    def columns(self) -> range:
        """Its columns."""
        return range(min(self.column, self.to_column), max(self.column, self.to_column) + 1)

    @property
    def rows(self) -> range:
        """Its rows."""
        return range(min(self.row, self.to_row), max(self.row, self.to_row) + 1)

    def stretched(self, columns: int, rows: int, within: tuple[int, int]) -> Self:
        """With its second corner moved, inside `within` (rows, columns) cells."""
        high, wide = within
        column = min(max(self.to_column + columns, 0), wide - 1)
        return replace(self, to_column=column, to_row=min(max(self.to_row + rows, 0), high - 1))

    def moved(self, columns: int, rows: int, within: tuple[int, int]) -> Self:
        """As a whole, as far as `within` has cells."""
        high, wide = within
        columns = min(max(columns, -self.columns.start), wide - self.columns.stop)
        rows = min(max(rows, -self.rows.start), high - self.rows.stop)
        return replace(
            self,
            column=self.column + columns,
            row=self.row + rows,
            to_column=self.to_column + columns,
            to_row=self.to_row + rows,
        )


@dataclass(frozen=True)
class Heat:
    """One measure of many requests in `rows` by `columns` cells.

    `edges` are the `rows + 1` values between the rows in ns; `began` is the run's first arrival.
    """

    measure: str
    window: Window
    edges: Ints
    counts: Ints
    began: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.counts), self.counts.shape[1]

    @cached_property
    def fullest(self) -> int:
        """The count of its fullest cell."""
        return int(self.counts.max(initial=0))

    def inside(self, box: Box) -> int:
        """How many requests a box holds."""
        return int(self.counts[np.ix_(list(box.rows), list(box.columns))].sum())

    def row_of(self, value: int) -> int:
        """The row that holds a value; the nearest one where none does."""
        return min(max(int(np.searchsorted(self.edges, value, "right")) - 1, 0), len(self.edges) - 2)

    def hottest(self, limit: int | None) -> Box:
        """Where to begin looking: the fullest cell of those over `limit`, else of all."""
        _, columns = self.shape
        first = 0 if limit is None else self.row_of(limit)
        first = first if self.counts[first:].any() else 0
        row, column = divmod(int(self.counts[first:].argmax()), columns)
        return Box(column, row + first, column, row + first)

    def bounds(self, box: Box) -> tuple[int, int, int, int]:
        """Earliest arrival, latest (excluded), least value, largest (excluded); arrivals since the run began, ns."""
        columns = self.shape[1]
        start, end = (self.window.instant(column, columns) for column in (box.columns.start, box.columns.stop))
        return start - self.began, end - self.began, int(self.edges[box.rows.start]), int(self.edges[box.rows.stop])

    def filter(self, box: Box) -> Filter:
        """The requests of a box, and no others."""
        start, end, low, high = self.bounds(box)
        return Filter(
            (
                Bound("arrival", ">=", max(start, 0)),
                Bound("arrival", "<", end),
                Bound(self.measure, ">=", low),
                Bound(self.measure, "<", high),
            )
        )


def heat_of(lanes: Lanes, measure: str, window: Window, rows: int, columns: int) -> Heat | None:
    """The lanes in sight that have the measure, by arrival; None where there is none, or no room for a cell."""
    values = lanes.columns[measure]
    known = lanes.in_sight & (values != NONE)
    if rows < 1 or columns < 1 or not known.any():
        return None
    times, values = lanes.columns["arrival"][known], values[known]
    # A mean may have been rounded up to a whole ns: the lowest edge stays below what it was.
    edges = value_edges(max(int(values.min()) - 1, 0), int(values.max()), rows)
    counts = histogram(times, values, window, edges, columns)
    return Heat(measure, window, edges, counts, int(lanes.columns["arrival"].min()))


def value_edges(low: int, high: int, rows: int) -> Ints:
    """`rows + 1` ascending whole edges around `[low, high]`; by a factor where values differ by much."""
    end = max(high + 1, low + rows)
    even = low + (end - low) * np.arange(rows + 1, dtype=np.int64) // rows
    if high < _WIDE * max(low, 1):
        return even
    grown = np.geomspace(max(low, 1), end, rows + 1).round().astype(np.int64)
    grown[0], grown[-1] = low, end
    return grown if (np.diff(grown) > 0).all() else even
