"""Whether arrivals wait for answers (a closed loop), from stamps alone. Coordinated omission hides what nobody sent.

Pure. In an open loop a client does not know how many others wait: as many come while the engine is full as at other
times (arrivals see time averages). In a closed loop nobody comes while all users wait. So for each level of requests in
flight the arrivals that met it are held against the share of the time that it lasted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

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
class Gaps:
    """Arrivals, and the distances between them that are no burst's: how many, in the mean, and how they vary, ns."""

    came: int
    n: int
    mean_ns: float | None
    deviation_ns: float | None


@dataclass(frozen=True, slots=True)
class Level:
    """So many were in flight for `ns` in all; `came` arrivals made it so many."""

    level: int
    ns: int
    came: int


@dataclass(frozen=True, slots=True)
class Pinned:
    """Arrivals that wait for answers. While `level` or more were in flight, `share` of the time, `met` came; `expected`
    would have."""

    level: int
    share: float
    met: int
    expected: float


def pinned(gaps: Gaps, levels: Sequence[Level]) -> Pinned | None:
    """The proof that arrivals are pinned to completions; None where there is none."""
    if gaps.came < _LEAST or _on_a_clock(gaps):
        return None
    most = levels[-1].level + 1
    lasted, met = np.zeros(most), np.zeros(most)
    for one in levels:
        lasted[one.level] = one.ns
        met[max(one.level - 1, 0)] += one.came  # whoever makes it n has met n - 1
    lasted, seen = _at_least(lasted), _at_least(met)
    share = lasted / max(float(lasted[0]), 1.0)
    expected = share * gaps.came
    proofs = np.flatnonzero((share >= _LASTED) & (expected >= _EXPECTED) & (seen <= _MET * expected))
    if not len(proofs):
        return None
    best = int(proofs[np.argmax((expected - seen)[proofs])])
    return Pinned(best, float(share[best]), int(seen[best]), float(expected[best]))


def _at_least(by_level: Floats) -> Floats:
    """For each level the sum over it and all above."""
    sums: Floats = np.cumsum(by_level[::-1])[::-1]
    return sums


def _on_a_clock(gaps: Gaps) -> bool:
    """Whether requests, or bursts of them, come at equal distances."""
    return gaps.n < 2 or (gaps.deviation_ns or 0.0) < _CLOCKED * (gaps.mean_ns or 0.0)
