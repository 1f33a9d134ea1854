"""Views that share a place, and tables of which the selected row and the sum stay in sight. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from console.widgets.density import dense
from console.widgets.ink import Line, Piece, crop, pad, width_of

MARK = "▸"
"""What the selected row begins with."""

Placed = tuple[Line, int | None]
"""A line, and which row of its table it is."""


@dataclass(frozen=True, slots=True)
class Table:
    """Lines above, rows that can be selected, lines below that close it, and what may follow where there is room.

    The last `pinned` rows stay in sight whatever is selected.
    """

    head: Sequence[Line]
    rows: Sequence[Line] = ()
    foot: Sequence[Line] = ()
    more: Sequence[Line] = field(default_factory=list)
    pinned: int = 0

    @property
    def lines(self) -> list[Line]:
        """All of it, nothing selected."""
        return [*self.head, *(unmarked(row) for row in self.rows), *self.foot, *self.more]

    def dense(self) -> "Table":
        """The table of a compact screen."""
        return replace(self, head=dense(self.head), foot=dense(self.foot), more=dense(self.more))

    def within(self, chosen: int, width: int, height: int) -> list[Placed]:
        """At most `height` lines, the selected row and the sum among them."""
        rows = [(marked(row, width) if i == chosen else unmarked(row), i) for i, row in enumerate(self.rows)]
        body = rows[: len(rows) - self.pinned]
        kept = rows[len(body) :]
        room = max(height - len(self.head) - len(kept) - len(self.foot), 1)
        first = max(min(chosen - room * 2 // 3, len(body) - room), 0)
        placed: list[Placed] = [(line, None) for line in self.head]
        placed += [*body[first : first + room], *kept]
        placed += [(line, None) for line in (*self.foot, *self.more)]
        return [(crop(line, width), place) for line, place in placed[:height]]


def marked(row: Line, width: int) -> Line:
    """The selected row."""
    return [(piece, f"{style} on.cursor") for piece, style in pad([(MARK, "accent bold"), *row], width)]


def unmarked(row: Line) -> Line:
    """Any other row, as far to the right."""
    return [(" ", "text"), *row]


def tab_starts(names: Sequence[str]) -> list[int]:
    """The cell that each name of `tabs_line` begins in."""
    return [sum(len(name) + 2 for name in names[:place]) for place in range(len(names))]


def tabs_line(names: Sequence[str], chosen: int, width: int, note: str = "") -> Line:
    """The names, the chosen one in brackets, so that no colour is needed; a note at the right where there is room."""
    line: list[Piece] = []
    for place, name in enumerate(names):
        line.append((f"[{name}]", "accent bold") if place == chosen else (f" {name} ", "muted"))
    room = width - width_of(line) - len(note)
    return crop([*line, (" " * room + note, "muted")] if note and room > 0 else line, width)
