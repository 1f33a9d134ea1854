"""The minimap: the whole run in one row or two, with the window on it, and where requests went over the SLO."""

import numpy as np

from console.lanes import Lanes
from console.timeline import Ints, Window
from console.widgets.cursor import Overlay
from console.widgets.frame import Frame, Geometry
from console.widgets.ink import Line, Piece, duration, fit, runs, spark

_MISS = "▴"


def minimap(lanes: Lanes, frame: Frame, shape: Geometry) -> list[Line]:
    """How many requests were in flight; below, where there is a second row, the misses and the window as a bar.

    In one row the window has brackets, unless it is everything.
    """
    whole = lanes.window
    lit = window_columns(whole, frame.window, shape.chart)
    counts = lanes.flying(shape.chart)
    most = max(counts, default=0) or 1
    cells = [(spark(count / most), "accent" if column in lit else "faint") for column, count in enumerate(counts)]
    if shape.minimap == 1 and len(lit) < shape.chart and lit:
        cells[lit[0]], cells[lit[-1]] = ("[", "accent bold"), ("]", "accent bold")
    label = fit(f" run {duration(whole.span)}", shape.gutter - 1) + " "
    head = min(whole.column(frame.at, shape.chart), shape.chart - 1)
    first: Line = [(label[: shape.gutter], "muted"), *Overlay(head).over(cells)]
    return [first, _bar(whole, frame, shape, lit)][: shape.minimap]


def window_columns(whole: Window, window: Window, width: int) -> range:
    """The columns of the whole run that a window covers, at least in part."""
    if width <= 0:
        return range(0)
    return range(whole.column(window.start, width), whole.column(window.end - 1, width) + 1)


def miss_columns(misses: Ints | None, whole: Window, width: int) -> set[int]:
    """The columns of the whole run in which a request went over the SLO."""
    if misses is None or not len(misses) or width <= 0:
        return set()
    columns = np.minimum((misses - whole.start) * width // whole.span, width - 1)
    return set(np.flatnonzero(np.bincount(columns)).tolist())


def _bar(whole: Window, frame: Frame, shape: Geometry, lit: range) -> Line:
    missed = miss_columns(frame.misses, whole, shape.chart)
    cells: list[Piece] = []
    for column in range(shape.chart):
        ground = " on.line" if column in lit else ""
        if column in missed:
            cells.append((_MISS, f"bad{ground}"))
        else:
            cells.append(("━", f"accent{ground}") if column in lit else (" ", "text"))
    count = 0 if frame.misses is None else len(frame.misses)
    label = fit(f" {_MISS} {count:,} over the SLO" if shape.gutter >= 28 else f" {_MISS} {count:,} slow", shape.gutter)
    return [(label, "muted"), *runs(cells)]
