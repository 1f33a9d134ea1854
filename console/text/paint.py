"""From lines of styled text to what a terminal understands; plain text where there is no terminal or no colour."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, TextIO

from console.theme import COLOURS, Ink, resolve
from console.widgets.ink import Line, width_of

Colour = Literal["none", "256", "true"]

_NARROW: Final = 60
_WIDE: Final = 120
"""Lines longer than this are hard to follow, however wide the terminal is."""

_UNCOLOURED: Final = frozenset({*COLOURS["text"], *COLOURS["strong"]})
"""Running text keeps the terminal's own colour, which its owner can read on whatever background there is."""


def terminal_width() -> int:
    """Columns to fill: the terminal's, in reason; 80 where there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, _NARROW), _WIDE)


def colour_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Colour:
    """How many colours a stream takes: none unless it is a terminal that does not refuse them (NO_COLOR, dumb)."""
    if not stream.isatty() or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return "none"
    return "true" if environment.get("COLORTERM") in {"truecolor", "24bit"} else "256"


def is_dark(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal says its background is dark (COLORFGBG); it is taken to be when it says nothing."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return not background.isdigit() or int(background) in {*range(7), 8}


def paint(lines: Iterable[Line], colour: Colour = "none", dark: bool = True) -> str:
    """The lines as text, one a row, without blanks at their ends."""
    return "".join(_paint_line(line, colour, dark) + "\n" for line in lines)


def show(lines: Iterable[Line]) -> None:
    """Write the lines to stdout as it can show them."""
    sys.stdout.write(paint(lines, colour_of(sys.stdout), is_dark()))


def _paint_line(line: Line, colour: Colour, dark: bool) -> str:
    if colour == "none":
        return "".join(text for text, _ in line).rstrip()
    pieces = [(text, _escape(style, colour, dark)) for text, style in line]
    return "".join(f"\x1b[{codes}m{text}\x1b[0m" if codes else text for text, codes in pieces)


@lru_cache(maxsize=256)
def _escape(style: str, colour: Colour, dark: bool) -> str:
    """The SGR parameters of a style; empty where the terminal's own look will do."""
    ink = resolve(style, dark)
    codes = [code for code, wanted in _modifiers(ink) if wanted]
    if ink.foreground not in _UNCOLOURED:
        codes.append(foreground(ink.foreground, colour))
    return ";".join(codes)


def _modifiers(ink: Ink) -> tuple[tuple[str, bool], ...]:
    return ("1", ink.bold), ("3", ink.italic), ("4", ink.underline), ("7", ink.reverse)


def foreground(rgb: str, colour: Colour) -> str:
    """The SGR parameter of a text colour given as `#rrggbb`."""
    if colour == "true":
        return "38;2;" + ";".join(str(channel) for channel in channels(rgb))
    return f"38;5;{nearest_of_256(rgb)}"


def channels(rgb: str) -> tuple[int, int, int]:
    """`#rrggbb` as red, green, blue."""
    return int(rgb[1:3], 16), int(rgb[3:5], 16), int(rgb[5:7], 16)


def nearest_of_256(rgb: str) -> int:
    """The colour of the 6 x 6 x 6 cube that comes nearest to `#rrggbb`."""
    red, green, blue = (_cube(channel) for channel in channels(rgb))
    return 16 + 36 * red + 6 * green + blue


def _cube(channel: int) -> int:
    """The nearest of the six levels 0, 95, 135, 175, 215, 255."""
    return 0 if channel < 48 else 1 if channel < 115 else min((channel - 35) // 40, 5)


def flowed(pieces: Iterable[Line], width: int, indent: str = "", gap: str = "   ") -> list[Line]:
    """Pieces side by side, those that have no room below the others: what is counted must not be cut off."""
    lines: list[Line] = []
    for piece in pieces:
        if lines and width_of(lines[-1]) + len(gap) + width_of(piece) <= width:
            lines[-1] = [*lines[-1], (gap, "text"), *piece]
        else:
            lines.append([(indent, "text"), *piece] if lines and indent else piece)
    return lines


def wrapped(text: str, width: int, style: str = "muted", indent: str = "") -> list[Line]:
    """A sentence broken into lines: what explains a number must not be cut off."""
    return [[(line, style)] for line in textwrap.wrap(text, width, subsequent_indent=indent)]
