"""Tiles: every point is in exactly the cell that its definition says, whatever the window and the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tiles import histogram, stretches
from console.timeline import Window
from recorder.schema import NONE

values_of = st.one_of(st.integers(-(2**40), 2**62), st.integers(0, 1000), st.just(NONE))
points = st.lists(st.tuples(st.integers(0, 2000), values_of), max_size=60).map(sorted)
edges_of = st.one_of(
    st.lists(st.integers(-5, 1200), min_size=1, max_size=12, unique=True).map(sorted),
    st.lists(st.integers(2**30, 2**30 + 40), min_size=1, max_size=12, unique=True).map(sorted),
)
windows = st.tuples(st.integers(0, 1500), st.integers(1, 3000)).map(
    lambda one: Window(0, 5000, one[0], one[0] + one[1])
)


@given(points, edges_of, windows, st.integers(0, 30))
def test_a_point_is_counted_in_its_cell_alone(
    some: list[tuple[int, int]], edges: list[int], window: Window, columns: int
) -> None:
    times, values = (np.array([point[i] for point in some], np.int64) for i in (0, 1))
    expected = np.zeros((len(edges) - 1, columns), np.int64)
    for t, value in some:
        row = int(np.searchsorted(edges, value, "right")) - 1
        if window.start <= t < window.end and columns and 0 <= row < len(edges) - 1:
            expected[row, window.column(t, columns)] += 1
    assert histogram(times, values, window, np.array(edges), columns).tolist() == expected.tolist()


@given(st.lists(values_of, max_size=60), st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20, unique=True))
def test_stretches_are_those_of_a_bisection(values: list[int], edges: list[float]) -> None:
    ordered = np.sort(np.array(edges))
    found = stretches(np.array(values, np.int64), ordered)
    assert found.tolist() == (np.searchsorted(ordered, values, side="right") - 1).tolist()


def test_cells_add_up_over_any_grid() -> None:
    dice = np.random.default_rng(1)
    times = np.sort(dice.integers(0, 10**12, 10_000))
    values = dice.lognormal(16, 2, 10_000).astype(np.int64)
    whole = Window.whole(0, 10**12)
    edges = np.geomspace(1, values.max() + 1, 33)
    fine = histogram(times, values, whole, edges, 128)
    assert fine.sum() == 10_000
    assert (fine.reshape(32, 64, 2).sum(axis=2) == histogram(times, values, whole, edges, 64)).all()
    assert (fine.reshape(16, 2, 128).sum(axis=1) == histogram(times, values, whole, edges[::2], 128)).all()


@pytest.mark.parametrize("columns", [0, 5])
def test_nothing_has_no_cell(columns: int) -> None:
    empty = np.empty(0, np.int64)
    assert histogram(empty, empty, Window.whole(0, 0), np.array([1, 2, 3]), columns).tolist() == [[0] * columns] * 2
    assert histogram(empty, empty, Window.whole(0, 0), np.array([1]), columns).shape == (0, columns)
