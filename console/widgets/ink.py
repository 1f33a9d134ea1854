"""Lines of styled text before they become strips: built from data, cut and padded by cells, never parsed as markup.

A piece is `(text, style)`, a line a list of pieces. Styles are those of `console.theme`. Nothing here knows Textual.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size

Piece = tuple[str, str]
Line = list[Piece]
Align = Literal["left", "right"]

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_BOTH_ENDS: Final = 8
"""From this width on there is room for both ends of a text."""


def clean(text: str) -> str:
    """Data made safe to print: what controls a terminal or turns the writing direction shows as a dot."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("·" if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else char for char in text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """`text` in exactly `width` cells; what is cut off shows as an ellipsis."""
    if width <= 0:
        return ""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    blank = " " * (width - size)
    return blank + text if align == "right" else text + blank


def fit_ends(text: str, width: int) -> str:
    """`text` in exactly `width` cells; of a long one both ends are kept, as ids differ at their end."""
    over = cell_len(text) - width
    if over <= 0 or width < _BOTH_ENDS:
        return fit(text, width)
    tail = ""
    for char in reversed(text):
        if cell_len(char + tail) > width // 2:
            break
        tail = char + tail
    return fit(text, width - cell_len(tail)) + tail


def width_of(line: Iterable[Piece]) -> int:
    """Cells of a line."""
    return sum(cell_len(text) for text, _ in line)


def crop(line: Iterable[Piece], width: int) -> Line:
    """The line in at most `width` cells, with an ellipsis where it was cut."""
    kept: Line = []
    left = width
    for text, style in line:
        size = cell_len(text)
        if size > left:
            if left > 0:
                kept.append((fit(text, left), style))
            elif kept:
                last, last_style = kept.pop()
                kept.append((fit(last + "…", cell_len(last)), last_style))
            return kept
        kept.append((text, style))
        left -= size
    return kept


def pad(line: Iterable[Piece], width: int, style: str = "text") -> Line:
    """The line in exactly `width` cells."""
    kept = crop(line, width)
    missing = width - width_of(kept)
    return [*kept, (" " * missing, style)] if missing > 0 else kept


def beside(left: Sequence[Line], right: Sequence[Line], left_width: int) -> list[Line]:
    """Two blocks of lines side by side, the left one padded to `left_width`."""
    height = max(len(left), len(right))
    return [
        [*pad(left[i] if i < len(left) else [], left_width), *(right[i] if i < len(right) else [])]
        for i in range(height)
    ]


def spread(left: Line, right: Line, width: int) -> Line:
    """`left` at the left end and `right` at the right end; the right one goes first when there is no room for both."""
    room = width - width_of(right) - 1
    if room < min(width_of(left), 8):
        return pad(left, width)
    return [*pad(left, room + 1), *right]


def bar(share: float, width: int, style: str, glyph: str = "█") -> Line:
    """A horizontal bar of `share` (0 to 1) of `width` cells; solid bars end in eighths, others in whole glyphs.

    Any share above zero shows as something.
    """
    share = min(max(share, 0.0), 1.0)
    if glyph != "█":
        full = round(share * width) or (1 if share > 0 and width else 0)
        return [(glyph * full, style), (" " * (width - full), "text")]
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    full, rest = divmod(eighths, 8)
    solid = ("█" * full + (_EIGHTHS[rest] if rest else ""))[:width]
    return [(solid, style), (" " * (width - len(solid)), "text")]


def bar_at(lit: range, width: int, glyph: str, style: str) -> Line:
    """A bar in some of `width` cells."""
    before = lit.start if lit else 0
    return [(" " * before, "text"), (glyph * len(lit), style), (" " * (width - before - len(lit)), "text")]


def signed_bar(share: float, width: int, better: str = "good", worse: str = "bad") -> Line:
    """A bar from the middle: to the left for a share below zero (better), to the right above (worse); -1 to 1.

    Takes `width` cells, or one less where that is even: the middle is a cell of its own.
    """
    half = max(width - 1, 0) // 2
    size = min(round(abs(share) * half) or (1 if share else 0), half)
    blank = " " * (half - size)
    if share <= 0:
        return [(blank, "text"), ("━" * size, better), ("┆", "faint"), (" " * half, "text")]
    return [(" " * half, "text"), ("┆", "faint"), ("━" * size, worse), (blank, "text")]


def spark(level: float) -> str:
    """One cell as high as `level` (0 to 1); blank at zero, the lowest mark for anything above it."""
    if level <= 0:
        return " "
    return _LEVELS[min(int(level * len(_LEVELS)), len(_LEVELS) - 1)]


def runs(cells: Iterable[Piece]) -> Line:
    """Neighbouring cells of one style joined to one piece."""
    line: Line = []
    text, last = "", ""
    for glyph, style in cells:
        if style != last and text:
            line.append((text, last))
            text = ""
        text, last = text + glyph, style
    if text:
        line.append((text, last))
    return line


def rule(title: str, width: int, note: str = "") -> Line:
    """A heading over a block: title, a thin rule, a note at the right."""
    head: Line = [(title, "strong bold"), (" ", "text")]
    tail: Line = [(f" {note}", "muted")] if note else []
    room = width - width_of(head) - width_of(tail)
    if room < 1:
        return pad(head, width)
    return [*head, ("─" * room, "line"), *tail]


def duration(ns: int | None) -> str:
    """A time for a person: three or four digits and a unit."""
    if ns is None:
        return "-"
    size = abs(ns)
    if size < 1_000:
        return f"{ns}ns"
    for unit, scale in (("µs", 1e3), ("ms", 1e6), ("s", 1e9)):
        if size < scale * 999.5 or unit == "s":
            break
    if unit == "s" and size >= 120e9:
        minutes, seconds = divmod(round(size / 1e9), 60)
        return f"{'-' if ns < 0 else ''}{minutes}m{seconds:02d}s"
    value = ns / scale
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}{unit}"


def instant(ns: int, span: int) -> str:
    """A place in time, in seconds, with as many digits as a picture `span` ns wide can tell apart."""
    digits = 3 if span >= 10**9 else 6
    return f"{ns / 1e9:.{digits}f}s"


def ms(ns: float | None, digits: int = 1) -> str:
    """A time in milliseconds for a column of numbers, with thousands apart."""
    return "-" if ns is None else f"{ns / 1e6:,.{digits}f}"


def percent(share: float | None) -> str:
    """A share with one digit; tiny ones say so."""
    if share is None:
        return "-"
    return "<0.1%" if 0 < share < 0.0005 else f"{share * 100:.1f}%"
