"""A window of the timeline as plain data: its lanes with their phases, its strips, its marks. What `--json` prints.

Instants are ns on the run's clock, with the run's beginning at `begin`; the window is told from there, as a filter
counts. A strip has one entry a column; null: not known. Of a run with too many lanes to hold all their phases, those
that nobody has looked at have what their stamps prove.
"""

from typing import Any, TypedDict

import numpy as np

from console.lanes import Lanes
from console.timeline import Floats, Passes
from console.widgets.frame import DEVICE, KV, WAITING, Frame
from console.widgets.runstrips import levels


class Span(TypedDict):
    """One phase of one attempt."""

    name: str
    start: int
    end: int


class StripSheet(TypedDict):
    """One worker: the kind of pass that fills most of each column, the most that waited and that was held in it, and
    the share of it in which the device was busy."""

    worker: int
    kinds: list[str | None]
    waiting: list[float | None]
    kv_used: list[float | None]
    device_busy: list[float | None]


class Sheet(TypedDict):
    """`lanes` of them are in the window; `requests` are the first of those, from the top, with all their columns."""

    begin: int
    since_ns: int
    until_ns: int
    order: str
    lanes: int
    columns: int
    requests: list[dict[str, Any]]
    strips: list[StripSheet]
    marks: list[dict[str, Any]]


def sheet(lanes: Lanes, frame: Frame, width: int, limit: int | None = None) -> Sheet:
    """What a frame shows, strips in `width` columns; at most `limit` lanes."""
    low, window, shown = lanes.window.low, frame.window, frame.lanes_of(lanes)
    rows = lanes.rows(shown[:limit]).to_pylist()
    for row, index in zip(rows, shown[:limit], strict=True):
        row["spans"] = [Span(name=name, start=start, end=end) for name, start, end in lanes.spans(index)]
    return Sheet(
        begin=low,
        since_ns=window.start - low,
        until_ns=window.end - low,
        order=frame.order,
        lanes=len(shown),
        columns=width,
        requests=rows,
        strips=[_strip(worker, passes, frame, width) for worker, passes in lanes.passes.items()],
        marks=[{"at": mark.at, "label": mark.label} for mark in frame.marks if window.start <= mark.at <= window.end],
    )


def _strip(worker: int, passes: Passes, frame: Frame, width: int) -> StripSheet:
    waiting, held, busy = (_known(levels(passes, what, frame.window, width)) for what in (WAITING, KV, DEVICE))
    kinds = passes.busiest(frame.window, width)
    return StripSheet(worker=worker, kinds=kinds, waiting=waiting, kv_used=held, device_busy=busy)


def _known(found: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in found]
