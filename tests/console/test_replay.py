"""Where somebody stands in a run: what each key does, without a widget (SPEC F7)."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.lanes import Lanes, load_lanes
from console.ordering import ORDERS, Order, order_of
from console.replay import Replay
from console.selecting import Stretch
from console.session import Session
from tests.console.tui_runs import mixed_ends

nows = st.integers(0, 10**12)
parts = st.floats(0, 1)


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lanes]:
    """The lanes of a run in which requests ended in every way."""
    run = mixed_ends(tmp_path_factory.mktemp("runs"))
    with Session(run) as session, session.connect() as cursor:
        yield load_lanes(session, cursor)


def standing(lanes: Lanes, part: float = 0.0) -> Replay:
    """A replay at rest somewhere in the run."""
    replay = Replay.of(lanes, None)
    replay.seek(lanes.window.low + int(part * (lanes.window.high - lanes.window.low)), 0)
    return replay


@given(parts, parts, nows, st.integers(0, 10**9))
def test_seek_then_play_is_play_then_seek(lanes: Lanes, begin: float, part: float, now: int, after: int) -> None:
    t = lanes.window.low + int(part * lanes.window.span)
    one, other = standing(lanes, begin), standing(lanes, begin)
    one.seek(t, now)
    one.playhead = one.playhead.play(now)
    other.playhead = other.playhead.play(now)
    other.seek(t, now)
    assert one.frame(now + after, 10, follow=True).at == other.frame(now + after, 10, follow=True).at
    assert one.window == other.window


@given(st.data(), st.sampled_from(["event", "pass"]), st.integers(1, 4))
def test_a_step_forward_and_back_is_nothing(lanes: Lanes, data: st.DataObject, kind: str, count: int) -> None:
    replay = standing(lanes)
    marks = (lanes.marks if kind == "event" else lanes.passes[0].starts).tolist()
    place = data.draw(st.integers(0, len(marks) - 1 - count))
    replay.seek(marks[place], 0)
    step = replay.step_event if kind == "event" else replay.step_pass
    step(count, 0)
    assert replay.playhead.at == marks[place + count]
    step(-count, 0)
    assert replay.playhead.at == marks[place]


@given(st.sampled_from(ORDERS), st.lists(st.integers(-7, 7), max_size=8), st.integers(1, 9))
def test_whatever_is_scrolled_or_selected_is_on_screen(lanes: Lanes, by: str, moves: list[int], rows: int) -> None:
    replay = standing(lanes)
    replay.order = order_of(lanes, by)
    for place, move in enumerate(moves):
        replay.scroll(move, rows) if place % 2 else replay.select_by(move)
        frame = replay.frame(0, rows)
        shown = frame.lanes_of(lanes).tolist()
        assert 0 <= frame.top <= max(len(shown) - rows, 0)
        assert frame.selected in shown[frame.top : frame.top + rows]
    assert sorted(replay.shown().tolist()) == lanes.alive(replay.window).tolist()


@given(parts, st.lists(st.integers(-5, 5), min_size=1, max_size=6))
def test_a_stretch_by_keys_spans_from_its_anchor_to_the_playhead(lanes: Lanes, part: float, steps: list[int]) -> None:
    replay = standing(lanes, part)
    anchor = replay.playhead.at
    for step in steps:
        replay.extend(step, 80, 0)
    assert replay.stretch == Stretch.between(anchor, replay.playhead.at)
    replay.look_closer(0)
    assert replay.window.start <= replay.stretch.start
    assert replay.stretch.end <= max(replay.window.end, replay.window.high + 1)
    replay.drop_stretch()
    assert (replay.frame(0, 5).stretch, replay.extending) == (None, False)


@given(parts, parts)
def test_scrubbing_puts_the_playhead_in_the_middle_of_the_window(lanes: Lanes, begin: float, part: float) -> None:
    replay = standing(lanes, begin)
    replay.zoom(1, 0)
    replay.zoom(1, 0)
    span, t = replay.window.span, lanes.window.low + int(part * lanes.window.span)
    replay.pan_to(t, 0)
    assert replay.playhead.at == t
    assert replay.window.span == span
    middle = replay.window.start + span // 2
    assert middle == t or replay.window.start == lanes.window.low or replay.window.end == lanes.window.high


def test_another_look_at_the_run_stands_where_the_one_before_stood(lanes: Lanes) -> None:
    before = standing(lanes, 0.5)
    before.begin_stretch(0)
    before.zoom(1, 0)
    before.select_by(3)
    after = Replay.of(lanes, None)
    after.resume(before, 0)
    assert after.stretch == before.stretch
    assert (after.playhead.at, after.window, after.selected) == (before.playhead.at, before.window, before.selected)


def test_the_lanes_of_a_window_are_worked_out_once(lanes: Lanes) -> None:
    replay = standing(lanes)
    assert replay.shown() is replay.shown()
    kept = replay.shown()
    replay.order = Order.of("latency", lanes.columns["finish"] - lanes.columns["arrival"])
    assert replay.shown() is not kept
    replay.window = replace(replay.window, end=replay.window.end - 1)
    assert replay.shown().tolist() == replay.order.arrange(lanes.alive(replay.window)).tolist()


def test_misses_are_the_instants_at_which_the_slo_was_passed(lanes: Lanes) -> None:
    replay = Replay.of(lanes, 50_000_000)
    slow = sorted(replay.slow)
    assert slow
    for index, miss in zip(slow, replay.misses.tolist(), strict=True):
        lane = lanes.lane(index)
        assert miss == min(lane.arrival + 50_000_000, lane.finish)
