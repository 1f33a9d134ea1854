"""What makes one wide row of an attempt: its causes summed, and attempts some at a time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from console.views import ANY_ROOT, BEHIND, ROOTS
from recorder.attribution import CAUSES
from recorder.attribution.columns import Ints, codes, ints
from recorder.attribution.columns import sums as summed


def sums(rows: Ints, causes: pa.Table) -> pa.Table:
    """`rid, attempt` and a column of ns for each of `CAUSES`, `ROOTS` and `BEHIND`, NULL where there is none of it.

    `rows` tells which causes are of one attempt.
    """
    _, first, at = np.unique(rows, return_index=True, return_inverse=True)
    ns, cause = ints(causes, "ns"), codes(causes, "cause", CAUSES)
    waits = np.flatnonzero(_WAITS[cause])
    root = codes(causes.select(["root"]).take(pa.array(waits)), "root", [name.removeprefix("root ") for name in ROOTS])
    waits, root = waits[root >= 0], root[root >= 0]
    columns = {name: causes[name].take(pa.array(first)) for name in ("rid", "attempt")}
    columns |= _by_word(CAUSES, cause, at, ns, len(first)) | _by_word(ROOTS, root, at[waits], ns[waits], len(first))
    which = _WHICH[cause[waits]]
    some = which >= 0
    both, waits = (which * len(ROOTS) + root)[some], waits[some]
    return pa.table(columns | _by_word(BEHIND, both, at[waits], ns[waits], len(first)))


def _by_word(words: Sequence[str], code: Ints, at: Ints, ns: Ints, length: int) -> dict[str, pa.Array]:
    """A column of sums for each of the words, NULL where there was nothing to add."""
    place = code * length + at
    there = np.zeros((len(words), length), bool)
    there.reshape(-1)[place] = True
    found = summed(there.size, place, ns).reshape(there.shape)
    return {word: pa.array(found[row], pa.int64(), mask=~there[row]) for row, word in enumerate(words)}


_WAITS: Final = np.array([name.startswith("QUEUE/") for name in CAUSES])
_WHICH: Final = np.array([ANY_ROOT.index(name) if name in ANY_ROOT else -1 for name in CAUSES])
"""Which of the causes that may have any root."""


_CHUNKS: Final = 5
_EARLIEST: Final = -(2**63)
_NEVER: Final = 2**63 - 1


def some_at_a_time(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Conditions on `requests` that part them by arrival, in order: sorting all wide rows takes memory, or spills."""
    shares = [number / _CHUNKS for number in range(1, _CHUNKS)]
    (found,) = cursor.execute(f"SELECT quantile_disc(arrival, {shares}) FROM requests").fetchall()
    bounds = [_EARLIEST, *sorted(set(found[0] or ())), _NEVER]
    return [*(f"arrival >= {low} AND arrival < {high}" for low, high in pairwise(bounds)), "arrival IS NULL"]
