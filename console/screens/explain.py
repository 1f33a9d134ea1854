"""Explain: what makes the tail, ranked, and the way from each finding to its evidence on the timeline."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from console.explain.answer import document, explain
from console.explain.ranking import Account
from console.exporting import Shown
from console.filter import Filter
from console.filter_language import parse_filter
from console.keys import Scope
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text.explain import explain_lines, finding_lines, head_lines, sum_lines, verdict_lines, whatif_lines
from console.text.paint import paint
from console.widgets.ink import Line, beside
from console.widgets.paper import Paper
from console.widgets.spots import Spot

if TYPE_CHECKING:
    import duckdb

_TWO_COLUMNS: Final = 130
"""From this width on the sum and the verdicts stand beside the findings."""
_GAP: Final = 4
_ASIDE: Final = 56


class ExplainScreen(RunScreen):
    """The account of the run under the filter; one of its findings is selected."""

    SCOPE = Scope.EXPLAIN
    NAME = "explain"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EXPLAIN)]

    def __init__(self) -> None:
        super().__init__()
        self.account: Account | None = None
        self._selected = 0
        self._tops: list[int] = []
        """The line of the page on which each finding begins."""
        self._turned_to: object = None

    def body(self) -> ComposeResult:
        """One page that scrolls."""
        with VerticalScroll(can_focus=False):
            yield Paper(self._page, id="page", spots=self._spots)

    def turn(self) -> None:
        """Ask. What an earlier look at the same run gave stays until the answer is there."""
        shows = (self.book, self.only)
        if self._turned_to != shows:
            self.account, self._selected = None, 0
        self._turned_to = shows
        self.ask("explain", partial(_read, self.only), self._arrive)
        self.redraw("#page", layout=True)

    def _arrive(self, account: Account) -> None:
        self.account = account
        self._selected = min(self._selected, max(len(account.prominent) - 1, 0))
        self.redraw("#page", layout=True)

    def shown(self) -> Shown | None:
        """The findings as rows, and the account as `tailtrace explain --json` has it."""
        if self.account is None:
            return None
        made = document(self.account, str(self.book.path))
        return Shown(f"{self.book.name}-explain", lambda: _rows(made["findings"]), lambda: made)

    def copied(self) -> tuple[str, str] | None:
        """The account as text, with its commands."""
        if self.account is None:
            return None
        width = self.query_one("#page").size.width
        return paint(explain_lines(self.account, str(self.book.path), width)), "the account"

    # Keys

    def action_finding(self, step: int) -> None:
        """Select another finding."""
        if self.account is not None:
            self._select(min(max(self._selected + step, 0), max(len(self.account.prominent) - 1, 0)))
            top = self._tops[self._selected] if self._tops else 0
            self.query_one(VerticalScroll).scroll_to(y=max(top - 2, 0), animate=False)

    def _select(self, place: int) -> None:
        self._selected = place
        self.redraw("#page", layout=True)

    def _spots(self) -> list[Spot]:
        """The findings."""
        return [Spot(0, top, partial(self._select, place)) for place, top in enumerate(self._tops)]

    def action_scroll(self, lines: int) -> None:
        """Move the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    async def action_evidence(self) -> None:
        """Whom the selected finding is about, on the timeline: under its filter, at its place."""
        findings = self.account.prominent if self.account is not None else ()
        if not findings:
            self.notify("nothing stands out, so there is nothing to go to", markup=False, timeout=2)
            return
        found, shelf = findings[self._selected], self.tailtrace
        if not found.only and not found.at:
            self.notify("this one is about all requests", markup=False, timeout=2)
            return
        wanted = self.only & parse_filter(found.only)
        shelf.wanted_at = found.at or None
        await shelf.action_show("timeline")
        shelf.look_at(wanted)

    # What is drawn

    def _page(self, width: int, _height: int) -> list[Line]:
        if self.account is None:
            return [[("working out who takes the tail …", "muted")]]
        if width < _TWO_COLUMNS:
            return [*self._findings(width), *self._beside(self.account, width)]
        left = width - _ASIDE - _GAP
        return beside(self._findings(left), self._beside(self.account, _ASIDE), left + _GAP)

    def _beside(self, account: Account, width: int) -> list[Line]:
        """The sum and the verdicts."""
        return self.laid([*sum_lines(account, width), [], *verdict_lines(account, width)])

    def _findings(self, width: int) -> list[Line]:
        """The head and every finding that stands out; the selected one with what could be tried."""
        if self.account is None:
            return []
        lines = self.laid([*head_lines(self.account, width), []])
        self._tops = []
        for place, finding in enumerate(self.account.prominent):
            selected = place == self._selected
            self._tops.append(len(lines))
            lines += finding_lines(finding, place + 1, width, selected)
            lines += whatif_lines(finding, str(self.book.path), width) if selected else []
            lines += self.laid([[]])
        return lines


def _read(only: Filter, session: Session, cursor: "duckdb.DuckDBPyConnection") -> Account:
    return explain(session, only, cursor=cursor)


def _rows(findings: list[dict[str, object]]) -> pa.Table:
    """One row a finding."""
    names = ("kind", "title", "share", "everyone_share", "excess_ns", "confidence", "advice", "filter", "at", "open")
    columns = {name: [finding[name] for finding in findings] for name in names}
    said = [" ".join(map(str, finding["sentences"])) for finding in findings]  # type: ignore[call-overload]
    return pa.table({**columns, "said": pa.array(said, pa.string())})
