"""What the workers' memory and time were used for, in strips under a picture over the same time. Pure."""

from collections.abc import Iterable, Mapping

import numpy as np

from console.timeline import Floats, Ints, Passes, Window
from console.widgets.ink import Line
from console.widgets.strips import Series, Strip, blocks, highest, means, peaks


def load_lines(workers: Mapping[int, Passes], window: Window, width: int, gutter: int) -> list[Line]:
    """The fullest KV cache of all workers, and the largest share of time in which one computed: a line each."""
    seen = [(passes, _during(passes, window)) for passes in workers.values()]
    kv = _largest((peaks(_kv(passes, part), window, width) for passes, part in seen), width)
    busy = _largest((means(_busy(passes, part), window, width) for passes, part in seen), width)
    return [*_strip("kv", kv, gutter), *_strip("busy", busy, gutter)]


def _during(passes: Passes, window: Window) -> slice:
    """The passes that touch a window, and the one before, whose state still holds."""
    first = int(np.searchsorted(passes.ends, window.start, "right"))
    return slice(max(first - 1, 0), int(np.searchsorted(passes.starts, window.end, "left")))


def _kv(passes: Passes, part: slice) -> Series:
    """The share of the KV blocks that is held, pass by pass; not known where nothing says how many there are."""
    used, total = (passes.columns[name][part] for name in ("kv_used", "kv_total"))
    share = np.divide(used, total, out=np.full(len(used), np.nan), where=total > 0)
    return Series(passes.starts[part], share, _last(passes.ends[part]))


def _busy(passes: Passes, part: slice) -> Series:
    """1 while a pass executes, 0 around that and in idle ones."""
    executes = (passes.kind_of[part] != passes.kinds.index("idle")).astype(np.float64)
    times = np.column_stack([passes.columns[name][part] for name in ("t_exec", "t_done")]).ravel()
    return Series(times, np.column_stack([executes, np.zeros(len(executes))]).ravel(), _last(passes.ends[part]))


def _largest(levels: Iterable[Floats], width: int) -> Floats:
    """The largest known level of each column."""
    most = np.full(width, np.nan)
    for one in levels:
        most = np.fmax(most, one)
    return most


def _strip(name: str, levels: Floats, gutter: int) -> list[Line]:
    return Strip(name, f"{highest(levels):.0%}", blocks(levels, 1.0, 1, "flight")).lines(gutter)


def _last(ends: Ints) -> int:
    return int(ends[-1]) if len(ends) else 0
