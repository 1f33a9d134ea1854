"""What a compact screen leaves away of a page, and what it joins."""

from hypothesis import given
from hypothesis import strategies as st

from console.theme import resolve
from console.widgets.density import ASIDE, HEADS, dense
from console.widgets.ink import Line, rule, width_of

ROW: Line = [("a row", "text"), ("   1.0", "muted")]


def text(lines: list[Line]) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


def test_blank_lines_and_asides_go_and_rows_stay() -> None:
    page: list[Line] = [[], ROW, [("  ", "text"), ("x = what it is", ASIDE)], [], ROW, []]
    assert dense(page) == [ROW, ROW]


def test_a_line_that_says_more_than_an_aside_stays() -> None:
    line: Line = [("1.0 ", "strong"), ("= what it is", ASIDE)]
    assert dense([line, [("   ", "text")]]) == [line, [("   ", "text")]]


def test_heads_of_columns_are_inlaid_in_their_heading_with_its_note_where_there_is_room() -> None:
    heads: Line = [(f"{'p50':>12}{'p99':>6}", HEADS)]
    assert text(dense([rule("Latency", 40, "ms, of all"), heads, ROW])) == [
        "Latency  p50   p99 ────────── ms, of all",
        "a row   1.0",
    ]
    wide: Line = [(f"{'p50':>35}{'p99':>5}", HEADS)]
    assert text(dense([rule("Latency", 40, "ms, of all"), wide])) == ["Latency ms, of all ──────────── p50  p99"]
    assert text(dense([rule("Latency", 40, "a note much too long"), [(f"{'p50':>20}{'p99':>15}", HEADS)]])) == [
        "Latency ──────── p50            p99"
    ]


def test_heads_that_do_not_fit_beside_the_title_stay_below_it() -> None:
    page: list[Line] = [rule("A long title", 30), [("  p50  p99", HEADS)]]
    assert dense(page) == page


def test_heads_after_anything_but_a_heading_stay() -> None:
    page: list[Line] = [rule("Title", 30), ROW, [(f"{'p50':>20}", HEADS)]]
    assert dense(page) == page


@given(
    title=st.integers(1, 20),
    note=st.integers(0, 20),
    first=st.integers(0, 40),
    columns=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    width=st.integers(30, 90),
)
def test_a_joined_heading_keeps_its_columns_and_the_width(
    title: int, note: int, first: int, columns: list[int], width: int
) -> None:
    heads = " " * first + "".join("h".rjust(size) for size in columns)
    made = dense([rule("t" * title, width, "n" * note), [(heads, HEADS)]])
    assert all(width_of(line) <= max(width, width_of([(heads, "")])) for line in made)
    places = [[place for place, char in enumerate(line) if char == "h"] for line in (text(made)[-1], heads)]
    assert places[0] == places[1]


def test_what_a_line_is_to_its_page_looks_like_nothing() -> None:
    assert resolve(ASIDE) == resolve(HEADS) == resolve("muted")
