"""How sure a paired difference is. Pure; nothing is drawn unseeded. Percentiles are SQL: `percentiles.sql`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

_RESAMPLES: Final = 10_000
_CONFIDENCE: Final = 0.95
_SEED: Final = 20_260_101


@dataclass(frozen=True)
class Paired:
    """What one change did to the same requests, b - a in the samples' own unit; `low` to `high` bound the median."""

    pairs: int
    median: float | None
    low: float | None
    high: float | None
    faster: int
    slower: int
    same: int


def paired(differences: Sequence[float] | npt.NDArray[np.float64]) -> Paired:
    """Median of the differences with its 95 % bootstrap interval, and who won (SPEC F6). Same input, same answer."""
    ordered = np.sort(np.asarray(differences, dtype=np.float64))
    faster, slower = int((ordered < 0).sum()), int((ordered > 0).sum())
    same = len(ordered) - faster - slower
    if not len(ordered):
        return Paired(0, None, None, None, faster, slower, same)
    low, high = _median_interval(ordered)
    middle = ordered[_middle(len(ordered)) - 1]
    return Paired(len(ordered), float(middle), float(low), float(high), faster, slower, same)


def _median_interval(ordered: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Bootstrap interval of the median, without resampling whole samples.

    The k-th smallest of n draws with replacement from n ordered values is the value at floor(n * U), where U is the
    k-th smallest of n uniform numbers: Beta(k, n - k + 1). So one Beta draw is one resample, whatever n is.
    """
    n = len(ordered)
    k = _middle(n)
    draws = np.random.default_rng(_SEED).beta(k, n - k + 1, _RESAMPLES)
    medians = ordered[np.minimum((draws * n).astype(np.int64), n - 1)]
    tail = (1 - _CONFIDENCE) / 2
    return np.quantile(medians, [tail, 1 - tail], method="inverted_cdf")


def _middle(n: int) -> int:
    """The nearest rank of the median of n values."""
    return -(-n // 2)
