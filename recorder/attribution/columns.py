"""Columns of a run's tables as numpy arrays, and the sums over them that stay exact in int64."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

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
    column = table.column(name)
    return np.asarray((column.fill_null(NONE) if column.null_count else column).to_numpy(), dtype=np.int64)


def codes(table: pa.Table, name: str, words: Iterable[str]) -> Ints:
    """A coded column as positions in its vocabulary; NULL becomes -1."""
    column, vocabulary = table.column(name), pa.array([str(word) for word in words])
    if not pa.types.is_dictionary(column.type):
        return _positions(column, vocabulary)
    return np.concatenate([np.empty(0, np.int64), *(_of_dictionary(chunk, vocabulary) for chunk in column.chunks)])


def _of_dictionary(column: pa.DictionaryArray, vocabulary: pa.Array) -> Ints:
    """Only the few words of the dictionary are looked up."""
    place = np.append(_positions(column.dictionary, vocabulary), -1)
    return place[np.asarray(column.indices.fill_null(len(place) - 1), dtype=np.int64)]


def _positions(column: pa.Array | pa.ChunkedArray, vocabulary: pa.Array) -> Ints:
    found = pc.index_in(column.cast(pa.string()), value_set=vocabulary).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


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


_SPARSE: Final = 16
"""A table of places is made of values that fill at least one part in so many of the numbers between them."""


class Places:
    """Where in a sorted array a value is found first. Numbers that were counted up need no search: a table has them."""

    def __init__(self, values: Ints) -> None:
        self._values = values
        self._low, high = (int(values[0]), int(values[-1])) if len(values) else (0, -1)
        self._table: Ints | None = None
        if high - self._low < _SPARSE * len(values):
            firsts = beginnings(values)
            self._table = np.full(high - self._low + 2, -1)
            self._table[values[firsts] - self._low] = firsts

    def of(self, wanted: Ints) -> Ints:
        """The place of each; -1 where the array does not hold it."""
        if self._table is not None:
            # Differences wrap around: what is below the lowest is beyond the last place, too, which says -1.
            at = np.minimum((wanted - self._low).view(np.uint64), np.uint64(len(self._table) - 1))
            return self._table[at.view(np.int64)]
        at = np.minimum(np.searchsorted(self._values, wanted), len(self._values) - 1)
        return np.where(self._values[at] == wanted, at, -1)


def beginnings(*columns: Ints) -> Ints:
    """Where each run of rows begins that are equal in all columns."""
    turns = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, turns)[: len(columns[0])])


def in_order(*keys: Ints) -> Ints:
    """Places that sort by the first key, then by the next; where all are equal they keep their order."""
    number = packed(*keys)
    if number is None:
        return np.lexsort(keys[::-1])
    bits = len(number).bit_length()
    if int(number.max(initial=0)).bit_length() + bits > _BITS:
        return np.argsort(number, kind="stable")
    # Packed with their places they are sorted as they are, which is several times as fast as sorting places.
    return np.sort(number << bits | np.arange(len(number))) & ((1 << bits) - 1)


def packed(*keys: Ints) -> Ints | None:
    """One number, not negative, for each tuple of the keys, in their order; None where they span too much for one."""
    number, bits = np.zeros(len(keys[0]), np.int64), 0
    for key in keys if len(number) else ():
        low, high = int(key.min()), int(key.max())
        bits += (high - low).bit_length()
        if bits > _BITS:
            return None
        number = number << (high - low).bit_length() | (key - low)
    return number


_BITS: Final = 62


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
