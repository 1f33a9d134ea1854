"""Strips over one time axis: what a quantity was in each column, and its picture in blocks, braille or glyphs. Pure.

Three steps, each of use alone: series to one number a column (`peaks`, `means`, `readings`; NaN where none is known),
numbers to rows of cells (`blocks`, `braille`, `stacked`, `glyphs`), rows to lines with a gutter (`Strip.lines`).
A row is one `(glyph, style)` a column, so that a playhead can be drawn over it before it becomes a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from console.theme import Look
from console.timeline import Bools, Floats, Ints, Window
from console.widgets.ink import Line, Piece, fit, pad, runs

Row = list[Piece]

_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_DOTS: Final = np.array([[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]])
"""Bits of a braille cell by half column and by height from below; the lowest dots are last in Unicode's order."""
_BRAILLE: Final = 0x2800
_FILLED: Final = np.array([[int(bits[:level].sum()) for level in range(5)] for bits in _DOTS])
"""Bits of a half column that is filled up to a level of 0 to 4 dots."""
UNKNOWN: Final[Piece] = ("┄", "faint")
_BLANK: Final[Piece] = (" ", "text")


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity that has each of `values` from its instant in `times` to the next one, the last until `until`.

    Times are ns in ascending order; a value of NaN is not known.
    """

    times: Ints
    values: Floats
    until: int

    def __len__(self) -> int:
        return len(self.times)


def peaks(series: Series, window: Window, width: int) -> Floats:
    """The highest value that held in each of `width` columns; NaN outside the series and where it is not known."""
    if not len(series) or width <= 0:
        return _nothing(width)
    edges = window.edges(width)
    first = np.maximum(np.searchsorted(series.times, edges[:-1], "right") - 1, 0)
    stop = np.maximum(np.searchsorted(series.times, edges[1:], "left"), first + 1)
    ends = np.column_stack([first, stop]).ravel()
    highest: Floats = np.fmax.reduceat(np.append(series.values, np.nan), ends)[::2]
    highest[(edges[1:] <= series.times[0]) | (edges[:-1] >= series.until)] = np.nan
    return highest


def means(series: Series, window: Window, width: int) -> Floats:
    """The mean over time in each of `width` columns, of what is known; NaN where nothing is."""
    if not len(series) or width <= 0:
        return _nothing(width)
    bounds = np.append(series.times, series.until)
    known = ~np.isnan(series.values)
    lengths = np.diff(bounds)
    edges = window.edges(width)
    amount = _between(edges, bounds, np.where(known, series.values, 0.0) * lengths)
    time = _between(edges, bounds, np.where(known, lengths, 0).astype(np.float64))
    return np.divide(amount, time, out=_nothing(width), where=time > 0)


def readings(times: Ints, values: Floats, window: Window, width: int) -> Floats:
    """The mean of the readings taken in each of `width` columns; NaN where none was."""
    column = (times - window.start) * max(width, 0) // window.span
    inside = (column >= 0) & (column < width) & ~np.isnan(values)
    counts = np.bincount(column[inside], minlength=max(width, 0))
    sums = np.bincount(column[inside], values[inside], minlength=max(width, 0))
    return np.divide(sums, counts, out=_nothing(width), where=counts > 0)


def blocks(levels: Floats, top: float, height: int, style: str) -> list[Row]:
    """`height` rows of eighth blocks, `top` filling all; anything above 0 shows, what is not known is a dotted line."""
    eighths = _steps(levels, top, height * 8).tolist()
    return [
        [
            _unknown(row, height) if part < 0 else (_EIGHTHS[min(max(part - 8 * (height - 1 - row), 0), 8)], style)
            for part in eighths
        ]
        for row in range(height)
    ]


def braille(levels: Floats, top: float, height: int, style: str) -> list[Row]:
    """The same in braille, with two numbers a column: `levels` has twice as many entries as a row has cells."""
    dots = _steps(levels, top, height * 4)
    left, right = dots[::2], dots[1::2]
    rows: list[Row] = []
    for row in range(height):
        base = 4 * (height - 1 - row)
        bits = _half(left, base, 0) + _half(right, base, 1)
        known = (left >= 0) | (right >= 0)
        rows.append(
            [
                (chr(_BRAILLE + bit) if bit else " ", style) if is_known else _unknown(row, height)
                for bit, is_known in zip(bits.tolist(), known.tolist(), strict=True)
            ]
        )
    return rows


def stacked(parts: Sequence[tuple[Floats, Look]], top: float, height: int) -> list[Row]:
    """Parts of a whole on each other, the first at the bottom, each in whole cells of its own glyph."""
    if not parts:
        return []
    levels = np.array([np.nan_to_num(levels) for levels, _ in parts])
    known: Bools = ~np.all(np.isnan([levels for levels, _ in parts]), axis=0)
    shares = np.cumsum(levels, axis=0) / top if top > 0 else np.zeros_like(levels)
    reached = np.floor(shares * height + 0.5).astype(np.int64)
    # What is too little for a cell still shows, as its largest part.
    reached[(reached[-1] == 0) & (shares[-1] > 0) & (levels == levels.max(axis=0))] = 1
    looks = [(look.glyph, look.style) for _, look in parts]
    return [
        [
            _part(stack, height - 1 - row, looks) if is_known else _unknown(row, height)
            for stack, is_known in zip(reached.T, known.tolist(), strict=True)
        ]
        for row in range(height)
    ]


def glyphs(names: Sequence[str | None], looks: dict[str, Look]) -> Row:
    """One row of words as their glyphs; None, and a word without a look, is not known."""
    return [UNKNOWN if name is None or name not in looks else (looks[name].glyph, looks[name].style) for name in names]


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows under one name, with a number beside it: the value at a playhead, or the highest of the window."""

    name: str
    value: str
    rows: list[Row]

    def lines(self, gutter: int, notes: Sequence[str] = ()) -> list[Line]:
        """One line a row: name and value in the gutter of the first, `notes` in those of the rows below it."""
        heads = [_head(self.name, self.value, gutter), *(_head("", note, gutter) for note in notes)]
        return [
            [*(heads[place] if place < len(heads) else pad([], gutter)), *runs(row)]
            for place, row in enumerate(self.rows)
        ]


def _head(name: str, value: str, gutter: int) -> Line:
    """Where both have no room it is the name that is cut: who knows the strips can guess it, but no number."""
    left = max(gutter - 2 - len(value) - bool(value), 0)
    name = fit(name, min(len(name), left))
    room = max(gutter - 2 - len(name), 0)
    return pad([(f" {name}", "muted"), (fit(value, room, "right") + " ", "text")], gutter)


def highest(levels: Floats) -> float:
    """The highest number that is known; 0 where none is."""
    known = levels[~np.isnan(levels)]
    return float(known.max()) if len(known) else 0.0


def _nothing(width: int) -> Floats:
    return np.full(max(width, 0), np.nan)


def _between(edges: Ints, bounds: Ints, amounts: Floats) -> Floats:
    """How much of what is spread over the stretches between `bounds` lies between each two edges."""
    so_far = np.concatenate([[0.0], np.cumsum(amounts)])
    # Whole ns of a monotonic clock need more digits than a float has: count from the first bound.
    inner: Floats = np.diff(np.interp((edges - bounds[0]).astype(float), (bounds - bounds[0]).astype(float), so_far))
    return inner


def _steps(levels: Floats, top: float, most: int) -> Ints:
    """Levels as whole steps from 0 to `most`, at least 1 for anything above 0; -1 where not known."""
    known = ~np.isnan(levels)
    shares = np.where(known, levels, 0.0) / top if top > 0 else np.zeros(len(levels))
    steps = np.clip(np.ceil(shares * most - 0.5), np.where(known & (levels > 0), 1, 0), most).astype(np.int64)
    placed: Ints = np.where(known, steps, -1)
    return placed


def _half(dots: Ints, base: int, side: int) -> Ints:
    bits: Ints = _FILLED[side][np.clip(dots - base, 0, 4)]
    return bits


def _part(reached: Ints, level: int, looks: Sequence[Piece]) -> Piece:
    """Which part of a stack is at a level, counted in cells from the bottom."""
    over: Bools = reached > level
    return looks[int(over.argmax())] if over.any() else _BLANK


def _unknown(row: int, height: int) -> Piece:
    return UNKNOWN if row == height - 1 else _BLANK
