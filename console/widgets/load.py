"""How full memory and device were, of the busiest worker, in strips under a picture of the same time. Pure."""

from collections.abc import Mapping

import numpy as np

from console.timeline import Floats, Passes, Window
from console.widgets.frame import DEVICE, KV
from console.widgets.ink import Line
from console.widgets.runstrips import levels, top_of
from console.widgets.strips import Strip, blocks, highest


def load_lines(workers: Mapping[int, Passes], window: Window, width: int, gutter: int) -> list[Line]:
    """The share of KV blocks held, and of time that the device was busy, the most of all workers: a line each."""
    lines: list[Line] = []
    for what, name in ((KV, "kv"), (DEVICE, "dev")):
        shares = np.full(max(width, 0), np.nan)
        for passes in workers.values():
            shares = np.fmax(shares, _shares(passes, what, window, width))
        lines += Strip(name, f"{highest(shares):.0%}", blocks(shares, 1.0, 1, "flight")).lines(gutter)
    return lines


def _shares(passes: Passes, what: str, window: Window, width: int) -> Floats:
    """What of all there is was used, in each column; not known where nothing says how much there is."""
    found, top = levels(passes, what, window, width), top_of(passes, what)
    return found / top if top else np.full(len(found), np.nan)
