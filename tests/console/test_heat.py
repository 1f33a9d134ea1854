"""The latency heat map: a box holds whom its filter lets through, and it can be drawn and moved."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.heat import Box, Heat, heat_of, value_edges
from console.lanes import Lanes, load_lanes
from console.session import Session
from console.timeline import Window
from console.widgets.heat import LABEL, cell_at, heat_lines
from console.widgets.ink import Line, width_of
from recorder.schema import NONE
from tests.console.tui_runs import mixed_ends, served

MS = 1_000_000
sizes = st.integers(1, 12)


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Lanes]]:
    """A served run, open, and its lanes."""
    with Session(served(tmp_path_factory.mktemp("runs"))) as session, session.connect() as cursor:
        yield session, load_lanes(session, cursor)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 40))
def test_edges_ascend_around_all_values(one: int, other: int, rows: int) -> None:
    low, high = sorted((one, other))
    edges = value_edges(low, high, rows)
    assert len(edges) == rows + 1
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= low <= high < edges[-1]


@given(sizes, sizes, st.tuples(*[st.integers(0, 11)] * 4), st.integers(-20, 20), st.integers(-20, 20))
def test_a_box_stays_inside_and_moves_as_a_whole(
    rows: int, columns: int, corners: tuple[int, int, int, int], right: int, up: int
) -> None:
    box = Box(corners[0] % columns, corners[1] % rows, corners[2] % columns, corners[3] % rows)
    moved, stretched = box.moved(right, up, (rows, columns)), box.stretched(right, up, (rows, columns))
    assert (len(moved.rows), len(moved.columns)) == (len(box.rows), len(box.columns))
    assert (stretched.column, stretched.row) == (box.column, box.row)
    for one in (moved, stretched):
        assert 0 <= one.columns.start < one.columns.stop <= columns
        assert 0 <= one.rows.start < one.rows.stop <= rows


@given(st.sampled_from(["e2e", "ttft", "tpot"]), st.tuples(*[st.integers(0, 11)] * 4), st.sampled_from([1, 2, 5]))
def test_the_filter_of_a_box_lets_through_whom_it_holds(
    opened: tuple[Session, Lanes], measure: str, corners: tuple[int, int, int, int], zoom: int
) -> None:
    """A cell's edges are the filter's bounds: the numbers of the screen and of the filter are one."""
    session, lanes = opened
    window = lanes.window.zoom(1, zoom, lanes.window.high // 2)
    heat = heat_of(lanes, measure, window, 12, 12)
    assert heat is not None
    box = Box(*corners)
    assert session.picked(heat.filter(box)).num_rows == heat.inside(box)


@pytest.mark.parametrize("measure", ["e2e", "ttft", "tpot"])
def test_with_all_of_the_run_everybody_is_in_a_cell(opened: tuple[Session, Lanes], measure: str) -> None:
    _, lanes = opened
    heat = heat_of(lanes, measure, lanes.window, 7, 40)
    assert heat is not None
    assert heat.counts.sum() == (lanes.columns[measure] != NONE).sum()
    assert heat.inside(Box(0, 0, 39, 6)) == heat.counts.sum()


def test_a_box_begins_at_the_fullest_slow_cell() -> None:
    counts = np.array([[9, 0, 0], [0, 0, 0], [0, 1, 3]])
    heat = Heat("e2e", Window.whole(0, 3_000), np.array([0, 10, 20, 30]), counts, 0)
    assert heat.hottest(None) == Box(0, 0, 0, 0)
    assert heat.hottest(20) == Box(2, 2, 2, 2)
    assert heat.hottest(99) == Box(2, 2, 2, 2), "the top row is the nearest"


def test_the_picture() -> None:
    counts = np.array([[1, 0, 100], [0, 10, 0]])
    heat = Heat("e2e", Window.whole(0, 30 * MS), np.array([0, 10 * MS, 20 * MS]), counts, 0)
    lines = heat_lines(heat, 10 * MS, Box(1, 1, 1, 1))
    assert [text_of(line) for line in lines[:2]] == ["   20.0ms┤ ▒ ", "         │· █"]
    assert ("▒", "bad on.line") in lines[0]
    assert ("█", "accent") in [(text[-1:], style) for text, style in lines[1]]
    assert [cell_at(heat, LABEL + 1, 0), cell_at(heat, LABEL, 1), cell_at(heat, 2, 0), cell_at(heat, LABEL, 2)] == [
        (1, 1), (0, 0), None, None,
    ]  # fmt: skip


def test_odd_runs_have_a_picture_or_none(tmp_path: Path) -> None:
    with Session(mixed_ends(tmp_path)) as session, session.connect() as cursor:
        lanes = load_lanes(session, cursor)
    heat = heat_of(lanes, "e2e", lanes.window, 5, 30)
    assert heat is not None
    assert all(width_of(line) == LABEL + 30 for line in heat_lines(heat, None, None))
    assert heat_of(lanes, "e2e", lanes.window, 0, 30) is None
    assert heat_of(lanes, "e2e", lanes.window, 5, 0) is None
