"""Whether a difference between two groups may be chance, and how many of many differences to believe. Pure.

Groups come as counts: how many of each have each value. So a million requests are as quick as their values are few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

_EXPECTED: Final = 5.0
"""Cells that expect fewer make the chi-square approximation a poor one (Cochran 1954)."""
_SAME: Final = 1e-7
"""Tables this much likelier than the one seen count as equally likely: they differ by rounding only."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """`delta` is Cliff's: P(inside > outside) - P(inside < outside), -1 to 1, which is 2 AUC - 1; `p` is two-sided."""

    delta: float
    p: float


@dataclass(frozen=True, slots=True)
class Tabled:
    """`v` is Cramér's, 0 to 1, of the whole table; `p` is of no association; `exact` where it is Fisher's."""

    v: float
    p: float
    exact: bool


def rank_test(inside: Counts, outside: Counts) -> Ranked:
    """Mann-Whitney U of two groups that have so many of each value, in ascending order of the values.

    Ties are counted half and corrected for; the normal approximation has a continuity correction. Needs one of each.
    """
    n, m = float(inside.sum()), float(outside.sum())
    below = np.concatenate([[0.0], np.cumsum(outside, dtype=np.float64)[:-1]])
    wins = float(inside @ (below + outside / 2))
    middle, total = n * m / 2, n + m
    ties = np.asarray(inside + outside, dtype=np.float64)
    repeated = float((ties**3 - ties).sum()) / (total * (total - 1)) if total > 1 else 0.0
    deviation = math.sqrt(max(n * m / 12 * (total + 1 - repeated), 0.0))
    away = max(abs(wins - middle) - 0.5, 0.0)
    return Ranked(wins / middle - 1, math.erfc(away / deviation / math.sqrt(2)) if deviation else 1.0)


def table_test(inside: Counts, outside: Counts) -> Tabled:
    """Whether two groups take the values in the same proportions: chi-square, or Fisher's exact test of a small 2 x 2.

    Values that are too rare for chi-square are counted as one. Needs one of each group.
    """
    table = _pooled(np.vstack([inside, outside]))
    if table.shape[1] < 2:
        return Tabled(0.0, 1.0, exact=False)
    expected = _expected(table)
    statistic = float(((table - expected) ** 2 / expected).sum())
    v = math.sqrt(min(statistic / float(table.sum()), 1.0))
    if table.shape[1] == 2 and expected.min() < _EXPECTED:
        return Tabled(v, fisher(*(int(cell) for cell in table.flat)), exact=True)
    return Tabled(v, chi_square_tail(statistic, table.shape[1] - 1), exact=False)


def fisher(a: int, b: int, c: int, d: int) -> float:
    """Fisher's exact test, two-sided, of the table [[a, b], [c, d]]: how likely is it, or a less likely one?"""
    row, column, total = a + b, a + c, a + b + c + d
    low, high = max(0, row + column - total), min(row, column)
    ways = np.array([_log_ways(k, row, column, total) for k in range(low, high + 1)])
    seen = _log_ways(a, row, column, total)
    return min(float(np.exp(ways[ways <= seen + _SAME]).sum()), 1.0)


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi-square with so many degrees of freedom > statistic): Q(degrees / 2, statistic / 2), by its recurrence."""
    half = statistic / 2
    if half <= 0:
        return 1.0
    a, tail = (0.5, math.erfc(math.sqrt(half))) if degrees % 2 else (1.0, math.exp(-half))
    while a < degrees / 2:
        tail += math.exp(a * math.log(half) - half - math.lgamma(a + 1))
        a += 1
    return min(tail, 1.0)


def false_discovery(p: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q of each p: of all with q <= 5 %, a twentieth is expected to be chance (1995)."""
    order = sorted(range(len(p)), key=lambda place: -p[place])
    q, least = [1.0] * len(p), 1.0
    for rank, place in zip(range(len(p), 0, -1), order, strict=True):
        least = min(least, p[place] * (len(p) / rank))
        q[place] = least
    return q


def _expected(table: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    expected: npt.NDArray[np.float64] = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return expected


def _pooled(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Without values that nobody has, and with those that are too rare as one column, beside one other at least."""
    table = table[:, table.sum(axis=0) > 0]
    table = table[:, np.argsort(-table.sum(axis=0), kind="stable")]
    while table.shape[1] > 2 and _expected(table).min() < _EXPECTED:
        table = np.column_stack([table[:, :-2], table[:, -2:].sum(axis=1)])
    return table


def _log_ways(k: int, row: int, column: int, total: int) -> float:
    """The logarithm of the hypergeometric probability of `k`."""
    return _log_choose(column, k) + _log_choose(total - column, row - k) - _log_choose(total, row)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
