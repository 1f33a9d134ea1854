"""Whether the prefix cache stopped to hit at some instant: the split of a run that tells two hit rates apart. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_LEAST: Final = 10
"""Requests on each side."""
_HIT: Final = 0.2
"""A cache that gave less than this share of the prompts before can't be missed."""
_LEFT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Shift:
    """From `t` on (the arrival of request `rid`) the cache gave the share `after` of prompt tokens, `before` before."""

    t: int
    rid: int
    before: float
    after: float


def hits_lost(arrival: Ints, rid: Ints, prompt: Ints, cached: Ints) -> Shift | None:
    """The instant at which half of the hits or more were lost; None where there is none. In order of arrival."""
    n = len(arrival)
    if n < 2 * _LEAST:
        return None
    tokens, hits = np.cumsum(prompt).astype(float), np.cumsum(cached).astype(float)
    at = np.arange(_LEAST, n - _LEAST + 1)
    before = hits[at - 1] / tokens[at - 1]
    after = (hits[-1] - hits[at - 1]) / (tokens[-1] - tokens[at - 1])
    # A split in the middle of two stretches mixes them, so the largest drop, by what it rests on, is the change.
    weight = np.sqrt(at * (n - at)) / n
    best = int(np.argmax((before - after) * weight))
    if before[best] < _HIT or after[best] > _LEFT * before[best]:
        return None
    place = int(at[best])
    return Shift(int(arrival[place]), int(rid[place]), float(before[best]), float(after[best]))
