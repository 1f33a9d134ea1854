"""Tests of differences against published values, and against counting every case (SPEC F3)."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.significance import chi_square_tail, false_discovery, fisher, rank_test, table_test

COUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=8).filter(
    lambda pairs: sum(one for one, _ in pairs) > 0 and sum(other for _, other in pairs) > 0
)


def counted(*groups: list[int]) -> list[np.ndarray]:
    """How many of each group have each value, in ascending order of the values."""
    values = sorted({value for group in groups for value in group})
    return [np.array([group.count(value) for value in values], dtype=np.int64) for group in groups]


def test_mann_whitney_gives_the_value_that_scipy_documents() -> None:
    """Ages at diagnosis of diabetes, the example of `scipy.stats.mannwhitneyu`: U = 17, asymptotic p = 0.1113."""
    found = rank_test(*counted([19, 22, 16, 29, 24], [20, 11, 17, 12]))
    assert found.p == pytest.approx(0.11134688653314041)
    assert found.delta == pytest.approx(17 / 10 - 1)


def test_ties_are_counted_half_and_corrected_for() -> None:
    """Two groups of three values with ties: U = 2 + 4 halves... by hand: variance 9/12 (7 - 30/30)."""
    found = rank_test(*counted([1, 2, 2], [2, 3, 3]))
    wins = 0.5 + 0.5  # each of the two 2 inside ties with the one outside
    assert found.delta == pytest.approx(2 * wins / 9 - 1)
    deviation = (9 / 12 * (7 - (24 + 6 + 0) / 30)) ** 0.5
    assert found.p == pytest.approx(2 * (1 - _normal((4.5 - wins - 0.5) / deviation)), rel=1e-9)


def _normal(z: float) -> float:
    from statistics import NormalDist

    return NormalDist().cdf(z)


@given(COUNTS)
def test_delta_is_the_chance_to_be_larger_less_that_to_be_smaller(pairs: list[tuple[int, int]]) -> None:
    inside, outside = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    found = rank_test(inside, outside)
    signs = np.sign(np.subtract.outer(np.arange(len(inside)), np.arange(len(outside))))
    assert found.delta == pytest.approx(float(inside @ signs @ outside) / (inside.sum() * outside.sum()))
    assert rank_test(outside, inside).delta == pytest.approx(-found.delta)
    assert rank_test(outside, inside).p == pytest.approx(found.p)
    assert 0 <= found.p <= 1


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_of_two_words_delta_is_the_difference_of_the_shares(a: int, b: int, c: int, d: int) -> None:
    """So effects of words and of numbers are one scale."""
    if a + b and c + d:
        found = rank_test(np.array([b, a]), np.array([d, c]))
        assert found.delta == pytest.approx(a / (a + b) - c / (c + d))


@pytest.mark.parametrize(
    ("statistic", "degrees", "p"),
    [(3.841, 1, 0.05), (6.635, 1, 0.01), (5.991, 2, 0.05), (7.815, 3, 0.05), (18.307, 10, 0.05), (67.505, 50, 0.05)],
)
def test_the_tail_of_chi_square_is_that_of_the_tables(statistic: float, degrees: int, p: float) -> None:
    assert chi_square_tail(statistic, degrees) == pytest.approx(p, rel=2e-3)


def test_chi_square_of_a_table_gives_the_value_that_scipy_documents() -> None:
    """The example of `scipy.stats.chi2_contingency`: chi-square 2.7778, 2 degrees of freedom, p = 0.24935."""
    found = table_test(np.array([10, 10, 20]), np.array([20, 20, 20]))
    assert found.p == pytest.approx(0.24935220877729614)
    assert found.v == pytest.approx((2.7777777777777777 / 100) ** 0.5)
    assert not found.exact


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((3, 1, 1, 3), 0.48571428571428565),  # Fisher 1935, the lady tasting tea, two-sided
        ((8, 2, 1, 5), 0.034965034965034964),  # whales and sharks, the example of scipy.stats.fisher_exact
        ((6, 0, 0, 6), 2 / 924),
    ],
)
def test_fisher_gives_published_values(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher(*table) == pytest.approx(p)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_fisher_is_the_share_of_all_draws_that_are_no_likelier(a: int, b: int, c: int, d: int) -> None:
    people = range(a + b + c + d)
    drawn = [len({i for i in chosen if i < a + c}) for chosen in combinations(people, a + b)]
    ways = {k: drawn.count(k) for k in set(drawn)}
    assert fisher(a, b, c, d) == pytest.approx(sum(n for n in ways.values() if n <= ways[a]) / len(drawn))


def test_rare_words_are_counted_together_and_small_tables_are_exact() -> None:
    found = table_test(np.array([8, 1, 1, 0]), np.array([1, 2, 1, 2]))
    assert found.exact
    assert found.p == pytest.approx(fisher(8, 2, 1, 5))
    assert table_test(np.array([5, 0]), np.array([7, 0])).p == 1


def test_benjamini_and_hochberg_believe_the_first_four_of_their_own_example() -> None:
    """Benjamini and Hochberg 1995, section 3.2: fifteen p values, at 5 % the four smallest are believed."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1.0,
    ]
    q = false_discovery(p)
    assert [one <= 0.05 for one in q] == [True] * 4 + [False] * 11
    assert q[0] == pytest.approx(0.0015)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_q_keeps_the_order_of_p_and_is_no_less(p: list[float]) -> None:
    q = false_discovery(p)
    assert all(one <= other for one, other in zip(p, q, strict=True))
    for (p1, q1), (p2, q2) in combinations(zip(p, q, strict=True), 2):
        assert (p1 <= p2) <= (q1 <= q2)
    shuffled = false_discovery(p[::-1])
    assert shuffled == q[::-1]
