"""The editor of SQL: a text area that is coloured by DuckDB's own tokeniser, and that says when to ask."""

from typing import ClassVar, Final

import duckdb
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import TextAreaTheme

from console.keys import Scope
from console.screens.bindings import bindings
from console.theme import SCHEMES
from console.widgets.paper import rich_style

_STYLES: Final = {
    "keyword": "accent bold",
    "string_const": "good",
    "numeric_const": "phase.queue",
    "comment": "muted italic",
    "operator": "muted",
}
"""Styles of tokens by the tokeniser's names; identifiers are plain text."""


class SqlEditor(TextArea):
    """Every printable key is text here; escape and tab lead out, the function keys ask."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EDITOR)]
    DEFAULT_CSS = """
    SqlEditor { height: 7; border: none; padding: 0 1; background: $surface; }
    SqlEditor:focus { border: none; background: $panel; }
    """

    class Asked(Message):
        """What is written is to be asked."""

    class Left(Message):
        """Somebody is done with writing."""

    class Recalled(Message):
        """An older (-1) or newer (1) question is wanted."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def on_mount(self) -> None:
        """The colours of the console, whichever they are."""
        for scheme in SCHEMES:
            styles = {kind: rich_style(style, scheme.dark, scheme.safe) for kind, style in _STYLES.items()}
            self.register_theme(TextAreaTheme(scheme.name, syntax_styles=styles))
        self.watch(self.app, "theme", self._fit_theme)

    def _fit_theme(self, name: str) -> None:
        self.theme = name

    def write(self, sql: str) -> None:
        """Another text, with the cursor at its end. It can be undone."""
        self.replace(sql, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def point_at(self, line: int, column: int) -> None:
        """The cursor where something is wrong."""
        self.move_cursor((line, column))

    def action_ask(self) -> None:
        """Ask it."""
        self.post_message(self.Asked())

    def action_leave(self) -> None:
        """To the answer."""
        self.post_message(self.Left())

    def action_recall(self, step: int) -> None:
        """A question of the history."""
        self.post_message(self.Recalled(step))

    def _build_highlight_map(self) -> None:
        """Textual colours by tree-sitter alone, which has to be installed; the tokeniser of DuckDB is there anyway.

        Columns count bytes of their line, as those of tree-sitter do.
        """
        self._line_cache.clear()
        self._highlights.clear()
        for line, start, end, name in token_ranges(self.text):
            self._highlights[line].append((start, end, name))


def token_ranges(sql: str) -> list[tuple[int, int, int, str]]:
    """Line, first and last byte in it, and kind, of every stretch of `sql` that has a colour."""
    text = sql.encode()
    tokens = [(place, kind.name) for place, kind in duckdb.tokenize(sql)]
    ends = [place for place, _ in tokens[1:]] + [len(text)] * bool(tokens)
    ranges = []
    for (place, kind), end in zip(tokens, ends, strict=True):
        if kind in _STYLES:
            ranges += _by_line(text, place, place + len(text[place:end].rstrip()), kind)
    return ranges


def _by_line(text: bytes, start: int, end: int, kind: str) -> list[tuple[int, int, int, str]]:
    """A stretch of bytes cut at the ends of lines."""
    ranges = []
    while start < end:
        line, begin = text.count(b"\n", 0, start), text.rfind(b"\n", 0, start) + 1
        stop = text.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        if stop > start:
            ranges.append((line, start - begin, stop - begin, kind))
        start = stop + 1
    return ranges
