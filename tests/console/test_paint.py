"""Styled lines on their way to a terminal: as many colours as it takes, none where none are wanted."""

import io

import pytest

from console.text.paint import colour_of, is_dark, nearest_of_256, paint, wrapped
from console.widgets.ink import Line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LINE: Line = [("a ", "text"), ("b", "good bold"), ("  ", "text")]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "256"),
        ({"COLORTERM": "truecolor"}, "true"),
        ({"COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "dumb"}, "none"),
        ({"NO_COLOR": ""}, "256"),
    ],
)
def test_a_terminal_gets_the_colours_it_asks_for(environment: dict[str, str], expected: str) -> None:
    assert colour_of(Terminal(), environment) == expected


def test_a_file_gets_no_colours() -> None:
    assert colour_of(io.StringIO(), {"COLORTERM": "truecolor"}) == "none"


def test_plain_lines_have_no_escapes_and_no_blanks_at_the_end() -> None:
    assert paint([LINE, []]) == "a b\n\n"


def test_coloured_lines_colour_what_has_a_colour() -> None:
    assert paint([LINE], "true") == "a \x1b[1;38;2;127;200;160mb\x1b[0m  \n"
    assert paint([LINE], "256") == f"a \x1b[1;38;5;{nearest_of_256('#7fc8a0')}mb\x1b[0m  \n"


@pytest.mark.parametrize(
    ("rgb", "code"), [("#000000", 16), ("#ffffff", 231), ("#5f87af", 67), ("#608ab3", 67), ("#ff0000", 196)]
)
def test_the_nearest_of_256_colours(rgb: str, code: int) -> None:
    assert nearest_of_256(rgb) == code


@pytest.mark.parametrize(("said", "dark"), [("15;0", True), ("0;15", False), ("", True), ("0;default", True)])
def test_the_background_is_believed(said: str, dark: bool) -> None:
    assert is_dark({"COLORFGBG": said}) is dark


def test_long_sentences_are_broken_and_not_cut() -> None:
    lines = wrapped("one two three four", 9, indent="  ")
    assert ["".join(text for text, _ in line) for line in lines] == ["one two", "  three", "  four"]
