"""The playhead: a value that moves only by what it is told (SPEC F7)."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from console.playhead import SPEEDS, Playhead

S = 10**9
times = st.integers(0, 100 * S)
nows = st.integers(0, 10**15)


@st.composite
def playheads(draw: st.DrawFn) -> tuple[Playhead, int]:
    """A playhead somewhere in a life, and a viewer's clock that is not before it."""
    end = draw(st.integers(0, 100 * S))
    start = draw(st.integers(0, end))
    at, since = draw(st.integers(start, end)), draw(nows)
    playhead = Playhead(start, end, at, since, draw(st.sampled_from(SPEEDS)), draw(st.booleans()), draw(st.booleans()))
    return playhead, since + draw(st.integers(0, 200 * S))


@given(playheads(), times)
def test_seek_then_play_is_play_then_seek(given_: tuple[Playhead, int], t: int) -> None:
    playhead, now = given_
    assert playhead.seek(t, now).play(now) == playhead.play(now).seek(t, now)


@given(playheads())
def test_it_never_leaves_the_run(given_: tuple[Playhead, int]) -> None:
    playhead, now = given_
    assert playhead.start <= playhead.position(now) <= playhead.end


@given(playheads(), st.sampled_from(["play", "pause", "reverse", "faster", "slower", "settled"]))
def test_no_key_but_seek_and_step_makes_it_jump(given_: tuple[Playhead, int], key: str) -> None:
    playhead, now = given_
    changed: Playhead = getattr(playhead, key)(now)
    assert changed.position(now) == playhead.position(now)


@given(playheads())
def test_reverse_twice_is_nothing(given_: tuple[Playhead, int]) -> None:
    playhead, now = given_
    twice = playhead.reverse(now).reverse(now)
    assert twice == playhead.at_speed(playhead.speed, now)


@given(playheads(), st.integers(0, 50 * S), st.integers(0, 50 * S))
def test_playing_on_is_playing_for_the_sum(given_: tuple[Playhead, int], first: int, second: int) -> None:
    playhead, now = given_
    playing = playhead.at_speed(Fraction(4), now).play(now)
    assert playing.play(now + first).position(now + first + second) == playing.position(now + first + second)


@given(st.lists(times, min_size=2, unique=True).map(sorted), st.data())
def test_a_step_and_a_step_back_is_nothing(marks: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(marks) - 2))
    playhead = Playhead.resting(0, 100 * S, marks[place])
    there = playhead.step(marks, now=7)
    assert there.at == marks[place + 1]
    assert there.step(marks, now=8, count=-1).at == marks[place]


@given(st.lists(times, unique=True).map(sorted), times, st.integers(-5, 5).filter(bool))
def test_a_step_goes_to_the_next_mark_or_stays(marks: list[int], at: int, count: int) -> None:
    stepped = Playhead.resting(0, 100 * S, at).step(np.array(marks, np.int64), now=0, count=count)
    ahead = [mark for mark in marks if mark > at] if count > 0 else [mark for mark in reversed(marks) if mark < at]
    assert not stepped.playing
    assert stepped.at == (ahead[min(abs(count), len(ahead)) - 1] if ahead else at)


def test_it_runs_at_its_speed_both_ways() -> None:
    playhead = Playhead.resting(0, 100 * S, 50 * S).at_speed(Fraction(1, 10), now=0).play(now=0)
    assert playhead.position(now=10 * S) == 51 * S
    assert playhead.reverse(now=10 * S).position(now=20 * S) == 50 * S


def test_play_at_the_end_starts_over() -> None:
    ended = Playhead.resting(5, 10 * S)
    assert ended.toggle(now=3).position(now=3) == 5
    backward = ended.reverse(now=0).seek(5, now=0)
    assert backward.toggle(now=3).position(now=3) == 10 * S


def test_it_comes_to_rest_at_the_end_and_not_before() -> None:
    playing = Playhead.resting(0, 10, at=0).play(now=0)
    assert playing.settled(now=9).playing
    assert playing.settled(now=10) == Playhead(0, 10, 10, since=10)


def test_the_speeds_have_ends() -> None:
    playhead = Playhead.resting(0, 10)
    for _ in range(20):
        playhead = playhead.faster(now=0)
    assert playhead.speed == 64
    for _ in range(20):
        playhead = playhead.slower(now=0)
    assert playhead.speed == Fraction(1, 10)


def test_a_run_that_grew_keeps_the_place() -> None:
    playing = Playhead.resting(0, 10, at=4).play(now=0)
    grown = playing.over(0, 100, now=3)
    assert (grown.position(now=3), grown.position(now=53), grown.end) == (7, 57, 100)
