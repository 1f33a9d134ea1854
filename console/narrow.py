"""Columns of millions of rows in as few bytes as they need: whole numbers, and few different words. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from console.timeline import Bools, Ints
from recorder.schema import NONE

Narrow = NDArray[np.signedinteger[Any]]
"""Whole numbers of any width; the least one of the type stands for `NONE`."""

_WIDTHS: Final = (np.int8, np.int16, np.int32, np.int64)


def narrow(column: Ints) -> Narrow:
    """The same numbers in the narrowest type that holds them."""
    unknown = column == NONE
    low, high = (int(of(column, initial=0, where=~unknown)) for of in (np.min, np.max))
    for width in _WIDTHS:
        least = np.iinfo(width).min
        if least < low and high <= np.iinfo(width).max:
            found: Narrow = column.astype(width)
            found[unknown] = least
            return found
    raise AssertionError("no number is below NONE")


def widened(column: Narrow) -> Ints:
    """Numbers as they were before `narrow`."""
    wide: Ints = column.astype(np.int64)
    wide[column == np.iinfo(column.dtype).min] = NONE
    return wide


def number_at(column: Narrow, place: int) -> int | None:
    """One of the numbers; None where it is not known."""
    found = int(column.item(place))
    return None if found == np.iinfo(column.dtype).min else found


@dataclass(frozen=True, eq=False)
class Words:
    """Which of the `words`, which are sorted, each row has; NULL comes before all of them."""

    words: tuple[str, ...]
    codes: Narrow

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """A column of strings."""
        coded = column.dictionary_encode().unify_dictionaries().combine_chunks()
        own = coded.dictionary.to_pylist()
        words = sorted(own)
        ranks = {word: rank for rank, word in enumerate(words)}
        places = narrow(np.array([*(ranks[word] for word in own), NONE], np.int64))
        return cls(tuple(words), places[coded.indices.fill_null(len(own)).to_numpy()])

    @classmethod
    def coded(cls, words: Iterable[str], places: pa.ChunkedArray) -> Self:
        """A column that holds int8: which of the sorted words it is."""
        return cls(tuple(sorted(words)), places.fill_null(np.iinfo(np.int8).min).to_numpy())

    def at(self, place: int) -> str:
        """The word of a row; the empty one for NULL."""
        rank = number_at(self.codes, place)
        return "" if rank is None else self.words[rank]

    def are(self, word: str) -> Bools:
        """Which rows have this word."""
        same: Bools = np.zeros(len(self.codes), bool)
        return self.codes == self.words.index(word) if word in self.words else same

    def ordered(self, order: Ints) -> Self:
        """The same rows in another order."""
        return type(self)(self.words, self.codes[order])

    def take(self, places: Ints) -> pa.Array:
        """The words of some rows."""
        ranks = widened(self.codes[places])
        return pa.array(self.words, pa.string()).take(pa.array(ranks, mask=ranks == NONE))
