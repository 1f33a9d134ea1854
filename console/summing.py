"""What makes one wide row of an attempt: its causes summed, and attempts some at a time."""

from itertools import pairwise
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from console.views import ROOTS
from recorder.attribution import CAUSES
from recorder.attribution.columns import Ints, codes, ints
from recorder.attribution.columns import sums as summed


def sums(rows: Ints, causes: pa.Table) -> pa.Table:
    """`rid, attempt` and a column of ns for each of `CAUSES` and `ROOTS`, NULL where the attempt has none of it.

    `rows` tells which causes are of one attempt.
    """
    _, first, at = np.unique(rows, return_index=True, return_inverse=True)
    cause = codes(causes, "cause", CAUSES)
    waits = np.array([name.startswith("QUEUE/") for name in CAUSES])[cause]
    root = np.where(waits, codes(causes, "root", [name.removeprefix("root ") for name in ROOTS]), -1)
    columns = {name: causes[name].take(pa.array(first)) for name in ("rid", "attempt")}
    for names, code in ((CAUSES, cause), (ROOTS, root)):
        for number, name in enumerate(names):
            mine = code == number
            ns = np.bincount(at[mine], minlength=len(first)) == 0
            columns[name] = pa.array(summed(len(first), at[mine], ints(causes, "ns")[mine]), pa.int64(), mask=ns)
    return pa.table(columns)


_CHUNKS: Final = 5
_EARLIEST: Final = -(2**63)
_NEVER: Final = 2**63 - 1


def some_at_a_time(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Conditions on `requests` that part them by arrival, in order: sorting all wide rows takes memory, or spills."""
    shares = [number / _CHUNKS for number in range(1, _CHUNKS)]
    (found,) = cursor.execute(f"SELECT quantile_disc(arrival, {shares}) FROM requests").fetchall()
    bounds = [_EARLIEST, *sorted(set(found[0] or ())), _NEVER]
    return [*(f"arrival >= {low} AND arrival < {high}" for low, high in pairwise(bounds)), "arrival IS NULL"]
