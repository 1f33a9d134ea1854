"""Points over time in braille: two by four dots a cell, each cell in the colour of its most striking point."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.timeline import Ints, Window, ticks
from console.widgets.ink import Line, duration, fit, runs

_DOTS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLANK: Final = 0x2800
LABEL: Final = 8
"""Cells of the labels at the left."""


@dataclass(frozen=True, slots=True)
class Points:
    """Instants, values in ns, and which of them stand out."""

    times: Ints
    values: Ints
    struck: NDArray[np.bool_]


def scatter(points: Points, window: Window, width: int, height: int) -> list[Line]:
    """`height` lines: values from 0 upwards, the axis of time in the last line.

    A point that is struck colours its cell. Words instead where there is no room or no point.
    """
    rows, columns = height - 1, width - LABEL
    if rows < 1 or columns < 4 or not len(points.times):
        return [[("no request to plot", "muted")]][: max(height, 0)]
    top = max(int(points.values.max()), 1)
    x = np.clip((points.times - window.start) * (columns * 2) // window.span, 0, columns * 2 - 1)
    y = rows * 4 - 1 - np.clip(points.values * (rows * 4) // (top + 1), 0, rows * 4 - 1)
    dots = np.zeros((rows, columns), np.int64)
    bad = np.zeros((rows, columns), bool)
    np.bitwise_or.at(dots, (y // 4, x // 2), _DOTS[y % 4, x % 2])
    np.logical_or.at(bad, (y // 4, x // 2), points.struck)
    middle = rows // 2
    labels = {0: duration(top)} | ({middle: duration(top * (rows - middle) // rows)} if rows > 2 else {})
    lines: list[Line] = []
    for row in range(rows):
        cells = [
            (chr(_BLANK + int(dot)), "bad" if struck_here else "accent") if dot else (" ", "text")
            for dot, struck_here in zip(dots[row], bad[row], strict=True)
        ]
        edge = "┤" if row in labels else "│"
        lines.append([(fit(labels.get(row, ""), LABEL - 1, "right"), "muted"), (edge, "line"), *runs(cells)])
    return [*lines, _axis(window, columns)]


def _axis(window: Window, columns: int) -> Line:
    text = ["─"] * columns
    for tick in ticks(window, columns, 12):
        label = f"┴{tick.label} "
        if tick.column + len(label) <= columns:
            text[tick.column : tick.column + len(label)] = label
    cells = [(char, "line" if char in "─┴" else "muted") for char in text]
    return [(" " * (LABEL - 1), "muted"), ("└", "line"), *runs(cells)]
