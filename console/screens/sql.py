"""SQL: an editor, what can be asked about and what was asked, the answer as a table, and the answer as a filter."""

import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

import duckdb
import pyarrow as pa
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer

from console.exporting import Shown
from console.filter import Filter
from console.filter_language import FilterError
from console.keys import Key, Scope, keys_of
from console.querying.answer import Answer, Refusal, ask
from console.querying.completing import Offer, Words, completions, read_words
from console.querying.history import newer, older, with_query
from console.querying.picking import picking
from console.querying.tables import TableDoc, tables
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text.paint import wrapped
from console.widgets.answertable import AnswerTable
from console.widgets.browser import Browser
from console.widgets.grid import Grid
from console.widgets.ink import Line, clean, crop, duration
from console.widgets.offer import OfferList
from console.widgets.paper import Paper
from console.widgets.sqleditor import SqlEditor
from recorder.errors import UserError

_FIRST: Final = "SELECT request_id, rid, status, e2e_ns / 1e6 AS e2e_ms\nFROM latency\nORDER BY e2e_ms DESC NULLS LAST"
_TICK_S: Final = 0.2
_ROOM: Final = 6
"""Rows for what DuckDB says is wrong."""


class SqlScreen(RunScreen):
    """`answer` is what came of the last question that was let finish; `since` is when the running one began."""

    SCOPE = Scope.SQL
    NAME = "sql"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.SQL)]
    # Textual declares it so that it is no class variable to mypy.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    CSS = """
    SqlScreen #browser { width: 38; padding: 0 1; display: none; }
    SqlScreen.-wide #browser, SqlScreen #browser.-open { display: block; }
    SqlScreen.-narrow #browser.-open { width: 1fr; }
    SqlScreen #desk { width: 1fr; }
    SqlScreen #said { height: auto; padding: 0 1; background: $surface; }
    SqlScreen #answer { padding: 0 1; }
    SqlScreen.-compact SqlEditor { height: auto; max-height: 7; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.answer: Answer | Refusal | None = None
        self.since: float | None = None
        self._stopped = False
        self._revision = 0
        self._place: int | None = None
        self._history: tuple[str, ...] = ()
        self._timer: Timer | None = None
        self._turned_to: object = None
        self._tables: tuple[TableDoc, ...] = ()
        self._words: Words | None = None

    def body(self) -> ComposeResult:
        """Tables and history beside editor and answer."""
        with Horizontal():
            yield Browser()
            with Vertical(id="desk"):
                yield SqlEditor(_FIRST, self._complete)
                yield Paper(self._said, id="said")
                yield AnswerTable()
        yield OfferList(lambda: self.query_one(SqlEditor).offer, lambda place: self.query_one(SqlEditor).take(place))

    def on_mount(self) -> None:
        """A timer that only runs while a question does."""
        self._timer = self.set_interval(_TICK_S, lambda: self.redraw("#said"), pause=True)
        self._recall()
        super().on_mount()
        editor = self.query_one(SqlEditor)
        editor.move_cursor(editor.document.end)
        editor.focus()

    def turn(self) -> None:
        """Another run has tables of its own. Under another filter the old answer stays, and says so."""
        if self._turned_to is not self.book:
            self._stop()
            self.answer = None
            self.query_one(AnswerTable).show(None)
            self.ask("tables", _read_tables, self._know)
        self._turned_to = self.book
        self.redraw("#said", layout=True)

    def note(self) -> Line:
        """Where one is in the answer."""
        table = self.query_one(AnswerTable)
        if table.grid is None or not len(table.grid):
            return []
        return [(f"row {table.chosen + 1:,} of {len(table.grid):,} ", "text")]

    def scopes(self) -> tuple[Scope, ...]:
        """While something is written the editor's keys, and no others."""
        if isinstance(self.focused, SqlEditor):
            return (Scope.EDITOR,)
        return (Scope.BROWSER, Scope.SQL) if isinstance(self.focused, Browser) else (Scope.ANSWER, Scope.SQL)

    def shown_keys(self) -> Sequence[Key]:
        """In the editor, keys that count everywhere else are text."""
        if isinstance(self.focused, SqlEditor):
            return [key for key in keys_of(Scope.EDITOR, table=self.tailtrace.keys) if key.label]
        return super().shown_keys()

    def give_focus_back(self) -> None:
        """To the answer."""
        self.query_one(AnswerTable).focus()

    def shown(self) -> Shown | None:
        """The answer."""
        answer = self.answer
        if not isinstance(answer, Answer):
            return None
        rows = answer.rows
        document = {"run": self.book.name, "filter": str(answer.only), "sql": answer.sql, "cut": answer.cut}
        return Shown(f"{self.book.name}-query", lambda: rows, lambda: {**document, "rows": rows.to_pylist()})

    def copied(self) -> tuple[str, str] | None:
        """The chosen row, its values apart by tabs."""
        row = self._row()
        if row is None:
            return None
        return "\t".join("" if value is None else str(value) for value in row.values()), "the row"

    # Asking

    def action_ask(self) -> None:
        """Ask what is written."""
        sql = self.query_one(SqlEditor).text
        self._history, self._place = with_query(self._history, sql), None
        self._keep()
        self.since, self._stopped, self._revision = time.monotonic(), False, self.book.revision
        if self._timer is not None:
            self._timer.resume()
        self.ask("query", partial(_answer, self.only, sql), self._arrive)
        self.redraw("#said", layout=True)

    def action_stop(self) -> None:
        """Interrupt the running question; its answer will not come."""
        if self.since is not None:
            self._stop()
            self._stopped = True
            self.redraw("#said", layout=True)

    def _stop(self) -> None:
        if "query" in self._askers:
            self._askers["query"].supersede()
        self._settle()

    def _settle(self) -> None:
        self.since = None
        if self._timer is not None:
            self._timer.pause()

    def _arrive(self, answer: Answer | Refusal) -> None:
        self._settle()
        self.answer = answer
        editor = self.query_one(SqlEditor)
        if isinstance(answer, Answer):
            self.query_one(AnswerTable).show(Grid(answer.rows))
            if editor.has_focus:
                self.give_focus_back()
        elif answer.place is not None and editor.text == answer.sql:
            editor.point_at(*answer.place)
        self.redraw("#said", layout=True)
        self.redraw_bars()

    def _know(self, found: tuple[tuple[TableDoc, ...], Words]) -> None:
        self._tables, self._words = found
        self.query_one(Browser).know(self._tables)

    def _complete(self, text: str, cursor: int, asked: bool) -> Offer | None:
        """Nothing is offered before it is known what there is."""
        return None if self._words is None else completions(text, cursor, self._tables, self._words, asked=asked)

    def on_sql_editor_offered(self) -> None:
        """Under the cursor, or away."""
        self.query_one(OfferList).fit_to(self.query_one(SqlEditor).cursor_screen_offset)

    def on_sql_editor_asked(self) -> None:
        """From the editor."""
        self.action_ask()

    def on_sql_editor_left(self) -> None:
        """Out of the editor; while a question runs it is that which is left."""
        if self.since is not None:
            self.action_stop()
        else:
            self.give_focus_back()

    # History and tables

    def on_sql_editor_recalled(self, message: SqlEditor.Recalled) -> None:
        """From the editor."""
        self.action_recall(message.step)

    def action_recall(self, step: int) -> None:
        """Write an older or a newer question."""
        self._place = (older if step < 0 else newer)(self._history, self._place)
        if self._place is not None:
            self.query_one(SqlEditor).write(self._history[self._place])

    def action_edit(self) -> None:
        """Into the editor."""
        self.query_one(SqlEditor).focus()

    def action_browse(self) -> None:
        """To the tables."""
        self._open_browser(of_history=False)

    def action_history(self) -> None:
        """To what was asked before."""
        self._open_browser(of_history=True)

    def _open_browser(self, *, of_history: bool) -> None:
        browser = self.query_one(Browser)
        browser.turn(of_history=of_history)
        browser.add_class("-open")
        self.query_one("#desk").display = self.has_class("-wide")
        browser.focus()

    def on_browser_left(self) -> None:
        """Back to the answer."""
        self._close_browser()
        self.give_focus_back()

    def on_browser_taken(self, message: Browser.Taken) -> None:
        """Into the editor."""
        self._close_browser()
        editor = self.query_one(SqlEditor)
        if message.whole:
            editor.write(message.text)
        else:
            editor.insert(message.text)
        editor.focus()

    def _close_browser(self) -> None:
        self.query_one(Browser).remove_class("-open")
        self.query_one("#desk").display = True

    def _recall(self) -> None:
        try:
            self._history = self.tailtrace.memory.questions()
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)
        self.query_one(Browser).remember(self._history)

    def _keep(self) -> None:
        self.query_one(Browser).remember(self._history)
        try:
            self.tailtrace.memory.keep_questions(self._history)
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    # The answer to the other screens

    def action_only(self) -> None:
        """Look at the requests of the answer only, on every screen."""
        if not isinstance(self.answer, Answer):
            self.notify("there is no answer to filter by", markup=False, timeout=2)
            return
        try:
            term = picking(self.answer.sql, self.answer.rows.schema.names)
        except FilterError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=6)
        else:
            self.tailtrace.look_at(self.only & Filter((term,)))

    async def on_answer_table_opened(self) -> None:
        """The request of the chosen row, on the timeline."""
        row = self._row()
        rid = None if row is None else row.get("rid")
        if isinstance(rid, int):
            self.tailtrace.chosen = rid
            await self.tailtrace.action_show("timeline")
        else:
            self.notify("the row has no rid to show", markup=False, timeout=2)

    def _row(self) -> dict[str, object] | None:
        table = self.query_one(AnswerTable)
        if table.grid is None or not len(table.grid):
            return None
        rows: pa.Table = table.grid.rows.slice(table.chosen, 1)
        return dict(zip(rows.schema.names, (column[0].as_py() for column in rows.columns), strict=True))

    # What is said of it

    def _said(self, width: int, _height: int) -> list[Line]:
        if self.since is not None:
            return [[("asking … ", "accent bold"), (f"{time.monotonic() - self.since:.1f} s, escape stops", "muted")]]
        if self._stopped:
            return [[("stopped", "warn bold")]]
        if isinstance(self.answer, Refusal):
            return _wrong(self.answer, width)
        if self.answer is None:
            return [
                [
                    ("f5", "accent"),
                    (" or ", "muted"),
                    ("ctrl+r", "accent"),
                    (" asks; escape leaves the editor", "muted"),
                ]
            ]
        return [_told(self.answer, self.only, grown=self.book.revision != self._revision)]


def _told(answer: Answer, only: Filter, *, grown: bool) -> Line:
    """How many rows, how long they took, and what has changed since they were asked for."""
    count = f"{answer.rows.num_rows:,} row{'' if answer.rows.num_rows == 1 else 's'}"
    line: Line = [(f"the first {count}, there are more" if answer.cut else count, "strong")]
    line.append((f" in {duration(answer.took_ns)}", "muted"))
    if answer.only != only:
        under = f"asked under {answer.only}" if answer.only else "asked without a filter"
        line.append((f"   {clean(under)}; f5 asks again", "warn"))
    elif grown:
        line.append(("   the run was read again since; f5 asks again", "warn"))
    return line


def _wrong(refusal: Refusal, width: int) -> list[Line]:
    """DuckDB's words as they are, its caret under the line that it points to."""
    lines: list[Line] = []
    for line in refusal.said.splitlines():
        is_drawing = line.lstrip().startswith(("LINE ", "^"))
        lines += [[(clean(line), "text")]] if is_drawing else wrapped(clean(line), max(width, 20), "bad")
    return [crop(line, width) for line in lines][:_ROOM]


def _read_tables(session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[tuple[TableDoc, ...], Words]:
    return tables(session, cursor), read_words(session, cursor)


def _answer(only: Filter, sql: str, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer | Refusal:
    return ask(session, only, sql, cursor)
