"""Columns of a run's tables as numpy arrays, and the sums over them that stay exact in int64."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recorder.schema import NONE

if TYPE_CHECKING:
    from recorder.left_out import LeftOut
    from recorder.run import RunInfo

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Tables(Protocol):
    """The tables of a run, from wherever (`recorder.tables.RunTables`, or made by hand)."""

    @property
    def info(self) -> "RunInfo":
        """What `run.json` says."""
        ...

    @property
    def left_out(self) -> "LeftOut":
        """The passes of which the tables tell nothing on purpose."""
        ...

    def table(self, name: str) -> pa.Table:
        """The whole table, in the layout of `recorder.schema`."""
        ...


def ints(table: pa.Table, name: str) -> Ints:
    """An integer column; NULL becomes NONE."""
    return np.asarray(table.column(name).fill_null(NONE).to_numpy(), dtype=np.int64)


def codes(table: pa.Table, name: str, words: Iterable[str]) -> Ints:
    """A coded column as positions in its vocabulary; NULL becomes -1."""
    positions = pc.index_in(table.column(name).cast(pa.string()), value_set=pa.array([str(word) for word in words]))
    return np.asarray(positions.fill_null(-1).to_numpy(), dtype=np.int64)


def labels(table: pa.Table, name: str) -> Ints:
    """A text column as numbers that are equal where the texts are; NULL becomes -1."""
    column = table.column(name).combine_chunks().dictionary_encode()
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def texts(table: pa.Table, name: str, text: str) -> Bools:
    """Where a text column holds this text."""
    return np.asarray(pc.equal(table.column(name), text).fill_null(False).to_numpy(), dtype=np.bool_)


def equal(values: Ints, to: Ints | int) -> Bools:
    """Where two values are the same."""
    result: Bools = values == to
    return result


def known(values: Ints) -> Bools:
    """Where a value is not NONE."""
    return ~equal(values, NONE)


def first_known(*choices: Ints) -> Ints:
    """Element by element, the first value that is known; NONE where none is."""
    result = choices[-1]
    for values in reversed(choices[:-1]):
        result = np.where(known(values), values, result)
    return result


def sums(length: int, where: Ints, values: Ints) -> Ints:
    """The sum of the values that fall to each of `length` places."""
    result = np.zeros(length, dtype=np.int64)
    np.add.at(result, where, values)
    return result


def earliest(length: int, where: Ints, values: Ints) -> Ints:
    """The least of the values that fall to each of `length` places; NONE where none does."""
    nothing = np.iinfo(np.int64).max
    result = np.full(length, nothing)
    np.minimum.at(result, where, values)
    return np.where(result == nothing, NONE, result)


def overlap(begin: Ints, end: Ints, lo: Ints, hi: Ints) -> Ints:
    """The ns that [begin, end) and [lo, hi) have in common."""
    ns: Ints = np.minimum(end, hi) - np.maximum(begin, lo)
    return np.maximum(ns, 0)


def ranges(first: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """All members of the ranges [first, stop), one after another: which range, and which member."""
    counts = np.maximum(stop - first, 0)
    owner = np.repeat(np.arange(len(first)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, first[owner] + within
