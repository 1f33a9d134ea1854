"""Strips: one number a column, and its picture. Every row has one cell a column, whatever is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.theme import STEPS, Look
from console.timeline import Floats, Window
from console.widgets.ink import width_of
from console.widgets.strips import (
    UNKNOWN,
    Row,
    Series,
    Strip,
    blocks,
    braille,
    glyphs,
    highest,
    means,
    peaks,
    readings,
    stacked,
)

WINDOW = Window.whole(0, 1_000)
NAN = float("nan")
levels = st.lists(st.one_of(st.none(), st.just(0.0), st.floats(1e-6, 100)), min_size=1, max_size=40).map(
    lambda values: np.array([NAN if value is None else value for value in values])
)


def text_of(row: Row) -> str:
    return "".join(glyph for glyph, _ in row)


def series(*points: tuple[int, float], until: int) -> Series:
    return Series(np.array([t for t, _ in points]), np.array([value for _, value in points]), until)


def test_a_value_holds_until_the_next_one_and_is_not_known_outside() -> None:
    found = peaks(series((100, 1.0), (300, 4.0), (500, 2.0), until=800), WINDOW, 10)
    np.testing.assert_array_equal(found, [NAN, 1, 1, 4, 4, 2, 2, 2, NAN, NAN])


def test_the_highest_value_of_a_column_counts_however_short_it_is() -> None:
    found = peaks(series((0, 1.0), (510, 9.0), (511, 1.0), until=1_000), WINDOW, 4)
    np.testing.assert_array_equal(found, [1, 1, 9, 1])


def test_means_are_over_time_and_of_what_is_known() -> None:
    found = means(series((0, 2.0), (500, 4.0), (1_000, NAN), (1_500, 6.0), until=2_000), Window.whole(0, 2_000), 2)
    np.testing.assert_allclose(found, [3.0, 6.0])
    assert np.isnan(means(series((0, NAN), until=100), WINDOW, 1)).all()


def test_means_keep_their_digits_on_a_monotonic_clock() -> None:
    begin = 9_007_199_254_740_993
    found = means(series((begin, 1.0), (begin + 1, 3.0), until=begin + 2), Window.whole(begin, begin + 1_000), 1_000)
    np.testing.assert_allclose(found[:2], [1.0, 3.0])


def test_readings_are_averaged_where_they_were_taken() -> None:
    found = readings(np.array([10, 20, 950, 2_000]), np.array([1.0, 3.0, 7.0, 99.0]), WINDOW, 10)
    np.testing.assert_array_equal(found, [2, *[NAN] * 8, 7])


def test_nothing_known_and_no_room() -> None:
    nothing = Series(np.array([], np.int64), np.array([]), 0)
    assert np.isnan(peaks(nothing, WINDOW, 3)).all()
    assert len(means(nothing, WINDOW, 0)) == len(readings(nothing.times, nothing.values, WINDOW, 0)) == 0
    assert highest(np.array([NAN])) == 0.0
    assert stacked([], 1.0, 2) == []


@given(levels, st.integers(1, 4), st.one_of(st.just(0.0), st.floats(1e-3, 200)))
def test_every_row_has_one_cell_a_column(found: Floats, height: int, top: float) -> None:
    for rows in (blocks(found, top, height, "text"), braille(np.repeat(found, 2), top, height, "text")):
        assert [len(row) for row in rows] == [len(found)] * height
        assert all(cell_len(glyph) == 1 for row in rows for glyph, _ in row)


@given(levels, st.integers(1, 4))
def test_what_is_there_is_seen_and_what_is_not_known_is_not_nothing(found: Floats, height: int) -> None:
    bottom = blocks(found, 100.0, height, "text")[-1]
    for cell, level in zip(bottom, found, strict=True):
        if np.isnan(level):
            assert cell == UNKNOWN
        else:
            assert (cell[0] == " ") == (level == 0)


@given(levels)
def test_more_is_never_drawn_lower(found: Floats) -> None:
    def height_of(column: int) -> int:
        return sum(bin(ord(row[column][0]) - 0x2800).count("1") for row in rows if row[column][0] not in " ┄")

    known = np.nan_to_num(found)
    rows = braille(np.repeat(known, 2), 100.0, 3, "text")
    order = np.argsort(known)
    heights = [height_of(int(column)) for column in order]
    assert heights == sorted(heights)


def test_a_full_column_is_full_and_an_eighth_is_an_eighth() -> None:
    assert [text_of(row) for row in blocks(np.array([8.0, 4.0, 1.0, 12.0]), 8.0, 2, "text")] == ["█  █", "██▂█"]
    assert [text_of(row) for row in braille(np.array([4.0, 4.0, 0.0, 1.0]), 4.0, 1, "text")] == ["⣿⢀"]


def test_parts_stand_on_each_other_and_the_smallest_still_shows() -> None:
    first, second = Look("█", "good"), Look("░", "bad")
    parts = [(np.array([2.0, 0.0, 0.1, NAN]), first), (np.array([1.0, 3.0, 0.2, NAN]), second)]
    assert [text_of(row) for row in stacked(parts, 4.0, 4)] == ["    ", "░░  ", "█░  ", "█░░┄"]


def test_words_are_glyphs_and_unknown_ones_a_dotted_line() -> None:
    assert text_of(glyphs(["idle", None, "mixed", "odd"], dict(STEPS))) == "·┄▓┄"


@pytest.mark.parametrize("gutter", [0, 1, 6, 18])
def test_a_strip_has_its_name_and_value_in_its_first_row(gutter: int) -> None:
    lines = Strip("waiting", "max 8", blocks(np.array([1.0, 8.0]), 8.0, 2, "text")).lines(gutter)
    assert [width_of(line) for line in lines] == [gutter + 2] * 2
    if gutter == 18:
        assert lines[0][0][0] + lines[0][1][0] == " waiting    max 8 "


def test_notes_stand_under_the_name() -> None:
    rows = blocks(np.array([1.0]), 1.0, 3, "text")
    lines = Strip("KV", "3/8", rows).lines(12, notes=["free 5"])
    assert ["".join(text for text, _ in line)[:12] for line in lines] == [" KV     3/8 ", "     free 5 ", " " * 12]


@pytest.mark.parametrize(
    ("name", "value", "head"),
    [
        ("KV held", "9/60", " KV held     9/60 "),
        ("KV held", "389/2,912", " KV he… 389/2,912 "),
        ("KV for nobody", "≤12,345", " KV for … ≤12,345 "),
        ("sixteen letters!", "", " sixteen letters! "),
    ],
)
def test_a_number_beside_a_strip_is_never_cut(name: str, value: str, head: str) -> None:
    strip = Strip(name, value, [[("█", "text")]])
    assert "".join(text for text, _ in strip.lines(18)[0])[:18] == head
