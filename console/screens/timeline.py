"""The timeline: requests over the worker's passes, one time axis, one playhead."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from console.book import read_lanes
from console.exporting import Shown
from console.filter import Filter
from console.keys import Scope
from console.lanes import Lanes, read_phases
from console.ordering import ARRIVAL, Order, next_order, order_of
from console.replay import Replay
from console.screens.bindings import bindings
from console.screens.request import RequestPanel, read_causes
from console.screens.stretching import StretchScreen
from console.seeking import HELP, REQUEST
from console.session import Session
from console.sheet import sheet
from console.text.lived import lived_lines
from console.text.paint import paint
from console.watching import Following
from console.widgets.askline import AskLine
from console.widgets.chart import legend
from console.widgets.frame import Frame, geometry
from console.widgets.gantt import Gantt
from console.widgets.ink import Line, instant
from console.widgets.now import Member, now_lines
from console.widgets.paper import Paper

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from console.phases import Phases

_PAGE: Final = 256
"""Passes whose composition is fetched at once, half of them before the playhead."""

Page = tuple[int, int, int, list[Member]]
"""Worker, first and last pass, and who was in them."""


class TimelineScreen(StretchScreen):
    """Three values are kept apart: `replay.playhead` is the truth, `frame` was drawn, `page` was fetched."""

    SCOPE = Scope.TIMELINE
    NAME = "timeline"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TIMELINE)]
    # Textual declares it so that it is no class variable to mypy.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (130, "-wide")]  # noqa: RUF012
    CSS = """
    TimelineScreen #stage { height: 1fr; layout: vertical; }
    TimelineScreen.-wide #stage { layout: horizontal; }
    TimelineScreen Gantt { height: 1fr; width: 1fr; }
    TimelineScreen #side { height: 8; layout: vertical; padding: 1 1 0 1; }
    TimelineScreen.-compact #side { height: 6; padding: 0 1; }
    TimelineScreen #side.-stretch, TimelineScreen.-compact #side.-stretch { height: 11; }
    TimelineScreen #side.-open, TimelineScreen.-compact #side.-open { height: 60%; }
    TimelineScreen.-wide #side, TimelineScreen.-wide #side.-open {
        height: 1fr; width: 34%; min-width: 54; max-width: 76; padding: 0 1 0 2;
    }
    TimelineScreen #request { display: none; }
    TimelineScreen #side.-open #request { display: block; }
    TimelineScreen #side.-open #now { display: none; }
    TimelineScreen.-wide #side.-open #now { display: block; height: 16; }
    TimelineScreen.-wide #side.-open.-stretch #now { height: 26; }
    TimelineScreen.-compact .legend { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.frame: Frame | None = None
        self.page: Page | None = None
        self._learning: Phases | None = None
        self._wanted: tuple[int, int] | None = None
        self._turned_to: object = None
        self._last_chosen: int | None = None

    def body(self) -> ComposeResult:
        """Gantt, the panel of the instant, the panel of a request."""
        with Container(id="stage"):
            yield Gantt(self._look)
            with Container(id="side"):
                yield Paper(self._now, id="now")
                yield RequestPanel()
        yield Paper(lambda width, _height: [legend(width)], classes="bar legend")
        yield AskLine(f"go to: {HELP}", "seek")
        yield AskLine("what to call this mark; enter alone gives it a letter", "label")

    def turn(self) -> None:
        """Read the lanes, unless another screen has."""
        self.page = self._wanted = self._learning = None
        self.action_close()
        if self._turned_to is not self.book:
            self.frame = self._last_chosen = None  # of the same run the last picture stays until there is a new one
        lanes = self.book.lanes_under(self.only)
        if lanes is None or not lanes.is_whole:
            self.ask("lanes", partial(read_lanes, self.book, self.only), self._read)
        else:
            self._arrive(lanes)

    def on_screen_resume(self) -> None:
        """Another screen may want a request shown."""
        super().on_screen_resume()
        self._show_wanted()
        self.draw()

    def note(self) -> Line:
        """The transport: where, which way, how fast."""
        if self.replay is None or self.frame is None:
            return []
        playhead = self.replay.playhead
        arrow = ("◀" if playhead.backward else "▶") if playhead.playing else "‖"
        return [
            (f"{arrow} ", "accent bold"),
            (f"{float(playhead.speed):g}x  ", "text"),
            (instant(self.frame.at - playhead.start, self.frame.window.span), "strong"),
            (f" / {instant(playhead.end - playhead.start, self.frame.window.span)} ", "muted"),
        ]

    def scopes(self) -> tuple[Scope, ...]:
        """The panel's keys while it has the focus."""
        return (Scope.DETAIL,) if isinstance(self.focused, RequestPanel) else (Scope.TIMELINE,)

    # What is drawn

    def _read(self, found: tuple[Lanes, tuple[Filter, Lanes]]) -> None:
        self.book.lanes, self.book.seen = found
        self._arrive(found[1][1])

    def _arrive(self, lanes: Lanes) -> None:
        """The lanes are read. Stand where one stood in an earlier look at the same run."""
        replay, by = Replay.of(lanes, self.tailtrace.slo_ns), ARRIVAL
        if self.replay is not None and self._turned_to is self.book:
            replay.resume(self.replay, self._clock())
            by = self.replay.order.by
        if self._follows():
            replay.to_edge()
        self.replay, self._turned_to = replay, self.book
        self._sort(by)
        self._show_wanted()
        self.draw()

    def _show_wanted(self) -> None:
        """The request that another screen chose meanwhile, or the instant that it asked for."""
        if self.replay is None:
            return
        rid, t = self.tailtrace.chosen, self.tailtrace.wanted_t
        self.tailtrace.wanted_t = None
        lane, index = self.replay.lane(), self.replay.lanes.of_rid(rid)
        if rid is None:
            self.tailtrace.chosen = None if lane is None else lane.rid
        elif index is not None and rid != self._last_chosen and (lane is None or lane.rid != rid):
            self._jump(index)
        self._last_chosen = self.tailtrace.chosen
        if t is not None:
            self.move(self.replay.playhead.pause(self._clock()).seek(t, self._clock()))
        at, self.tailtrace.wanted_at = self.tailtrace.wanted_at, None
        if at is not None:
            if at.startswith(REQUEST):
                self.replay.look_at_life(at.removeprefix(REQUEST).strip())
            self.go(at, self.replay)

    def _look(self) -> tuple[Lanes, Frame] | None:
        return None if self.replay is None or self.frame is None else (self.replay.lanes, self.frame)

    def draw(self, *, follow: bool = False) -> None:
        """Make the frame of this instant and show it."""
        if self.replay is None:
            return
        gantt, compact, worker = self.query_one(Gantt), self.tailtrace.compact, self.replay.worker()
        shape = geometry(self.replay.lanes, *gantt.size, compact=compact, worker=worker)
        self.replay.marks, self.replay.compact = self.book.marks, compact
        self.frame = self.replay.frame(self._clock(), shape.rows, follow=follow)
        self._fetch_page(self.frame.at)
        self.query_one("#side").set_class(self.replay.stretch is not None, "-stretch")
        self.ask_lived()
        gantt.redraw()
        self._tell_watch()
        self.redraw("#now")
        self.redraw(".status")
        self.call_after_refresh(self._fetch_phases)

    def fit_density(self) -> None:
        """More lanes or fewer."""
        super().fit_density()
        self.call_after_refresh(self.draw)

    def chart_width(self) -> int:
        """Columns of time on screen."""
        shape = self.query_one(Gantt).shape()
        return 1 if shape is None else shape.chart

    def on_resize(self) -> None:
        """Rows came or went."""
        self.call_after_refresh(self.draw)

    def _now(self, width: int, height: int) -> list[Line]:
        """The selected stretch, and the instant of the playhead where there is room for it below."""
        if self.replay is None or self.frame is None:
            return []
        lanes, worker, stretch = self.replay.lanes, self.replay.worker(), self.replay.stretch
        lines: list[Line] = []
        if stretch is not None:
            lines = [*lived_lines(self.lived, stretch, lanes.window.low, width), []]
        if height - len(lines) < 4 and lines:
            return lines[:height]
        return [
            *lines,
            *now_lines(lanes, worker, self.frame.at, self._batch(), width=width, height=height - len(lines)),
        ]

    # A run that is watched

    def to_the_edge(self) -> None:
        """Back to the newest records."""
        self.action_close()
        if self.replay is not None:
            self.replay.drop_stretch()
            self.replay.to_edge()
            self.draw()

    def _follows(self) -> bool:
        watch = self.tailtrace.watch_live
        return watch is not None and isinstance(watch.mode, Following)

    def _tell_watch(self) -> None:
        """Whoever looks at anything but the live edge must not have it move under their eyes."""
        watch = self.tailtrace.watch_live
        if watch is not None and self.replay is not None:
            reading = self.query_one("#side").has_class("-open") or self.replay.stretch is not None
            watch.look(at_the_edge=self.replay.at_edge() and not reading)

    # What is fetched

    def _fetch_page(self, at: int) -> None:
        """Have the composition of the pass at `at`, and of those around it, brought in."""
        step = self.replay.step_at(at) if self.replay is not None else None
        if self.replay is None or step is None or self._on_page(step):
            return
        worker, first = self.replay.worker(), max(step - _PAGE // 2, 0) // (_PAGE // 4) * (_PAGE // 4)
        if self._wanted == (worker, first):
            return
        self._wanted = (worker, first)
        self.ask("page", partial(_read_page, worker=worker, first=first, last=first + _PAGE), self._turn_page)

    def _fetch_phases(self) -> None:
        """Have the phases of the lanes brought in that were drawn without; one screenful after the other."""
        phases = None if self.replay is None else self.replay.lanes.phases
        wanted = [] if phases is None or self._learning is phases else phases.wanted()
        if wanted and self.replay is not None:
            lanes, self._learning = self.replay.lanes, phases
            self.ask("phases", partial(read_phases, lanes, wanted), partial(self._learn, lanes, wanted))

    def _learn(self, lanes: Lanes, wanted: list[int], spans: "pa.Table") -> None:
        lanes.phases.learn(wanted, spans)
        self._learning = None
        self.query_one(Gantt).redraw()
        self.call_after_refresh(self._fetch_phases)

    def _turn_page(self, page: Page) -> None:
        self.page, self._wanted = page, None
        self.redraw("#now")

    def _on_page(self, step: int) -> bool:
        page, replay = self.page, self.replay
        return page is not None and replay is not None and page[0] == replay.worker() and page[1] <= step <= page[2]

    def _batch(self) -> list[Member] | None:
        step = self.replay.step_at(self.frame.at) if self.replay is not None and self.frame is not None else None
        if step is None or self.page is None or not self._on_page(step):
            return None
        return [member for member in self.page[3] if member.step == step]

    def told(self) -> None:
        """It is known who was alive in the selected stretch."""
        self.redraw("#now")

    # The lanes

    def action_lane(self, step: int) -> None:
        """Select another lane of those in the window."""
        if self.replay is not None:
            self.replay.select_by(step)
            self.selected()

    def action_slow(self, step: int) -> None:
        """To the next request that missed the SLO: its lane, and the instant of the miss."""
        if self.replay is None:
            return
        index = self.replay.next_slow(step)
        if index is None:
            words = "no request over the SLO that way" if self.replay.slow else "no request is over the SLO"
            self.notify(words, timeout=2, markup=False)
        else:
            self._jump(index)

    def action_sort(self, step: int) -> None:
        """By the next of what lanes can be sorted by."""
        if self.replay is not None:
            self._sort(next_order(self.replay.order.by, step))
            self.draw()

    def _sort(self, by: str) -> None:
        """Sort the lanes in a thread: there may be millions. Until then they stand as they did."""
        replay = self.replay
        if replay is None or by == ARRIVAL == replay.order.by:
            return
        lanes = replay.lanes
        if by == ARRIVAL:
            self._sorted(replay, Order())
        else:
            replay.order = Order(by, replay.order.lanes)
            self.ask("order", lambda _session, _cursor: order_of(lanes, by), partial(self._sorted, replay))

    def _sorted(self, replay: Replay, order: Order) -> None:
        replay.order = order
        self.draw()

    def _jump(self, index: int) -> None:
        """Show one request."""
        if self.replay is not None and not self.replay.lanes.in_sight[index]:
            name = self.replay.lanes.lane(index).request_id
            self.notify(f"the filter leaves {name} out", severity="warning", markup=False, timeout=3)
        elif self.replay is not None:
            self.replay.show(index, self._clock())
            self.move(self.replay.playhead)
            self.selected()

    def selected(self) -> None:
        """Another lane is selected: it is the chosen request everywhere, and an open panel follows."""
        lane = self.replay.lane() if self.replay is not None else None
        self.tailtrace.chosen = self._last_chosen = None if lane is None else lane.rid
        if self.query_one("#side").has_class("-open"):
            self._explain()
        self.draw()

    # Copy and export

    def copied(self) -> tuple[str, str] | None:
        """The request's id; its account, while the panel has the focus."""
        panel = self.query_one(RequestPanel)
        if panel.has_focus:
            return paint(panel.account()), "the request's account"
        lane = self.replay.lane() if self.replay is not None else None
        return None if lane is None else (lane.request_id, lane.request_id)

    def shown(self) -> Shown | None:
        """The requests of the window, those of the filter, as `tailtrace timeline` has them."""
        if self.replay is None or self.frame is None:
            return None
        lanes, frame, found, width = self.replay.lanes, self.frame, self.lived, self.chart_width()
        name, only = self.book.name, str(self.only)
        return Shown(
            f"{name}-timeline",
            lambda: lanes.rows(frame.lanes_of(lanes)),
            lambda: {"run": name, "filter": only, **sheet(lanes, frame, width), "selected": found},
        )

    # The panel of a request

    def action_detail(self) -> None:
        """Open it for the selected lane."""
        if self.replay is not None and self.replay.in_sight() is not None:
            self.query_one("#side").add_class("-open")
            self.selected()
            self.query_one(RequestPanel).focus()
            self.call_after_refresh(self.draw)

    def action_close(self) -> None:
        """Close it."""
        self.query_one("#side").remove_class("-open")
        self.set_focus(None)
        self.call_after_refresh(self.draw)

    def give_focus_back(self) -> None:
        """To the panel of a request, where it is open."""
        self.set_focus(self.query_one(RequestPanel) if self.query_one("#side").has_class("-open") else None)

    def _explain(self) -> None:
        lane, panel = self.replay.lane() if self.replay is not None else None, self.query_one(RequestPanel)
        if lane is not None and self.replay is not None:
            panel.open(self.replay.lanes, lane)
            self.ask("causes", partial(read_causes, rid=lane.rid, attempt=lane.attempt), panel.explain)

    def on_request_panel_closed(self) -> None:
        """It wants to go."""
        self.action_close()

    async def on_request_panel_whole(self) -> None:
        """All of the request, on the screen that has room for it."""
        await self.tailtrace.action_show("request")

    def on_request_panel_blamed(self, message: RequestPanel.Blamed) -> None:
        """To the culprit."""
        index = self.replay.lanes.of_rid(message.rid) if self.replay is not None else None
        if index is not None:
            self._jump(index)

    # The mouse

    async def on_gantt_picked(self, message: Gantt.Picked) -> None:
        """A click seeks and selects; two open the request, as enter does: its panel, and then all of it."""
        if message.twice and message.index is not None:
            opened = self.query_one("#side").has_class("-open")
            await self.on_request_panel_whole() if opened else self.action_detail()
            return
        if message.t is not None:
            self.seek(message.t)
        if message.index is not None and self.replay is not None:
            self.replay.selected = message.index
            self.selected()


def _read_page(session: Session, cursor: "duckdb.DuckDBPyConnection", *, worker: int, first: int, last: int) -> Page:
    """The composition of the passes `first` to `last` of a worker."""
    answer = session.ask("timeline_slices", cursor=cursor, worker=worker, first=first, last=last)
    columns = (answer[name].to_pylist() for name in ("step", "rid", "role", "tokens", "computed_before"))
    return worker, first, last, [Member(*row) for row in zip(*columns, strict=True)]
