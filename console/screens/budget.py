"""Budget: where the time went, what the slow ones lose more, what makes latency vary, and who took whose time."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

import duckdb
import pyarrow as pa
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from console.blame.answer import blame, document
from console.blame.asking import (
    Answer,
    Rows,
    ask_behind,
    ask_culprits,
    ask_ledgers,
    ask_matrix,
    ask_spread,
    ask_verdict,
    ask_whole,
)
from console.blame.cohorts import Slow, slow_ideas
from console.blame.interference import CLASSES, Interference
from console.blame.ledgers import Ledger, Ledgers, excess
from console.blame.rows import Row, culprit_rows, matrix_rows, part_rows
from console.blame.spread import KINDS, Spread
from console.budget import Verdict
from console.exporting import Shown
from console.keys import Scope
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text import blame as text
from console.text.budget import table_lines, verdict_line
from console.text.paint import paint, wrapped
from console.widgets.ink import Line, crop, rule
from console.widgets.paper import Paper
from console.widgets.spots import Spot
from console.widgets.tabs import Placed, Table, tab_starts, tabs_line

VIEWS: Final = ("budget", "excess", "spread", "who took it", "culprits")


class BudgetScreen(RunScreen):
    """One view at a time, with the selected row told in full beside it. Answers stay until newer ones come."""

    SCOPE = Scope.BUDGET
    NAME = "budget"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.BUDGET)]

    def __init__(self) -> None:
        super().__init__()
        self.view = 0
        self._kind, self._by, self._slow = 1, 0, 0
        self._selected: dict[int, int] = {}
        self._answers: dict[object, Answer] = {}
        self._verdict: Verdict | str | None = None
        self._behind: tuple[object, Rows, Rows] = (None, (), ())
        self._turned_to: object = None
        self._placed: list[Placed] = []

    def body(self) -> ComposeResult:
        """The table of the view, and what is behind its selected row."""
        with Container(id="stage"):
            yield Paper(self._table, id="table", classes="first", spots=self._spots)
            yield Paper(self._detail, id="detail", classes="second")

    def turn(self) -> None:
        """Ask again. What an earlier look at the same run gave stays meanwhile."""
        if self._turned_to != (self.book, self.only):
            self._answers, self._selected, self._verdict, self._behind = {}, {}, None, (None, (), ())
        self._turned_to = (self.book, self.only)
        if self.tailtrace.budget is not None:
            self.ask("verdict", partial(ask_verdict, self.tailtrace.budget, self.only), self._judged)
        self._look()

    @property
    def kind(self) -> str:
        """Phases or causes."""
        return KINDS[self._kind]

    @property
    def by(self) -> str:
        """What victims and culprits are grouped by."""
        return CLASSES[self._by]

    @property
    def slow(self) -> Slow:
        """What counts as slow."""
        ideas = slow_ideas(self.tailtrace.slo_ns)
        return ideas[self._slow % len(ideas)]

    # Asking

    def _wanted(self) -> tuple[object, ...]:
        """What the view shows; answers are kept by it."""
        return (
            ("whole",),
            ("ledgers", self.slow),
            ("spread", self.kind),
            ("matrix", self.by),
            ("culprits",),
        )[self.view]

    def _look(self) -> None:
        """Ask for what the view shows, also where an older answer is there: a live run has grown."""
        wanted = self._wanted()
        question: Callable[[Session, duckdb.DuckDBPyConnection], Answer] = {
            "whole": partial(ask_whole, self.only),
            "ledgers": partial(ask_ledgers, self.only, self.slow),
            "spread": partial(ask_spread, self.only, self.kind),
            "matrix": partial(ask_matrix, self.only, self.by),
            "culprits": partial(ask_culprits, self.only),
        }[str(wanted[0])]
        self.ask("view", question, partial(self._arrive, wanted))
        self.redraw("#table, #detail")

    def _arrive(self, wanted: object, answer: Answer) -> None:
        self._answers[wanted] = answer
        self._ask_behind()
        self.redraw("#table, #detail")
        self.redraw_bars()

    def _judged(self, verdict: Verdict | str) -> None:
        self._verdict = verdict
        self.redraw("#detail")

    def _ask_behind(self) -> None:
        """Who stands behind the selected part, and who was hit."""
        row = self._row()
        if row is None or row.kind is None:
            return
        only = self.only
        ledgers = self._answers.get(("ledgers", self.slow))
        if VIEWS[self.view] == "excess" and isinstance(ledgers, Ledgers):
            only = only & ledgers.cohorts.slow_filter
        self.ask("behind", partial(ask_behind, only, row), partial(self._known_behind, row))

    def _known_behind(self, row: Row, found: tuple[Rows, Rows]) -> None:
        self._behind = (row, *found)
        self.redraw("#detail")

    # Keys

    def action_view(self, step: int) -> None:
        """Another view."""
        self._view((self.view + step) % len(VIEWS))

    def action_parts(self) -> None:
        """Phases, or causes."""
        self._kind = 1 - self._kind
        self._selected.clear()
        self._look()

    def action_slow(self) -> None:
        """Another idea of what is slow."""
        self._slow += 1
        self._look()

    def action_group(self) -> None:
        """Group victims and culprits by something else."""
        self._by = (self._by + 1) % len(CLASSES)
        self._view(VIEWS.index("who took it"))

    def action_row(self, step: int) -> None:
        """Select another row."""
        self._select(self._place() + step)

    def action_only(self) -> None:
        """Look at the requests of the selected row only."""
        row = self._row()
        if row is None or not row.only:
            self.notify("no filter can ask for this row", markup=False, timeout=2)
        else:
            self.tailtrace.look_at(self.only & row.only)

    async def action_culprit(self) -> None:
        """The request behind the selected row, on the timeline."""
        row, (about, culprits, _) = self._row(), self._behind
        culprit = row.culprit if row is not None else None
        if culprit is None and row is not None and row == about and culprits:
            culprit = int(culprits[0]["culprit"])
        await self._jump(culprit, "no request is behind this row")

    async def action_victim(self) -> None:
        """The request that lost most to the selected row, on the timeline."""
        row, (about, _, hit) = self._row(), self._behind
        answer, place = self._answers.get(self._wanted()), self._place()
        if isinstance(answer, tuple) and row is not None:
            hit = [pair for pair in answer[1] if pair["culprit"] == answer[0][place]["culprit"]]
        elif row != about:
            hit = ()
        await self._jump(int(hit[0]["rid"]) if hit else None, "nobody is known to have lost time to this row")

    async def _jump(self, rid: int | None, otherwise: str) -> None:
        if rid is None:
            self.notify(otherwise, markup=False, timeout=2)
        else:
            self.tailtrace.chosen = rid
            await self.tailtrace.action_show("timeline")

    def _spots(self) -> list[Spot]:
        """The views, and the rows that are in sight."""
        views = [Spot(x, 0, partial(self._view, place)) for place, x in enumerate(tab_starts(VIEWS))]
        rows = [
            Spot(0, y, partial(self._select, place))
            for y, (_, place) in enumerate(self._placed, 1)
            if place is not None
        ]
        return [*views, *rows]

    def _view(self, place: int) -> None:
        self.view = place
        self._look()

    def _select(self, place: int) -> None:
        self._selected[self.view] = min(max(place, 0), max(len(self._rows()) - 1, 0))
        self._ask_behind()
        self.redraw("#table, #detail")

    def _place(self) -> int:
        """Which row is selected: the largest part, where nobody has chosen one."""
        answer = self._answers.get(self._wanted())
        sums: list[int] = list(getattr(answer, self.kind).values()) if isinstance(answer, Ledger) else []
        return self._selected.get(self.view, sums.index(max(sums)) if sums else 0)

    def _row(self) -> Row | None:
        rows = self._rows()
        return rows[min(self._place(), len(rows) - 1)] if rows else None

    def _rows(self) -> list[Row]:
        """What can be selected in this view."""
        answer = self._answers.get(self._wanted())
        if isinstance(answer, Ledger):
            return part_rows(getattr(answer, self.kind) if answer.n else [], self.kind)
        if isinstance(answer, Ledgers):
            return part_rows((row.name for row in excess(answer.slow, answer.typical, self.kind)), self.kind)
        if isinstance(answer, Spread):
            return part_rows(answer.parts if answer.variance else [], self.kind)
        if isinstance(answer, Interference):
            return matrix_rows(answer)
        return culprit_rows(answer[0]) if answer is not None else []

    # For files and the clipboard

    def shown(self) -> Shown | None:
        """The rows of the view, and all of blame as `tailtrace blame --json` has it."""
        if self._answers.get(self._wanted()) is None:
            return None
        only, slow, by, book = self.only, self.slow, self.by, self.book
        lines = self._page(160).lines
        return Shown(
            f"{book.name}-budget",
            lambda: pa.table({"line": ["".join(piece for piece, _ in line).rstrip() for line in lines]}),
            lambda: document(blame(book.session(), only, slow, by)),
        )

    def copied(self) -> tuple[str, str] | None:
        """The table as text."""
        if self._answers.get(self._wanted()) is None:
            return None
        return paint(self._page(self.query_one("#table").content_size.width).lines), f"the view {VIEWS[self.view]}"

    def note(self) -> Line:
        """What counts as slow."""
        return [("slow: ", "muted"), (f"{self.slow} ", "strong")]

    # What is drawn

    def _table(self, width: int, height: int) -> list[Line]:
        page = self._page(width)
        page = page.dense() if self.tailtrace.compact else page
        self._placed = page.within(self._place(), width, max(height - 1, 1))
        tabs = tabs_line(VIEWS, self.view, width, f"{self.kind}, by {self.by}")
        return [tabs, *(line for line, _ in self._placed)]

    def _page(self, width: int) -> Table:
        """The table of the view."""
        answer = self._answers.get(self._wanted())
        if answer is None:
            return Table([[("adding up …", "muted")]])
        if isinstance(answer, Ledger):
            table, other = (text.ledger_table(answer, kind, width) for kind in (self.kind, *self._other_kind()))
            return replace(table, more=[[], *other.lines])
        if isinstance(answer, Ledgers):
            return text.excess_table(answer, self.kind, width)
        if isinstance(answer, Spread):
            return text.spread_table(answer, self.kind, width)
        if isinstance(answer, Interference):
            return text.matrix_table(answer, width)
        return text.culprit_table(answer[0], self._e2e_ns(), width)

    def _other_kind(self) -> list[str]:
        return [kind for kind in KINDS if kind != self.kind]

    def _kept(self, width: int) -> list[Line]:
        """The budget that was given, held against the run."""
        verdict = self._verdict
        if verdict is None:
            return []
        if isinstance(verdict, str):
            return [*wrapped(verdict, width, "warn"), []]
        return [verdict_line(verdict), *table_lines(verdict, width), []]

    def _e2e_ns(self) -> int:
        whole = self._answers.get(("whole",))
        return whole.e2e_ns if isinstance(whole, Ledger) else 0

    def _detail(self, width: int, height: int) -> list[Line]:
        """What is behind the selected row."""
        answer, row = self._answers.get(self._wanted()), self._row()
        lines = self._kept(width) if VIEWS[self.view] == "budget" else []
        if row is None:
            return lines[:height]
        if isinstance(answer, Interference):
            lines = text.cell_lines(answer, row.name, width)
        elif isinstance(answer, tuple):
            lines = text.culprit_detail(answer[0][self._place()], answer[1], width)
        elif isinstance(answer, Spread):
            lines = [rule(row.name, width), *text.pair_lines(answer, row.name, width, max(height // 2, 3)), []]
        if row.kind is not None:
            lines += self._behind_lines(row, width)
        return [crop(line, width) for line in self.laid(lines)][:height]

    def _behind_lines(self, row: Row, width: int) -> list[Line]:
        about, culprits, hit = self._behind
        if about != row:
            return [[("looking for victims and culprits …", "muted")]]
        hit_lines = text.hit_lines(hit, row.name, width)
        if not culprits:
            return hit_lines
        return [*text.culprit_table(culprits, 0, width, title=f"Behind {row.name}").lines, [], *hit_lines]
