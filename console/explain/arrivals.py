"""Whether arrivals wait for answers (a closed loop), from stamps alone. Coordinated omission hides what nobody sent.

Pure. In an open loop a client does not know how many others wait: as many come while the engine is full as at other
times (arrivals see time averages). In a closed loop nobody comes while all users wait. So for each level of requests in
flight the arrivals that met it are held against the share of the time that it lasted.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_LEAST: Final = 30
_EXPECTED: Final = 20
"""So many arrivals have to be missing that chance is no explanation: Poisson(20) gives 2 or fewer once in 2 million."""
_MET: Final = 0.1
_LASTED: Final = 0.1
"""The engine has to be that full for that share of the time: a peak proves nothing."""
_CLOCKED: Final = 0.1
"""A coefficient of variation below this is of a clock: what comes at equal distances waits for nobody."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """Arrivals that wait for answers. While `level` or more were in flight, `share` of the time, `met` came; `expected`
    would have."""

    level: int
    share: float
    met: int
    expected: float


def pinned(arrival: Ints, ended: Ints) -> Pinned | None:
    """The proof that arrivals are pinned to completions; None where there is none.

    Both in ns; `ended` is when each client had its answer, or the largest integer for those who still wait.
    """
    if len(arrival) < _LEAST or _on_a_clock(arrival):
        return None
    arrival, ended = np.sort(arrival), np.sort(ended)
    met = np.arange(len(arrival)) - np.searchsorted(ended, arrival, side="right")
    lasted, seen = _at_least(_time_at_levels(arrival, ended)), _at_least(np.bincount(met).astype(np.float64))
    most = min(len(lasted), len(met))
    seen = np.append(seen, np.zeros(max(most - len(seen), 0)))[:most]
    share = lasted[:most] / max(float(lasted[0]), 1.0)
    expected = share * len(met)
    proofs = np.flatnonzero((share >= _LASTED) & (expected >= _EXPECTED) & (seen <= _MET * expected))
    if not len(proofs):
        return None
    best = int(proofs[np.argmax((expected - seen)[proofs])])
    return Pinned(best, float(share[best]), int(seen[best]), float(expected[best]))


def _at_least(by_level: Floats) -> Floats:
    """For each level the sum over it and all above."""
    sums: Floats = np.cumsum(by_level[::-1])[::-1]
    return sums


def _time_at_levels(arrival: Ints, ended: Ints) -> Floats:
    """For how many ns so many were in flight, between the first and the last arrival; by level, from 0."""
    inside = ended[(ended > arrival[0]) & (ended < arrival[-1])]
    edges = np.unique(np.concatenate((arrival, inside)))
    levels = np.searchsorted(arrival, edges, side="right") - np.searchsorted(ended, edges, side="right")
    lasted: Floats = np.bincount(levels[:-1], np.diff(edges), minlength=1).astype(np.float64)
    return lasted


def _on_a_clock(arrival: Ints) -> bool:
    """Whether requests, or bursts of them, come at equal distances."""
    gaps = np.diff(np.sort(arrival))
    gaps = gaps[gaps > gaps.mean() / 10]
    return len(gaps) < 2 or float(gaps.std()) < _CLOCKED * float(gaps.mean())
