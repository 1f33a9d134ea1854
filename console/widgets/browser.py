"""What can be asked about, and what was asked before, as a list beside the editor: its lines, and its widget."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.message import Message

from console.keys import Scope
from console.querying.tables import ColumnDoc, TableDoc
from console.screens.bindings import bindings
from console.text.paint import wrapped
from console.widgets.ink import Line, clean, crop, fit, pad, rule
from console.widgets.paper import Paper
from console.widgets.spots import Spot

_DOC_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One row: what it says, what is inserted for it, and what there is to say about it. `table` where it opens one."""

    line: Line
    text: str
    doc: str
    table: str = ""


def schema_entries(tables: Sequence[TableDoc], opened: frozenset[str]) -> list[Entry]:
    """The tables, and the columns of those that are open."""
    entries = []
    for table in tables:
        is_open = table.name in opened
        head: Line = [
            ("▾ " if is_open else "▸ ", "accent"),
            (table.name, "strong"),
            (f"  {len(table.columns)}", "muted"),
        ]
        entries.append(Entry(head, table.name, f"a row is {table.row}", table.name))
        entries += [_column(column) for column in table.columns] if is_open else []
    return entries


def _column(column: ColumnDoc) -> Entry:
    kind = f"  {column.type.lower()}{f' {column.unit}' if column.unit else ''}"
    doc = column.doc or "no more is known of it"
    return Entry(
        [("  ", "text"), (fit(column.name, max(len(column.name), 16)), "text"), (kind, "faint")], column.name, doc
    )


def history_entries(history: Sequence[str]) -> list[Entry]:
    """What was asked, the newest first."""
    lines = ((sql, clean(" ".join(sql.split()))) for sql in reversed(history))
    return [Entry([(line, "text")], sql, line) for sql, line in lines]


def in_sight(count: int, chosen: int, height: int) -> range:
    """The entries that are drawn: those about the chosen one."""
    room = max(height - 2 - _DOC_ROWS, 1)
    top = min(max(chosen - room // 2, 0), max(count - room, 0))
    return range(top, min(top + room, count))


def browser_lines(
    title: str, entries: Sequence[Entry], chosen: int, *, lit: bool, width: int, height: int
) -> list[Line]:
    """The entries about the chosen one, and what it is at the bottom."""
    seen = in_sight(len(entries), chosen, height)
    lines: list[Line] = [rule(title, width)]
    for place, entry in enumerate(entries[seen.start : seen.stop], start=seen.start):
        ground = " on.cursor" if lit and place == chosen else ""
        mark = ("▸" if place == chosen else " ", f"accent{ground}")
        lines.append(pad([mark, *((text, style + ground) for text, style in entry.line)], width, f"text{ground}"))
    if not entries:
        lines.append([("nothing yet", "muted")])
    lines += [[] for _ in range(height - len(lines) - _DOC_ROWS)]
    doc = wrapped(entries[chosen].doc, max(width, 10))[:_DOC_ROWS] if chosen < len(entries) else []
    return [crop(line, width) for line in [*lines, *doc]][:height]


class Browser(Paper, can_focus=True):
    """Shows the schema or the history; enter hands over what is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.BROWSER)]

    class Taken(Message):
        """Put this into the editor: a name at its cursor, or a question in place of what is there."""

        def __init__(self, text: str, *, whole: bool) -> None:
            super().__init__()
            self.text = text
            self.whole = whole

    class Left(Message):
        """Somebody is done with browsing."""

    def __init__(self) -> None:
        super().__init__(self._page, id="browser", spots=self._places)
        self.tables: Sequence[TableDoc] = ()
        self.history: Sequence[str] = ()
        self.of_history = False
        self._opened: frozenset[str] = frozenset()
        self._chosen = 0

    def know(self, tables: Sequence[TableDoc]) -> None:
        """What this run has."""
        self.tables = tables
        self.redraw()

    def remember(self, history: Sequence[str]) -> None:
        """What was asked."""
        self.history = history
        self.redraw()

    def turn(self, *, of_history: bool) -> None:
        """The history, or the schema."""
        self.of_history, self._chosen = of_history, 0
        self.redraw()

    def action_entry(self, step: int) -> None:
        """Choose another row."""
        self._chosen = min(max(self._chosen + step, 0), max(len(self._entries()) - 1, 0))
        self.redraw()

    def action_open(self) -> None:
        """Show the columns of a table, or no longer."""
        entry = self._entry()
        if entry is not None and entry.table:
            self._opened ^= {entry.table}
            self.redraw()

    def action_take(self) -> None:
        """Into the editor."""
        entry = self._entry()
        if entry is not None:
            self.post_message(self.Taken(entry.text, whole=self.of_history))

    def action_leave(self) -> None:
        """Back to the answer."""
        self.post_message(self.Left())

    def _places(self) -> list[Spot]:
        """A click on an entry chooses it, and so does its letter; a table opens, or closes."""
        seen = in_sight(len(self._entries()), self._chosen, self.size.height)
        return [Spot(0, 1 + line, partial(self._choose, place)) for line, place in enumerate(seen)]

    def _choose(self, place: int) -> None:
        self.focus()
        self.action_entry(place - self._chosen)
        self.action_open()

    def _entries(self) -> list[Entry]:
        return history_entries(self.history) if self.of_history else schema_entries(self.tables, self._opened)

    def _entry(self) -> Entry | None:
        entries = self._entries()
        return entries[self._chosen] if self._chosen < len(entries) else None

    def _page(self, width: int, height: int) -> list[Line]:
        title = "History" if self.of_history else "Tables"
        return browser_lines(title, self._entries(), self._chosen, lit=self.has_focus, width=width, height=height)

    def on_focus(self) -> None:
        """The chosen row is lit."""
        self.redraw()

    def on_blur(self) -> None:
        """No row is."""
        self.redraw()
