"""The strips of the timeline: what a worker computed, who waited, which blocks were held, how busy the device was."""

from typing import Final

import numpy as np

from console import theme
from console.lanes import Lanes
from console.timeline import Floats, Ints, Passes, Window
from console.widgets.frame import DEVICE, KV, STEPS, WAITING, Band, Frame, Geometry
from console.widgets.ink import percent
from console.widgets.strips import Row, Series, Strip, blocks, glyphs, means, peaks
from recorder.schema import NONE

_NAMES: Final = {WAITING: "waiting", KV: "KV", DEVICE: "device"}
_STYLES: Final = {WAITING: "phase.queue", KV: "host", DEVICE: "flight"}
_NAMED: Final = 20
"""From this width of the gutter on a worker is called one."""


class Drawn:
    """The strips of one window, drawn once and kept until another is looked at: while the playhead moves over them,
    nothing is worked out again."""

    def __init__(self) -> None:
        self._of: tuple[Lanes, Window, int] | None = None
        self._rows: dict[Band, list[Row]] = {}

    def strip(self, lanes: Lanes, band: Band, frame: Frame, shape: Geometry) -> Strip:
        """One strip, with what it is at the playhead in its gutter."""
        window, width = frame.window, shape.chart
        if self._of is None or self._of[0] is not lanes or self._of[1:] != (window, width):
            self._of, self._rows = (lanes, window, width), {}
        passes = lanes.passes[band.worker]
        if band not in self._rows:
            self._rows[band] = _rows(passes, band, window, width)
        name = _NAMES.get(band.what) or (f"worker {band.worker}" if shape.gutter >= _NAMED else f"w{band.worker}")
        return Strip(name, _value(passes, band, frame.at), [list(row) for row in self._rows[band]])


def levels(passes: Passes, what: str, window: Window, width: int) -> Floats:
    """The most that waited or was held in each column, or which share of it the device was busy; NaN where unknown."""
    if what == DEVICE:
        lengths = np.maximum(passes.ends - passes.starts, 1)
        busy = passes.columns["device_ns"]
        return means(_within(passes, np.where(busy == NONE, np.nan, busy / lengths), window), window, width)
    values = passes.columns["kv_used" if what == KV else WAITING]
    return peaks(_within(passes, values, window), window, width)


def top_of(passes: Passes, what: str) -> int:
    """What fills a strip: all blocks there are, a device that is always busy, the most that ever waited."""
    return {
        DEVICE: 1,
        KV: int(passes.columns["kv_total"].max(initial=0)),
        WAITING: int(passes.columns["waiting"].max(initial=0)),
    }[what]


def _rows(passes: Passes, band: Band, window: Window, width: int) -> list[Row]:
    if band.what == STEPS:
        return [glyphs(passes.busiest(window, width), theme.STEPS)]
    found = levels(passes, band.what, window, width)
    return blocks(found, top_of(passes, band.what), band.height, _STYLES[band.what])


def _within(passes: Passes, values: Floats | Ints, window: Window) -> Series:
    """Only the passes of the window: a picture must not cost what the run is long."""
    first = max(int(np.searchsorted(passes.starts, window.start, "right")) - 1, 0)
    stop = max(int(np.searchsorted(passes.starts, window.end, "left")), first)
    until = int(passes.ends[stop - 1]) if stop > first else window.start
    return Series(passes.starts[first:stop], np.asarray(values[first:stop], np.float64), until)


def _value(passes: Passes, band: Band, at: int) -> str:
    """What it is at an instant, in as few letters as the gutter has room for."""
    place = passes.at(at)
    if place is None:
        return "-"
    waiting, used, total = (int(passes.columns[name][place]) for name in ("waiting", "kv_used", "kv_total"))
    if band.what == WAITING:
        return f"{waiting}"
    if band.what == KV:
        return f"{used}/{total}"
    if band.what == DEVICE:
        busy, length = int(passes.columns["device_ns"][place]), int(passes.ends[place] - passes.starts[place])
        return "-" if busy == NONE or length <= 0 else percent(busy / length)
    kind = passes.kind_at(place)
    if not band.brief:
        return kind
    held = f" {used * 100 // total}%" if total else ""
    return f"{theme.STEPS[kind].glyph} {waiting}w{held}"
