"""Percentiles are nearest rank (SPEC E4), in DuckDB as by hand; an interval is as wide as it must be."""

import math
from fractions import Fraction

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.statistics import paired

QUANTILES = ("0.5", "0.95", "0.99")


def quantile_disc(values: list[int], quantile: str) -> int:
    """What DuckDB makes of it in the SQL of the reports."""
    answer = duckdb.execute(f"SELECT quantile_disc(v, {quantile}) FROM (SELECT unnest(?) AS v)", [values]).fetchall()
    return int(answer[0][0])


@pytest.mark.parametrize(
    ("values", "quantile", "expected"),
    [
        ([10, 20, 30, 40], "0.5", 20),
        ([10, 20, 30, 40], "0.95", 40),
        ([10, 20, 30], "0.5", 20),
        (list(range(1, 101)), "0.95", 95),
        (list(range(1, 101)), "0.99", 99),
        ([7], "0.99", 7),
    ],
)
def test_percentiles_are_nearest_rank_by_hand(values: list[int], quantile: str, expected: int) -> None:
    assert quantile_disc(values, quantile) == expected


@pytest.mark.parametrize("quantile", QUANTILES)
def test_percentiles_are_nearest_rank_for_every_size(quantile: str) -> None:
    """0.95 * n in binary floating point is where other definitions slip by one rank."""
    sizes = duckdb.execute(
        f"SELECT n, quantile_disc(i, {quantile}) FROM range(1, 1200) AS a(n), range(1, 1200) AS b(i) "
        "WHERE i <= n GROUP BY n"
    ).fetchall()
    assert len(sizes) == 1199
    assert [row for row in sizes if row[1] != math.ceil(Fraction(quantile) * row[0])] == []


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=200), st.sampled_from(QUANTILES))
def test_a_percentile_is_a_value_with_that_share_at_or_below(values: list[int], quantile: str) -> None:
    found = quantile_disc(values, quantile)
    wanted = Fraction(quantile) * len(values)
    assert found in values
    assert sum(value <= found for value in values) >= wanted
    assert sum(value < found for value in values) < wanted


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=100))
def test_a_paired_difference_counts_everyone_and_bounds_its_median(differences: list[int]) -> None:
    found = paired(differences)
    assert found.faster + found.slower + found.same == found.pairs == len(differences)
    assert found.low is not None
    assert found.median is not None
    assert found.high is not None
    assert min(differences) <= found.low <= found.median <= found.high <= max(differences)
    assert found.median in differences


def test_of_no_pairs_nothing_is_claimed() -> None:
    found = paired([])
    assert (found.pairs, found.median, found.low, found.high) == (0, None, None, None)


def test_the_same_differences_give_the_same_interval() -> None:
    differences = np.random.default_rng(1).normal(5, 2, 300)
    assert paired(differences) == paired(differences[::-1].copy())


def test_the_interval_is_the_one_that_resampling_gives() -> None:
    """One Beta draw stands for one resample of the whole sample: compare with really resampling."""
    rng = np.random.default_rng(7)
    differences = np.sort(rng.exponential(10, 101) - 5)
    medians = np.sort([rng.choice(differences, 101) for _ in range(20_000)], axis=1)[:, 50]
    low, high = np.quantile(medians, [0.025, 0.975])
    found = paired(differences)
    ranks = np.searchsorted(differences, [found.low, low, found.high, high])
    assert abs(ranks[0] - ranks[1]) <= 1
    assert abs(ranks[2] - ranks[3]) <= 1


def test_an_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    covered = sum(low <= 1.0 <= high for low, high in (_interval(rng.normal(1.0, 3.0, 40)) for _ in range(400)))
    assert 0.90 <= covered / 400 <= 0.99


def _interval(differences: npt.NDArray[np.float64]) -> tuple[float, float]:
    found = paired(differences)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high
