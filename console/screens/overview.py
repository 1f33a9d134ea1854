"""The overview: percentiles, phases, causes, states, latency over time, the recorder's health."""

from functools import partial
from typing import ClassVar, Final

import duckdb
import numpy as np
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from console.book import read_lanes
from console.exporting import Shown, flattened
from console.filter import Filter
from console.keys import Scope
from console.lanes import Lanes
from console.report import UNNAMED, Report, explained, numbers
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text.paint import paint
from console.text.report import block_lines, counted
from console.widgets.ink import Line, beside, duration, rule, spread
from console.widgets.paper import Paper
from console.widgets.plot import Points, scatter
from recorder.schema import NONE

_METRICS: Final = (("e2e", "E2E"), ("ttft", "TTFT"), ("tpot", "TPOT"))
_TWO_COLUMNS: Final = 118
"""From this width on there are two columns of blocks."""
_GAP: Final = 4
_PLOT: Final = 9
_TALLEST: Final = 18


class OverviewScreen(RunScreen):
    """The report's blocks, laid out for the screen, with a plot that only a screen has."""

    SCOPE = Scope.OVERVIEW
    NAME = "overview"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.OVERVIEW)]
    CSS = """
    OverviewScreen VerticalScroll {
        height: 1fr; padding: 1 1 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    OverviewScreen #page { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._report: Report | None = None
        self._lanes: Lanes | None = None
        self._pending = False
        self._metric = 0
        self._turned_to: object = None

    def body(self) -> ComposeResult:
        """One page that scrolls."""
        with VerticalScroll(can_focus=False):
            yield Paper(self._page, id="page")

    def turn(self) -> None:
        """Ask for the numbers, for the causes, and for the lanes of the plot (the timeline will want them too).

        What an earlier look at the same run gave stays until all is there. Otherwise the numbers come first: the
        causes take longest.
        """
        only, shows = self.only, (self.book, self.only)
        if self._turned_to != shows:
            self._report, self._lanes, self._pending = None, None, False
        self._turned_to = shows
        found = self.book.report_under(only)
        self._report, self._lanes = found or self._report, self.book.lanes_under(only) or self._lanes
        if found is not None:
            self._ask_lanes()
        elif self._report is None:
            self.ask("report", partial(_read_numbers, only), self._counted_up)
        else:
            self.ask("report", partial(_read_report, only), self._explained)
        self.redraw("#page", layout=True)

    def _counted_up(self, found: Report) -> None:
        """The numbers are there; now the causes."""
        self._report, self._pending = found, True
        self.ask("report", partial(_read_causes, self.only, found), self._explained)
        self.redraw("#page", layout=True)

    def _explained(self, found: tuple[Report, int]) -> None:
        self.book.report, self.book.answered_ns = found
        self._report, self._pending = self.book.report, False
        self._ask_lanes()
        self.redraw("#page", layout=True)

    def _ask_lanes(self) -> None:
        if self.book.lanes_under(self.only) is None:
            self.ask("lanes", partial(read_lanes, self.book, self.only), self._plotted)

    def _plotted(self, found: tuple[Lanes, tuple[Filter, Lanes]]) -> None:
        self.book.lanes, self.book.seen = found
        self._lanes = found[1][1]
        self.redraw("#page", layout=True)

    def shown(self) -> Shown | None:
        """The report, as `tailtrace report` has it."""
        found = self._report
        if found is None or self._pending:
            return None
        return Shown(f"{self.book.name}-overview", lambda: flattened(found), lambda: found)

    def copied(self) -> tuple[str, str] | None:
        """The page as text."""
        width = self.query_one("#page").size.width
        return paint(self._page(width, 0)), "the overview"

    def action_scroll(self, lines: int) -> None:
        """Move the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_metric(self) -> None:
        """Plot the next measure."""
        self._metric = (self._metric + 1) % len(_METRICS)
        self.redraw("#page")

    async def action_slow(self) -> None:
        """The slowest request on the timeline."""
        lanes = self._lanes
        if lanes is not None and len(lanes.ok):
            slowest = lanes.ok[np.argmax(lanes.columns["e2e"][lanes.ok])]
            self.tailtrace.chosen = lanes.lane(int(slowest)).rid
            await self.tailtrace.action_show("timeline")

    def _page(self, width: int, _height: int) -> list[Line]:
        if self._report is None:
            return [[("working out where the time went …", "muted")]]
        found: Report = {**self._report, "causes_ns": {UNNAMED: 0, **self._report["causes_ns"]}}
        if width < _TWO_COLUMNS:
            return self._narrow(found, width)
        return self._wide(found, width)

    def _narrow(self, found: Report, width: int) -> list[Line]:
        lines = self._blocks(found, width, "damages", "requests", "latency")
        lines += self._blocks(found, width, "phases", "causes")
        lines += [*self._plot(width, _PLOT), [], *self._blocks(found, width, "throughput", "workers", "recorder")]
        return lines

    def _wide(self, found: Report, width: int) -> list[Line]:
        left_width = (width - _GAP) // 2
        right_width = width - _GAP - left_width
        left = self._blocks(found, left_width, "latency", "phases", "causes")
        above = self._blocks(found, right_width, "damages", "requests", "throughput")
        below = self._blocks(found, right_width, "workers", "recorder")
        visible = self.query_one(VerticalScroll).size.height - 1
        room = max(len(left), visible) - len(above) - len(below) - 1
        plot = self._plot(right_width, min(max(room, _PLOT), _TALLEST))
        return beside(left, [*above, *plot, [], *below], left_width + _GAP)

    def _blocks(self, found: Report, width: int, *names: str) -> list[Line]:
        lines: list[Line] = []
        for name in names:
            if name == "causes" and self._pending:
                lines += [rule("Causes", width), [("working out the causes …", "muted")], []]
                continue
            block = block_lines(name, found, width)
            while block and not block[0]:
                del block[0]
            while block and not block[-1]:
                del block[-1]
            if name == "causes":
                block = _with_sum(block, found, self.book.answered_ns, width)
            lines += [*block, []] if block else []
        return lines

    def _plot(self, width: int, height: int) -> list[Line]:
        """One point a request, at its arrival; slow ones stand out."""
        column, title = _METRICS[self._metric]
        lanes = self._lanes
        if lanes is None:
            return [rule(f"{title} over time", width), [("reading the requests …", "muted")]]
        limit = self.tailtrace.slo_ns if self.tailtrace.slo_ns is not None else lanes.p95
        note = f"a dot a request, red: E2E over {duration(limit)}"
        lines = scatter(_points(lanes, column, self.tailtrace.slo_ns), lanes.window, width, height - 1)
        return [rule(f"{title} over time", width, note if width >= 60 else "v: next metric"), *lines]


def _points(lanes: Lanes, column: str, slo_ns: int | None) -> Points:
    """A request each: when it came, what it took, and whether it was slow."""
    values = lanes.columns[column]
    known = np.flatnonzero(lanes.in_sight & (values != NONE))
    return Points(lanes.columns["arrival"][known], values[known], np.isin(known, lanes.slow(slo_ns)))


def _read_numbers(only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> Report:
    return numbers(session, only, cursor)


def _read_causes(
    only: Filter, found: Report, session: Session, cursor: duckdb.DuckDBPyConnection
) -> tuple[Report, int]:
    """The report with its causes, and what they have to sum to."""
    session.narrow(cursor, only)
    return _whole(found, session, cursor)


def _read_report(only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[Report, int]:
    return _whole(numbers(session, only, cursor), session, cursor)


def _whole(found: Report, session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[Report, int]:
    answered: int = session.ask("answered_time", cursor=cursor).to_pylist()[0]["ns"]
    return explained(session, found, cursor), answered


def _with_sum(block: list[Line], found: Report, answered_ns: int, width: int) -> list[Line]:
    """The causes with their sum below, to the nanosecond, beside what it has to be."""
    total = sum(found["causes_ns"].values())
    requests = counted(found["requests"]["ok"], "ok request")
    agrees = total == answered_ns
    words = f" = E2E of {requests}" if agrees else f" ≠ {answered_ns:,} ns, E2E of {requests}"
    left: Line = [("  ", "text"), ("sum", "muted"), (words, "good" if agrees else "bad")]
    row = spread(left, [(f"{total:,} ns", "strong")], width)
    after = 1 + len(found["causes_ns"])  # the heading, and a row a cause
    return [*block[:after], row, *block[after:]]
