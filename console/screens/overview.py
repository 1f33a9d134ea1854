"""The overview: percentiles, phases, causes, states, the latency heat map with its strips, the recorder's health."""

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
from console.heat import Box, Heat, heat_of
from console.keys import Scope
from console.lanes import Lanes
from console.report import UNNAMED, Explanation, Report, explanation, numbers
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text.paint import paint
from console.text.report import block_lines, counted
from console.timeline import Window
from console.widgets.drag import Dragged, DragPaper
from console.widgets.heat import LABEL, cell_at, heat_lines
from console.widgets.ink import Line, beside, duration, rule, spread
from console.widgets.load import load_lines

_METRICS: Final = (("e2e", "E2E"), ("ttft", "TTFT"), ("tpot", "TPOT"))
_TWO_COLUMNS: Final = 118
"""From this width on there are two columns of blocks."""
_GAP: Final = 4
_PLOT: Final = 12
_TALLEST: Final = 26
_STRIPS: Final = 2
"""Lines below the heat map: KV cache and device over the same time."""


class OverviewScreen(RunScreen):
    """The report's blocks, laid out for the screen, with a plot that only a screen has."""

    SCOPE = Scope.OVERVIEW
    NAME = "overview"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.OVERVIEW)]

    def __init__(self) -> None:
        super().__init__()
        self._report: Report | None = None
        self._why: tuple[Explanation, int] | None = None
        self._lanes: Lanes | None = None
        self._pending = False
        self._metric = 0
        self._window: Window | None = None
        self._box: Box | None = None
        self._heat: Heat | None = None
        self._heat_at = (0, 0)
        self._heated_for: object = None
        self._counted_cells: Heat | None = None
        self._turned_to: object = None

    def body(self) -> ComposeResult:
        """One page that scrolls."""
        with VerticalScroll(can_focus=False):
            yield DragPaper(self._page, id="page")

    def turn(self) -> None:
        """Ask for the numbers, for the causes, and for the lanes of the plot (the timeline will want them too).

        What an earlier look at the same run gave stays until all is there. Otherwise the numbers come first, where
        the others take longer; all at once where they don't.
        """
        only, shows = self.only, (self.book, self.only)
        if self._turned_to != shows:
            self._report, self._lanes, self._pending, self._box = None, None, False, None
        self._turned_to = shows
        found = self.book.report_under(only)
        self._report, self._lanes = found or self._report, self.book.lanes_under(only) or self._lanes
        if found is not None:
            self._ask_lanes()
        elif self._report is None:
            self._why, self._pending, at_once = None, True, self.book.is_at_hand
            numbers_first = partial(self._counted_up, and_then=not at_once)
            self.ask("report", partial(_read_numbers, only, self.tailtrace.slo_ns), numbers_first)
            if at_once:
                self._ask_the_rest()
        else:
            self.ask("report", partial(_read_report, only, self.tailtrace.slo_ns), self._renewed)
        self.redraw("#page", layout=True)

    def _counted_up(self, found: Report, *, and_then: bool) -> None:
        self._report = found
        if and_then:
            self._ask_the_rest()
        self._put_together()

    def _ask_the_rest(self) -> None:
        self.ask("causes", partial(_read_causes, self.only), self._explained)
        self._ask_lanes()

    def _explained(self, why: tuple[Explanation, int]) -> None:
        self._why = why
        self._put_together()

    def _put_together(self) -> None:
        if self._report is not None and self._why is not None:
            self._hold({**self._report, **self._why[0]}, self._why[1])
        self.redraw("#page", layout=True)

    def _renewed(self, found: tuple[Report, int]) -> None:
        self._hold(*found)
        self._ask_lanes()
        self.redraw("#page", layout=True)

    def _hold(self, report: Report, answered_ns: int) -> None:
        """All numbers are there."""
        self._report = self.book.report = report
        self.book.answered_ns, self._pending = answered_ns, False

    def _ask_lanes(self) -> None:
        if self.book.lanes_under(self.only) is None:
            self.ask("lanes", partial(read_lanes, self.book, self.only, whole=False), self._plotted)

    def _plotted(self, found: tuple[Lanes, tuple[Filter, Lanes]]) -> None:
        self.book.lanes, self.book.seen = found
        self._lanes = found[1][1]
        self.redraw("#page", layout=True)
        if self.tailtrace.watch_live is None and not self._lanes.is_whole:
            self.ask("ahead", partial(read_lanes, self.book, self.only), self._read_ahead)

    def _read_ahead(self, found: tuple[Lanes, tuple[Filter, Lanes]]) -> None:
        """What lanes are called, for the timeline: nobody waits for it here."""
        self.book.lanes, self.book.seen = found

    @property
    def slow_ns(self) -> int | None:
        """From where on a request is slow: the SLO, or the p95 of E2E."""
        lanes = self._lanes
        return self.tailtrace.slo_ns if self.tailtrace.slo_ns is not None or lanes is None else lanes.p95

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
        self._metric, self._box = (self._metric + 1) % len(_METRICS), None
        self.redraw("#page")

    def action_zoom(self, direction: int) -> None:
        """Half or twice the time, about the box or the middle."""
        window = self._seen()
        if window is not None:
            place = (window.start + window.end) // 2 if self._heat is None or self._box is None else self._box_middle()
            self._look_at(window.zoom(1, 2, place) if direction > 0 else window.zoom(2, 1, place))

    def action_pan(self, direction: int) -> None:
        """A quarter of the time to one side."""
        window = self._seen()
        if window is not None:
            self._look_at(window.pan(direction, 4))

    def action_fit(self) -> None:
        """All of the run."""
        self._look_at(None)

    def action_arrow(self, columns: int, lines: int) -> None:
        """Move the box; without one the page, or the time."""
        if self._box is not None and self._heat is not None:
            self._box = self._box.moved(columns, -lines, self._heat.shape)
            self.redraw("#page")
        elif lines:
            self.action_scroll(lines)
        else:
            self.action_pan(columns)

    def action_stretch(self, columns: int, lines: int) -> None:
        """Move one corner of the box."""
        if self._box is not None and self._heat is not None:
            self._box = self._box.stretched(columns, -lines, self._heat.shape)
            self.redraw("#page")

    def action_box(self) -> None:
        """A box around the fullest of the slow cells; away with the one there is."""
        if self._heat is not None:
            limit = self.slow_ns if self._heat.measure == "e2e" else None
            self._box = self._heat.hottest(limit) if self._box is None else None
            self.redraw("#page")
            self.query_one(VerticalScroll).scroll_to(y=self._heat_at[1] - 1, animate=False)

    def action_unbox(self) -> None:
        """Away with the box."""
        self._box = None
        self.redraw("#page")

    def action_take(self) -> None:
        """Look at the requests of the box only."""
        if self._box is not None and self._heat is not None and self._heat.inside(self._box):
            only, self._box = self._heat.filter(self._box), None
            self.tailtrace.look_at(self.only & only)

    def on_dragged(self, message: Dragged) -> None:
        """Draw a box with the mouse; let go, and it stays until enter or escape."""
        heat, (left, top) = self._heat, self._heat_at
        if heat is None:
            return
        corners = [cell_at(heat, x - left, y - top) for x, y in (message.start, message.end)]
        if corners[0] is not None and corners[1] is not None:
            self._box = Box(*corners[0], *corners[1])
            self.redraw("#page")

    def _seen(self) -> Window | None:
        """The time that the heat map shows."""
        if self._lanes is None:
            return None
        whole = self._lanes.window
        return whole if self._window is None else self._window.over(whole.low, whole.high)

    def _look_at(self, window: Window | None) -> None:
        self._window, self._box = window, None
        self.redraw("#page")

    def _box_middle(self) -> int:
        assert self._heat is not None
        assert self._box is not None
        start, end, _, _ = self._heat.bounds(self._box)
        return self._heat.began + (start + end) // 2

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
        self._heat_at = (0, len(lines) + 1)
        below = self._blocks(found, width, "throughput", "workers", "recorder")
        lines += [*self._plot(width, _PLOT), *self.laid([[]]), *below]
        return lines

    def _wide(self, found: Report, width: int) -> list[Line]:
        left_width = (width - _GAP) // 2
        right_width = width - _GAP - left_width
        left = self._blocks(found, left_width, "latency", "phases", "causes")
        above = self._blocks(found, right_width, "damages", "requests", "throughput")
        below = self._blocks(found, right_width, "workers", "recorder")
        visible = self.query_one(VerticalScroll).size.height - 1
        room = max(len(left), visible) - len(above) - len(below) - 1
        self._heat_at = (left_width + _GAP, len(above) + 1)
        plot = self._plot(right_width, min(max(room, _PLOT), _TALLEST))
        return beside(left, [*above, *plot, *self.laid([[]]), *below], left_width + _GAP)

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
        return self.laid(lines)

    def _plot(self, width: int, height: int) -> list[Line]:
        """A cell of the heat map is a stretch of arrivals and of times; below it what the engine did meanwhile."""
        column, title = _METRICS[self._metric]
        window = self._seen()
        if self._lanes is None or window is None:
            return [rule(f"{title} over time", width), [("reading the requests …", "muted")]]
        self._heat = self._heated(column, window, height - _STRIPS - 2, width - LABEL)
        if self._heat is None:
            return [rule(f"{title} over time", width), [("no request to plot", "muted")]]
        limit = self.slow_ns if column == "e2e" else None
        return [
            rule(f"{title} over time", width, self._plot_note(self._heat, limit, width)),
            *heat_lines(self._heat, limit, self._box),
            *load_lines(self._lanes.passes, window, width - LABEL, LABEL),
        ]

    def _heated(self, column: str, window: Window, rows: int, columns: int) -> Heat | None:
        """Counted once for a picture: a box moves over the same cells."""
        lanes = self._lanes
        assert lanes is not None
        wanted = (lanes, column, window, rows, columns)
        if self._heated_for != wanted:
            self._heated_for, self._counted_cells = wanted, heat_of(lanes, column, window, rows, columns)
        return self._counted_cells

    def _plot_note(self, heat: Heat, limit: int | None, width: int) -> str:
        if self._box is None:
            slow = f", red: over {duration(limit)}" if limit is not None and width >= 60 else ""
            return f"darker: more requests{slow}, b: box"
        start, end, low, high = (duration(ns) for ns in heat.bounds(self._box))
        told = counted(heat.inside(self._box), "request")
        return f"{told}, {low} to {high}, at {start} to {end}" if width >= 70 else f"{told}, {low} to {high}"


def _read_numbers(only: Filter, slo_ns: int | None, session: Session, cursor: duckdb.DuckDBPyConnection) -> Report:
    return numbers(session, only, cursor, slo_ns)


def _read_causes(only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[Explanation, int]:
    """The causes, and what they have to sum to."""
    session.narrow(cursor, only)
    return _why(session, cursor)


def _read_report(
    only: Filter, slo_ns: int | None, session: Session, cursor: duckdb.DuckDBPyConnection
) -> tuple[Report, int]:
    found = numbers(session, only, cursor, slo_ns)
    why, answered = _why(session, cursor)
    return {**found, **why}, answered


def _why(session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[Explanation, int]:
    answered: int = session.ask("answered_time", cursor=cursor).to_pylist()[0]["ns"]
    return explanation(session, cursor), answered


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
