"""The product-limit estimate: by hand from the literature, as nearest rank where all was seen, and on odd runs (F4)."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.survival import product_limit

QUANTILES = (0.5, 0.95, 0.99)


def estimate(waited: Sequence[int], observed: Sequence[bool], *quantiles: float) -> list[int | None]:
    return product_limit(np.array(waited, np.int64), np.array(observed, bool), quantiles)


def test_the_freireich_trial_by_hand() -> None:
    """The 6-MP arm of Freireich et al. 1963, in every textbook: S(6) = 0.857, S(23) = 0.448, median 23 weeks."""
    weeks = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    relapsed = [True] * 3 + [False, True, False, True] + [False, False] + [True, True] + [False] * 3 + [True, True]
    relapsed += [False] * 5
    assert estimate(weeks, relapsed, 0.1, 0.142, 0.144, 0.5) == [6, 6, 7, 23]
    assert estimate(weeks, relapsed, 0.56) == [None], "S never falls below 0.448: more is beyond what was seen"


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200))
def test_with_all_seen_it_is_the_nearest_rank(waited: list[int]) -> None:
    ranks = [-(-len(waited) * percent // 100) for percent in (50, 95, 99)]
    assert estimate(waited, [True] * len(waited), *QUANTILES) == [sorted(waited)[rank - 1] for rank in ranks]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=100))
def test_it_is_never_below_the_naive_percentile_of_those_seen(lives: list[tuple[int, bool]]) -> None:
    """Whoever is lost sight of can only make waits longer: that is why the naive ones are lower bounds."""
    waited, observed = [ns for ns, _ in lives], [seen for _, seen in lives]
    answered = [ns for ns, seen in lives if seen]
    naive = estimate(answered, [True] * len(answered), *QUANTILES) if answered else [0, 0, 0]
    for estimated, low in zip(estimate(waited, observed, *QUANTILES), naive, strict=True):
        assert estimated is None or (low is not None and estimated >= low)


@pytest.mark.parametrize(("waited", "observed"), [([], []), ([5], [False])])
def test_nothing_seen_is_no_number(waited: list[int], observed: list[bool]) -> None:
    assert estimate(waited, observed, *QUANTILES) == [None, None, None]
