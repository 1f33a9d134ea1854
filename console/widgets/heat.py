"""The latency heat map in lines: a shade a cell, slow rows in another colour, a box around a choice. Pure."""

import math
from typing import Final

from console.heat import Box, Heat
from console.timeline import Window, ticks
from console.widgets.ink import Line, Piece, duration, fit, runs

LABEL: Final = 10
"""Cells of the labels at the left."""
_SHADES: Final = "·░▒▓█"
_BOXED: Final = "┼"
"""An empty cell of a box, which also shows without colours."""
_LABELS: Final = 4
"""One row in so many is labelled."""


def heat_lines(heat: Heat, limit: int | None, box: Box | None) -> list[Line]:
    """One line a row, the largest values on top, then the axis of time. Rows from that of `limit` on stand out."""
    rows, columns = heat.shape
    slow = rows if limit is None else heat.row_of(limit)
    return [[*_label(heat, row, rows), *runs(_cells(heat, row, row >= slow, box))] for row in reversed(range(rows))] + [
        time_axis(heat.window, columns)
    ]


def time_axis(window: Window, columns: int) -> Line:
    """Ticks at round times, under `columns` cells beside the labels."""
    text = ["─"] * columns
    for tick in ticks(window, columns, 12):
        label = f"┴{tick.label} "
        if tick.column + len(label) <= columns:
            text[tick.column : tick.column + len(label)] = label
    cells = [(char, "line" if char in "─┴" else "muted") for char in text]
    return [(" " * (LABEL - 1), "muted"), ("└", "line"), *runs(cells)]


def cell_at(heat: Heat, x: int, y: int) -> tuple[int, int] | None:
    """Column and row of the cell at a place in the lines of `heat_lines`; None beside the cells."""
    rows, columns = heat.shape
    column, row = x - LABEL, rows - 1 - y
    return (column, row) if 0 <= column < columns and 0 <= row < rows else None


def _label(heat: Heat, row: int, rows: int) -> Line:
    """The upper edge of the top row, and of one row in a few."""
    told = (rows - 1 - row) % _LABELS == 0
    text = duration(int(heat.edges[row + 1])) if told else ""
    return [(fit(text, LABEL - 1, "right"), "muted"), ("┤" if told else "│", "line")]


def _cells(heat: Heat, row: int, slow: bool, box: Box | None) -> list[Piece]:
    style = "bad" if slow else "accent"
    chosen = range(0) if box is None or row not in box.rows else box.columns
    shades = (_shade(count, heat.fullest) for count in heat.counts[row].tolist())
    return [
        (_BOXED if shade == " " else shade, f"{style} on.line") if column in chosen else (shade, style)
        for column, shade in enumerate(shades)
    ]


def _shade(count: int, fullest: int) -> str:
    """By the logarithm: one request shows, and the fullest cell is the darkest."""
    if not count:
        return " "
    if fullest == 1:
        return _SHADES[-1]
    return _SHADES[round(math.log(count) / math.log(fullest) * (len(_SHADES) - 1))]
