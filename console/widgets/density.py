"""How much air a page has: what of its lines a compact screen leaves away, and what it joins. Pure."""

from collections.abc import Iterable
from typing import Final

from console.widgets.ink import Line, Piece, crop, width_of

ASIDE: Final = "muted aside"
"""Style of a line that only explains others, and that a compact screen can do without."""
HEADS: Final = "muted heads"
"""Style of the heads of columns, which on a compact screen stand in the line of their heading."""
_RULE: Final = "─"
_LEGIBLE: Final = 9
"""Cells that the beginning of a note is worth showing in: the unit comes first."""


def dense(lines: Iterable[Line]) -> list[Line]:
    """The lines of a page for a compact screen: without blank ones and asides, heads of columns in their heading."""
    kept: list[Line] = []
    for line in lines:
        if not line or _is_aside(line):
            continue
        joined = _joined(kept[-1], line) if kept and _says(line, "heads") else None
        if joined is None:
            kept.append(line)
        else:
            kept[-1] = joined
    return kept


def _is_aside(line: Line) -> bool:
    """Whether nothing of it is anything else."""
    return all("aside" in style.split() for text, style in line if text.strip()) and _says(line, "aside")


def _says(line: Line, role: str) -> bool:
    """Whether any of it has this role."""
    return any(role in style.split() for _, style in line)


def _joined(heading: Line, heads: Line) -> Line | None:
    """Heads of columns inlaid in the rule over them, its note wherever there is room; None where they do not fit."""
    place = next((i for i, piece in enumerate(heading) if _is_rule(piece)), None)
    text = "".join(piece for piece, _ in heads)
    first, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if place is None or first <= width_of(heading[:place]):
        return None
    title, note = heading[:place], heading[place + 1 :]
    before, after = first - width_of(title), width_of(heading) - end
    inner: Line = [*[(piece.lstrip(), style) for piece, style in note], (" ", "text")] if note else []
    if after - 2 < width_of(note) <= before - 2:
        return [*title, *inner, *_rule(before - width_of(inner)), *_cells(heads, first, end)]
    line = [*title, *_rule(before), *_cells(heads, first, end)]
    return [*line, (" ", "text"), *_rule(after - 1, crop(note, after - 2))] if after - 2 >= _LEGIBLE else line


def _is_rule(piece: Piece) -> bool:
    return piece[1] == "line" and not piece[0].strip(_RULE)


def _rule(room: int, note: Line | None = None) -> Line:
    """A rule in so many cells, with a note at its end, or else a blank."""
    end: Line = note or [(" ", "text")]
    return [(_RULE * (room - width_of(end)), "line"), *end]


def _cells(line: Line, first: int, end: int) -> Line:
    """Some cells of a line of narrow characters."""
    found: Line = []
    at = 0
    for text, style in line:
        found.append((text[max(first - at, 0) : max(end - at, 0)], style))
        at += len(text)
    return [piece for piece in found if piece[0]]
