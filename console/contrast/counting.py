"""How many on each side have each value of an attribute, counted from one value an attempt. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

import numpy as np
import numpy.typing as npt

from console.contrast.attributes import Attribute
from console.significance import Counts

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EXACT: Final = 512
"""Values from here on that differ by less than 1 % are counted together."""
MOST_WORDS: Final = 50
"""Words beyond the most frequent are counted together."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One attribute: its values, and how many inside and outside have each.

    Values are whole numbers in ascending order, or words (None: all the rare ones together).
    """

    attribute: Attribute
    values: Sequence[int] | Sequence[str | None]
    inside: Counts
    outside: Counts

    @property
    def is_numeric(self) -> bool:
        """Whether the values have an order."""
        return bool(len(self.values)) and isinstance(self.values[0], int)


def count_numbers(attribute: Attribute, values: Ints, inside: Bools) -> Sample:
    """Of one value an attempt, at least one; what is counted together is called by the least of it."""
    place = _places(values)
    place -= place.min()
    both = _tally(place, inside, int(place.max()) + 1)
    least = np.full(len(both), np.iinfo(np.int64).max)
    np.minimum.at(least, place, values)
    there = both.any(axis=1)
    return Sample(attribute, least[there].tolist(), both[there, 1], both[there, 0])


def count_words(attribute: Attribute, words: Sequence[str], code: Ints, inside: Bools) -> Sample:
    """Of one word an attempt, each as its place among `words`, which are distinct."""
    both = _tally(code, inside, len(words))
    found = np.flatnonzero(both.any(axis=1)).tolist()
    often = nsmallest(MOST_WORDS, found, key=lambda place: (-int(both[place].sum()), words[place]))
    often.sort(key=lambda place: words[place])
    named, values = both[often], [words[place] for place in often]
    if len(often) == len(found):
        return Sample(attribute, values, named[:, 1], named[:, 0])
    rest = both.sum(axis=0) - named.sum(axis=0)
    return Sample(attribute, [*values, None], np.append(named[:, 1], rest[1]), np.append(named[:, 0], rest[0]))


def _tally(place: Ints, inside: Bools, places: int) -> Counts:
    """So many outside and inside, in this order, a place."""
    return np.bincount(2 * place + inside, minlength=2 * places).astype(np.int64).reshape(-1, 2)


def _places(values: Ints) -> Ints:
    """A number for all that is counted together, in the order of the values."""
    size = np.abs(values)
    if size.max() < EXACT:
        return values.copy()
    steps = np.floor(100 * np.log(np.maximum(size, EXACT) / EXACT)).astype(np.int64)
    return np.where(size < EXACT, values, np.sign(values) * (EXACT + steps))
