"""Contrast: what sets the filter's requests apart from the rest of the run, or the slow ones from the others."""

from functools import partial
from typing import ClassVar, Final

import duckdb
import pyarrow as pa
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from console.blame.cohorts import Slow, slow_ideas
from console.contrast.answer import Contrast, Sides, concluded, document, read_sides, read_slow, samples_quick
from console.contrast.counting import Sample
from console.contrast.findings import Finding
from console.contrast.narrowing import narrowing
from console.contrast.samples import Chosen
from console.exporting import Shown
from console.filter import EVERYTHING, Filter
from console.keys import Scope
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text.contrast import contrast_lines, finding_lines, foot_lines, head_lines, ranking
from console.text.paint import paint, wrapped
from console.widgets.ink import Line, crop
from console.widgets.paper import Paper
from console.widgets.spots import Spot
from console.widgets.tabs import Placed, Table

_REFUSED_SLOW: Final = "o takes others for the slow ones; / says with a filter whom to compare with the rest"
_REFUSED_FILTER: Final = "/ changes the filter: it says whom to compare with the rest"
Quick = tuple[Sides, Chosen, list[Sample], Contrast]


class ContrastScreen(RunScreen):
    """What is known of requests comes first; what they lived through, which takes longer, joins the ranking then."""

    SCOPE = Scope.CONTRAST
    NAME = "contrast"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CONTRAST)]
    CSS = """
    ContrastScreen #stage #table { height: 3fr; }
    ContrastScreen #stage #detail { height: 2fr; }
    ContrastScreen.-wide #stage #table { height: 1fr; width: 7fr; }
    ContrastScreen.-wide #stage #detail { height: 1fr; width: 3fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: Contrast | None = None
        self._pending = False
        self._selected = 0
        self._slow = 0
        self._turned_to: object = None
        self._placed: list[Placed] = []

    def body(self) -> ComposeResult:
        """The ranking, and the selected attribute in full."""
        with Container(id="stage"):
            yield Paper(self._table, id="table", classes="first", spots=self._spots)
            yield Paper(self._detail, id="detail", classes="second")

    def turn(self) -> None:
        """Ask again. What an earlier look at the same run gave stays meanwhile."""
        if self._turned_to != (self.book, self.only):
            self._found, self._selected = None, 0
        self._turned_to = (self.book, self.only)
        self._look()

    @property
    def slow(self) -> Slow:
        """What counts as slow, where no filter says what to look at."""
        ideas = slow_ideas(self.tailtrace.slo_ns)
        return ideas[self._slow % len(ideas)]

    def _look(self) -> None:
        self._pending = True
        self.ask("contrast", partial(_read_quick, self.only, self.slow), self._known)
        self.redraw("#table, #detail")

    def _known(self, quick: Quick) -> None:
        """What requests were is known; now what they lived through."""
        if self._found is None:
            self._show(quick[-1])
        self.ask("contrast", partial(_read_whole, quick), self._lived)

    def _lived(self, found: Contrast) -> None:
        self._pending = False
        self._show(found)

    def _show(self, found: Contrast) -> None:
        self._found = found
        self._selected = min(self._selected, max(len(self._rows()) - 1, 0))
        self.redraw("#table, #detail")
        self.redraw_bars()

    # Keys

    def action_row(self, step: int) -> None:
        """Select another attribute."""
        self._select(self._selected + step)

    def action_slow(self) -> None:
        """Another idea of what is slow."""
        if self.only:
            self.notify("the filter says what is compared: without one, the slow ones", markup=False, timeout=3)
            return
        self._slow += 1
        self._found = None
        self._look()

    def action_only(self) -> None:
        """Look only at requests with the value that tells the sides apart."""
        finding = self._row()
        if finding is None or self._found is None:
            return
        asked = narrowing(finding, self._found.sides, whole=not self.only)
        if isinstance(asked, str):
            self.notify(asked, markup=False, timeout=3)
        else:
            self.tailtrace.look_at(self.only & Filter((asked,)))

    def _spots(self) -> list[Spot]:
        """The attributes that are in sight."""
        return [
            Spot(0, y, partial(self._select, place)) for y, (_, place) in enumerate(self._placed) if place is not None
        ]

    def _select(self, place: int) -> None:
        self._selected = min(max(place, 0), max(len(self._rows()) - 1, 0))
        self.redraw("#table, #detail")

    def _rows(self) -> list[Finding]:
        findings = None if self._found is None else self._found.findings
        return [] if findings is None else [*findings.believed, *findings.chance]

    def _row(self) -> Finding | None:
        rows = self._rows()
        return rows[self._selected] if rows else None

    # For files and the clipboard

    def shown(self) -> Shown | None:
        """The ranking, as `tailtrace contrast --json` has it."""
        found = self._found
        if found is None or self._pending:
            return None
        return Shown(f"{self.book.name}-contrast", lambda: _as_table(found), lambda: document(found))

    def copied(self) -> tuple[str, str] | None:
        """The ranking as text."""
        if self._found is None:
            return None
        return paint(contrast_lines(self._found, self.query_one("#table").size.width)), "the contrast"

    def note(self) -> Line:
        """What is compared."""
        return [("selection: ", "muted"), ("the filter " if self.only else f"slow, {self.slow} ", "strong")]

    # What is drawn

    def _table(self, width: int, height: int) -> list[Line]:
        page = self._page()
        page = page.dense() if self.tailtrace.compact else page
        self._placed = page.within(self._selected, width, max(height, 1))
        return [line for line, _ in self._placed]

    def _page(self) -> Table:
        """Who is compared, the ranking, and what it leaves out."""
        found, width = self._found, self.query_one("#table").content_size.width
        if found is None:
            return Table([[("comparing …", "muted")]])
        head = head_lines(found, width)
        if found.findings is None:
            return Table([*head, [], *wrapped(_REFUSED_FILTER if self.only else _REFUSED_SLOW, width)])
        table = ranking(found.findings, width, chance_too=True)
        pending: list[Line] = [[("causes, phases and neighbours join when they are known …", "muted")]]
        foot = pending if self._pending else []
        return Table([*head, *table.head], table.rows, foot, [[], *foot_lines(found, width, chance_too=False)])

    def _detail(self, width: int, height: int) -> list[Line]:
        finding = self._row()
        if finding is None:
            return []
        return [crop(line, width) for line in self.laid(finding_lines(finding, width, height))][:height]


def _read_quick(only: Filter, slow: Slow, session: Session, cursor: duckdb.DuckDBPyConnection) -> Quick:
    """Who is compared, and what requests were."""
    sides, chosen = read_sides(session, only, EVERYTHING, slow, cursor)
    samples = samples_quick(sides, chosen)
    return sides, chosen, samples, concluded(session.name, sides, samples)


def _read_whole(quick: Quick, session: Session, cursor: duckdb.DuckDBPyConnection) -> Contrast:
    """All of it, on another cursor."""
    sides, chosen, samples, _ = quick
    return concluded(session.name, sides, [*samples, *read_slow(session, sides, chosen, cursor)])


def _as_table(found: Contrast) -> pa.Table:
    """One row an attribute."""
    shown = document(found)
    rows = [*shown["findings"], *shown["may_be_chance"]]
    return pa.Table.from_pylist([{**row, "value": str(row["value"]), "n": str(row["n"])} for row in rows])
