"""Heat maps of millions of points, exact and at once: how many fell into each cell of a grid of time and value. Pure.

Times are in order, so the columns of a window are found by bisection, and only what lies in the window is looked at.
The row of a value is looked up by its leading bits; only values that share these with an edge are compared with edges.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.timeline import Floats, Ints, Window

_DROPPED: Final = 16
"""Bits of a float32 that do not count: sign, exponent and seven bits of fraction are left, 65,536 keys."""


def histogram(times: Ints, values: Ints, window: Window, value_edges: Ints | Floats, columns: int) -> Ints:
    """How many points each cell holds: one row for each stretch between neighbouring edges, `columns` of time.

    `times` are in order; `values` belong to them, in the unit of the edges, which rise strictly. Column and stretch are
    half open (`Window.column`); what lies outside the window or beyond the edges, `NONE` among it, is not counted.
    """
    rows = max(len(value_edges) - 1, 0)
    if not rows or columns <= 0:
        return np.zeros((rows, max(columns, 0)), np.int64)
    cuts = np.searchsorted(times, window.edges(columns))
    row = stretches(values[cuts[0] : cuts[-1]], value_edges)
    column = np.repeat(np.arange(columns, dtype=np.int32), np.diff(cuts))
    cells = (row + 1) * np.int32(columns) + column
    counts: Ints = np.bincount(cells, minlength=(rows + 2) * columns).reshape(rows + 2, columns)[1:-1]
    return counts


def stretches(values: Ints, edges: Ints | Floats) -> NDArray[np.int32]:
    """Between which edges each value lies: `edges[i] <= value < edges[i + 1]`; -1 below, `len(edges) - 1` above all."""
    at_edges = _keys(edges)
    first = np.searchsorted(at_edges, np.arange(1 << 16), side="left") - 1
    keys = _keys(values)
    found: NDArray[np.int32] = first.astype(np.int32)[keys]
    unsure = np.zeros(1 << 16, bool)
    unsure[at_edges] = True
    at = np.flatnonzero(unsure[keys])
    found[at] = np.searchsorted(edges, values[at], side="right") - 1
    return found


def nice_edges(low: float, high: float, rows: int) -> Floats:
    """`rows + 1` edges between two positive values, each the same factor above the one before."""
    edges: Floats = np.geomspace(low, high, rows + 1)
    return edges


def _keys(values: Ints | Floats) -> NDArray[np.uint16]:
    """A number for each value that is smaller only where the value is; equal numbers tell nothing."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    # As integers, floats with a sign bit count downwards from the middle, the others upwards from zero.
    keys: NDArray[np.uint16] = (bits >> _DROPPED).astype(np.uint16)
    keys ^= (keys >> 15) * np.uint16(0x7FFF) | np.uint16(0x8000)
    return keys
