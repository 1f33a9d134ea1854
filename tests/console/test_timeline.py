"""The timeline's layout: columns, windows, ticks, passes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.timeline import Passes, Window, in_flight, lane_cells, ticks

MS = 1_000_000
widths = st.integers(1, 300)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Any part of any run."""
    low = draw(st.integers(0, 10**12))
    whole = Window.whole(low, low + draw(st.integers(0, 10**13)))
    for _ in range(draw(st.integers(0, 12))):
        about = draw(st.integers(whole.start, whole.end))
        whole = whole.zoom(1, 2, about) if draw(st.booleans()) else whole.pan(draw(st.sampled_from([-1, 1])), 4)
    return whole


def inside(window: Window) -> bool:
    return window.low <= window.start < window.end <= window.high


@given(windows(), widths, st.data())
def test_a_column_holds_the_instants_between_its_edges(window: Window, width: int, data: st.DataObject) -> None:
    t = data.draw(st.integers(window.start, window.end - 1))
    column = window.column(t, width)
    edges = window.edges(width)
    assert 0 <= column < width
    assert edges[column] <= t < edges[column + 1]
    assert (edges[0], edges[-1]) == (window.start, window.end)
    assert edges.tolist() == [window.instant(place, width) for place in range(width + 1)]


@given(windows(), st.sampled_from([(1, 2), (2, 1), (1, 1000), (1000, 1)]), st.data())
def test_a_zoom_stays_in_the_run_and_keeps_its_centre(
    window: Window, parts: tuple[int, int], data: st.DataObject
) -> None:
    about = data.draw(st.integers(window.start, window.end))
    zoomed = window.zoom(*parts, about)
    assert inside(zoomed)
    assert zoomed.start <= about <= zoomed.end


@given(windows(), st.integers(-9, 9), st.data())
def test_no_move_leaves_the_run(window: Window, step: int, data: st.DataObject) -> None:
    t = data.draw(st.integers(window.low, window.high))
    for moved in (window.pan(step, 4), window.fit(), window.reveal(t), window.around(t, window.high)):
        assert inside(moved)
    assert window.pan(step, 4).span == window.span
    shown = window.reveal(t)
    assert shown.start <= t < shown.end or t == shown.end == shown.high
    assert shown.span == window.span


def test_zoom_and_pan_step_by_step() -> None:
    window = Window.whole(0, 1000 * MS)
    closer = window.zoom(1, 2, 250 * MS)
    assert (closer.start, closer.end) == (125 * MS, 625 * MS)
    assert (closer.pan(1, 4).start, closer.pan(-9, 4).start, closer.pan(9, 4).end) == (250 * MS, 0, 1000 * MS)
    assert closer.fit() == window
    assert closer.over(0, 2000 * MS).span == closer.span
    assert window.over(0, 2000 * MS) == Window.whole(0, 2000 * MS)


def test_a_run_without_duration_has_a_place() -> None:
    window = Window.whole(5, 5)
    assert (window.span, window.column(5, 80)) == (1000, 0)
    assert window.zoom(1, 2, 5) == window


spans = st.lists(st.integers(0, 200), min_size=2, max_size=12).map(sorted)


@given(spans, st.integers(1, 60))
def test_a_lane_is_filled_where_it_lives_and_nowhere_else(bounds: list[int], width: int) -> None:
    phases = [(f"p{i}", start * 1000, end * 1000) for i, (start, end) in enumerate(pairwise(bounds))]
    window = Window.whole(0, 200_000)
    cells = lane_cells([phase for phase in phases if phase[2] > phase[1]], window, width)
    edges = window.edges(width)
    for column, cell in enumerate(cells):
        amounts = {
            name: min(end, edges[column + 1]) - max(start, edges[column])
            for name, start, end in phases
            if min(end, edges[column + 1]) > max(start, edges[column])
        }
        assert cell is None if not amounts else amounts[cell or ""] == max(amounts.values())


def test_the_shortest_span_is_seen() -> None:
    window = Window.whole(0, 10**12)
    assert lane_cells([("decode", 10**11, 10**11 + 1)], window, 10) == [None, "decode"] + [None] * 8
    assert lane_cells([("decode", 0, 5)], window, 0) == []


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (10 * 10**9, ["0s", "5s"]),
        (1 * MS, ["0s", "0.0005s"]),
        (3600 * 10**9, ["0s", "2000s"]),
    ],
)
def test_ticks_are_round_times(span: int, labels: list[str]) -> None:
    assert [tick.label for tick in ticks(Window.whole(7, 7 + span), 50)] == labels


@given(windows(), st.integers(0, 300))
def test_ticks_keep_apart(window: Window, width: int) -> None:
    columns = [tick.column for tick in ticks(window, width)]
    assert all(0 <= column < width for column in columns)
    assert all(after - before >= 13 for before, after in pairwise(columns))


def passes() -> Passes:
    """idle [0, 10), decode [10, 14), mixed [14, 30), idle [30, 40); times in ms."""
    starts = np.array([0, 10, 14, 30]) * MS
    ends = np.array([10, 14, 30, 40]) * MS
    return Passes({"t_sched": starts, "t_end": ends}, ("idle", "decode", "mixed"), np.array([0, 1, 2, 0]))


def test_the_kind_that_fills_most_of_a_column_wins() -> None:
    window = Window.whole(-10 * MS, 50 * MS)
    assert passes().busiest(window, 6) == [None, "idle", "mixed", "mixed", "idle", None]
    assert passes().busiest(Window.whole(0, 40 * MS), 1) == ["idle"]
    assert passes().busiest(window, 0) == []


def test_peaks_are_the_highest_of_a_column() -> None:
    values = np.array([1, 9, 3, 2])
    assert passes().peaks(values, Window.whole(-10 * MS, 50 * MS), 6) == [None, 1, 9, 3, 2, None]
    assert passes().peaks(values, Window.whole(0, 40 * MS), 40)[11:16] == [9, 9, 9, 3, 3]


@pytest.mark.parametrize(
    ("t", "place"), [(-1, None), (0, 0), (10 * MS - 1, 0), (10 * MS, 1), (40 * MS, 3), (41 * MS, None)]
)
def test_the_pass_at_an_instant(t: int, place: int | None) -> None:
    assert passes().at(t) == place


def test_no_passes_are_no_trouble() -> None:
    nothing = Passes(
        {"t_sched": np.array([], np.int64), "t_end": np.array([], np.int64)}, ("idle",), np.array([], np.int64)
    )
    window = Window.whole(0, 100)
    assert (nothing.at(5), nothing.busiest(window, 2), nothing.peaks(np.array([], np.int64), window, 2)) == (
        None,
        [None, None],
        [None, None],
    )


lives = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=20)


@given(lives)
def test_in_flight_counts_the_lives_that_touch_a_column(lives_: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in lives_], np.int64)
    ends = np.array([start + length for start, length in lives_], np.int64)
    edges = np.arange(0, 151, 10)
    counted = [
        sum(start < right and (end > left) for start, end in zip(starts, ends, strict=True))
        for left, right in pairwise(edges)
    ]
    assert in_flight(starts, ends, edges).tolist() == counted
