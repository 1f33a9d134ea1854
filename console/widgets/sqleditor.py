"""The editor of SQL: a text area that is coloured by DuckDB's own tokeniser, and that says when to ask."""

from collections.abc import Callable
from typing import ClassVar, Final

import duckdb
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import TextAreaTheme

from console.keys import Scope
from console.querying.completing import Offer
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


Complete = Callable[[str, int, bool], Offer | None]
"""Text, cursor, and whether somebody has asked -> what the word may go on as."""


class SqlEditor(TextArea):
    """Every printable key is text here; escape and tab lead out, the function keys ask.

    While there is an `offer`, tab takes it, up and down choose, and anything else but typing does without it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EDITOR)]
    DEFAULT_CSS = """
    SqlEditor { height: 7; border: none; padding: 0 1; background: $surface; }
    SqlEditor:focus { border: none; background: $panel; }
    """

    class Asked(Message):
        """What is written is to be asked."""

    class Left(Message):
        """Somebody is done with writing."""

    class Offered(Message):
        """There is something to offer, or no more, or another candidate is chosen."""

    class Recalled(Message):
        """An older (-1) or newer (1) question is wanted."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, sql: str, complete: Complete) -> None:
        super().__init__(sql, show_line_numbers=False, tab_behavior="focus")
        self.offer: Offer | None = None
        self._complete = complete
        self._seen = sql

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
        self._seen = sql
        self.replace(sql, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def point_at(self, line: int, column: int) -> None:
        """The cursor where something is wrong."""
        self.move_cursor((line, column))

    def action_ask(self) -> None:
        """Ask it."""
        self.post_message(self.Asked())

    def action_leave(self) -> None:
        """Do without what is offered; to the answer where nothing is."""
        if self.offer is not None:
            self._show(None)
        else:
            self.post_message(self.Left())

    def action_take(self) -> None:
        """What is offered, in place of the word; to the answer where nothing is."""
        offer = self.offer
        if offer is None:
            self.post_message(self.Left())
            return
        row, column = self.cursor_location
        self._seen = self.text[: offer.start] + offer.text + self.text[offer.end :]
        self._show(None)
        self.replace(
            offer.text, (row, column - (offer.end - offer.start)), (row, column), maintain_selection_offset=False
        )

    def take(self, place: int) -> None:
        """One of the candidates, by its place."""
        if self.offer is not None:
            self._choose(place - self.offer.chosen)
            self.action_take()

    def action_offer(self) -> None:
        """Offer what fits; take it where it is offered already."""
        if self.offer is not None:
            self.action_take()
        else:
            self._show(self._complete(self.text, self._at(), True))

    def action_cursor_up(self, select: bool = False) -> None:
        """The candidate above, where something is offered."""
        self._choose(-1) if self.offer is not None else super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """The candidate below, where something is offered."""
        self._choose(1) if self.offer is not None else super().action_cursor_down(select)

    def on_text_area_changed(self) -> None:
        """Something is typed: see what the word may go on as. What was put here otherwise is whole."""
        if self.text != self._seen:
            self._seen = self.text
            self._show(self._complete(self.text, self._at(), False) if self.has_focus else None)

    def on_text_area_selection_changed(self) -> None:
        """The cursor is somewhere else than where something is offered."""
        if self.offer is not None and self._at() != self.offer.end and self.text == self._seen:
            self._show(None)

    def on_blur(self) -> None:
        """Nobody writes."""
        self._show(None)

    def _at(self) -> int:
        """The cursor, in characters of the text."""
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.document.lines[:row]) + column

    def _choose(self, step: int) -> None:
        if self.offer is not None:
            self._show(self.offer.moved(step))

    def _show(self, offer: Offer | None) -> None:
        if offer != self.offer:
            self.offer = offer
            self.post_message(self.Offered())

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
