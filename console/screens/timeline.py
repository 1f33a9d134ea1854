"""The timeline: requests over the worker's passes, one time axis, one playhead."""

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer

from console.book import read_lanes
from console.exporting import Shown
from console.filter import Filter
from console.keys import Scope
from console.lanes import Lanes
from console.marks import with_mark
from console.playhead import Playhead
from console.replay import Replay
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.screens.request import RequestPanel, read_causes
from console.seeking import HELP, SeekError, parse_seek
from console.session import Session
from console.text.paint import paint
from console.watching import Following
from console.widgets.askline import AskLine
from console.widgets.chart import Frame, geometry, legend
from console.widgets.gantt import Gantt
from console.widgets.ink import Line, instant
from console.widgets.now import Member, now_lines
from console.widgets.paper import Paper

if TYPE_CHECKING:
    import duckdb

_FRAME_S: Final = 1 / 15
"""Seconds between frames while playing: fluent, and little enough for a slow line."""

_PAGE: Final = 256
"""Passes whose composition is fetched at once, half of them before the playhead."""

Page = tuple[int, int, int, list[Member]]
"""Worker, first and last pass, and who was in them."""


class TimelineScreen(RunScreen):
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
    TimelineScreen #side.-open { height: 60%; }
    TimelineScreen.-wide #side, TimelineScreen.-wide #side.-open { height: 1fr; width: 54; padding: 0 1 0 2; }
    TimelineScreen #request { display: none; }
    TimelineScreen #side.-open #request { display: block; }
    TimelineScreen #side.-open #now { display: none; }
    TimelineScreen.-wide #side.-open #now { display: block; height: 16; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.replay: Replay | None = None
        self.frame: Frame | None = None
        self.page: Page | None = None
        self._wanted: tuple[int, int] | None = None
        self._timer: Timer | None = None
        self._turned_to: object = None

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

    def on_mount(self) -> None:
        """A timer that only runs while the playhead does."""
        self._timer = self.set_interval(_FRAME_S, self._tick, pause=True)
        super().on_mount()

    def turn(self) -> None:
        """Read the lanes, unless another screen has."""
        self.page = self._wanted = None
        self.action_close()
        if self._turned_to is not self.book:
            self.frame = None  # of the same run the last picture stays until there is a new one
        lanes = self.book.lanes_under(self.only)
        if lanes is None:
            self.ask("lanes", partial(read_lanes, self.book, self.only), self._read)
        else:
            self._arrive(lanes)

    def on_screen_resume(self) -> None:
        """Another screen may want a request shown."""
        super().on_screen_resume()
        self._show_wanted()

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
        replay = Replay.of(lanes, self.tailtrace.slo_ns)
        if self.replay is not None and self._turned_to is self.book:
            replay.resume(self.replay, self._clock())
        if self._follows():
            replay.to_edge()
        self.replay, self._turned_to = replay, self.book
        self._show_wanted()
        self._draw()

    def _show_wanted(self) -> None:
        """The request that another screen chose meanwhile, or the instant that it asked for."""
        if self.replay is None:
            return
        lane, rid = self.replay.lane(), self.tailtrace.chosen
        t, self.tailtrace.wanted_t = self.tailtrace.wanted_t, None
        index = self.replay.lanes.of_rid(rid)
        if index is not None and (lane is None or lane.rid != rid):
            self._jump(index)
        if t is not None:
            self._move(self.replay.playhead.pause(self._clock()).seek(t, self._clock()))

    def _look(self) -> tuple[Lanes, Frame] | None:
        return None if self.replay is None or self.frame is None else (self.replay.lanes, self.frame)

    def _draw(self, *, follow: bool = False) -> None:
        """Make the frame of this instant and show it."""
        if self.replay is None:
            return
        gantt = self.query_one(Gantt)
        rows = geometry(self.replay.lanes, gantt.size.width, gantt.size.height).rows
        self.replay.marks = self.book.marks
        self.frame = self.replay.frame(self._clock(), rows, follow=follow)
        self._fetch_page(self.frame.at)
        gantt.redraw()
        self._tell_watch()
        self.redraw("#now")
        self.redraw(".status")

    # A run that is watched

    def to_the_edge(self) -> None:
        """Back to the newest records."""
        self.action_close()
        if self.replay is not None:
            self.replay.to_edge()
            self._draw()

    def _follows(self) -> bool:
        watch = self.tailtrace.watch_live
        return watch is not None and isinstance(watch.mode, Following)

    def _tell_watch(self) -> None:
        """Whoever looks at anything but the live edge must not have it move under their eyes."""
        watch = self.tailtrace.watch_live
        if watch is not None and self.replay is not None:
            reading = self.query_one("#side").has_class("-open")
            watch.look(at_the_edge=self.replay.at_edge() and not reading)

    def on_resize(self) -> None:
        """Rows came or went."""
        self.call_after_refresh(self._draw)

    def _now(self, width: int, height: int) -> list[Line]:
        if self.replay is None or self.frame is None:
            return []
        lanes, worker = self.replay.lanes, self.replay.worker()
        return now_lines(lanes, worker, self.frame.at, self._batch(), width=width, height=height)

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

    # The playhead

    @staticmethod
    def _clock() -> int:
        return time.monotonic_ns()

    def _tick(self) -> None:
        """One frame of playing."""
        if self.replay is not None:
            self._move(self.replay.playhead.settled(self._clock()))

    def _move(self, playhead: Playhead) -> None:
        """Another playhead: the timer runs while it does."""
        if self.replay is None or self._timer is None:
            return
        self.replay.playhead = playhead
        (self._timer.resume if playhead.playing else self._timer.pause)()
        self._draw(follow=True)

    def action_play(self) -> None:
        """Play or pause."""
        if self.replay is not None:
            self._move(self.replay.playhead.toggle(self._clock()))

    def action_speed(self, step: int) -> None:
        """Faster or slower."""
        if self.replay is not None:
            playhead, now = self.replay.playhead, self._clock()
            self._move(playhead.faster(now) if step > 0 else playhead.slower(now))

    def action_reverse(self) -> None:
        """The other direction."""
        if self.replay is not None:
            self._move(self.replay.playhead.reverse(self._clock()))

    def action_event(self, step: int) -> None:
        """To the next change of state."""
        if self.replay is not None:
            self.replay.step_event(step, self._clock())
            self._move(self.replay.playhead)

    def action_pass(self, step: int) -> None:
        """To the next pass."""
        if self.replay is not None:
            self.replay.step_pass(step, self._clock())
            self._move(self.replay.playhead)

    def action_nudge(self, step: int) -> None:
        """One column."""
        if self.replay is not None:
            gantt = self.query_one(Gantt)
            width = geometry(self.replay.lanes, gantt.size.width, gantt.size.height).chart
            self.replay.nudge(step, width, self._clock())
            self._move(self.replay.playhead)

    def action_ends(self, side: int) -> None:
        """To the beginning or the end; the end of a watched run is its live edge."""
        if side > 0 and self.tailtrace.watch_live is not None:
            self.tailtrace.action_live()
        elif self.replay is not None:
            self._seek(self.replay.playhead.start if side < 0 else self.replay.playhead.end)

    def _seek(self, t: int) -> None:
        if self.replay is not None:
            self._move(self.replay.playhead.seek(t, self._clock()))

    def action_ask_seek(self) -> None:
        """Open the line that asks where to."""
        self.query_one("#seek", AskLine).open()

    def action_mark(self) -> None:
        """Open the line that asks what to call this instant."""
        if self.replay is not None:
            self._move(self.replay.playhead.pause(self._clock()))
            self.query_one("#label", AskLine).open()

    def on_input_submitted(self, event: AskLine.Submitted) -> None:
        """What was asked is answered."""
        event.stop()
        self.on_ask_line_left()
        if self.replay is None:
            return
        if event.input.id == "label":
            self.book.marks = with_mark(self.book.marks, self.replay.playhead.position(self._clock()), event.value)
            self.tailtrace.remember(self.book)
            self._draw()
        elif event.value.strip():
            self._go(event.value, self.replay)

    def _go(self, text: str, replay: Replay) -> None:
        """Go where somebody said, or say why not."""
        clock = self.book.info.clock
        wall_offset = clock.wall_ns - clock.mono_ns if clock.kind == "monotonic" else None
        before = replay.selected
        try:
            self._seek(parse_seek(text, replay.places(self._clock(), wall_offset)))
        except SeekError as error:
            self.notify(str(error), severity="warning", markup=False)
        if replay.selected != before:
            self._selected()

    def on_ask_line_left(self) -> None:
        """Back to where the focus was."""
        for line in self.query(AskLine):
            line.close()
        self.give_focus_back()

    def give_focus_back(self) -> None:
        """To the panel of a request, where it is open."""
        self.set_focus(self.query_one(RequestPanel) if self.query_one("#side").has_class("-open") else None)

    # The window

    def action_zoom(self, step: int) -> None:
        """Closer or farther, about the playhead."""
        if self.replay is not None:
            self.replay.zoom(step, self._clock())
            self._draw()

    def action_pan(self, step: int) -> None:
        """Left or right, by a quarter."""
        if self.replay is not None:
            self.replay.window = self.replay.window.pan(step, 4)
            self._draw()

    def action_fit(self) -> None:
        """Everything."""
        if self.replay is not None:
            self.replay.window = self.replay.window.fit()
            self._draw()

    # The lanes

    def action_lane(self, step: int) -> None:
        """Select another lane of those in the window."""
        if self.replay is not None:
            self.replay.select_by(step)
            self._selected()

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

    def _jump(self, index: int) -> None:
        """Show one request."""
        if self.replay is not None and not self.replay.lanes.in_sight[index]:
            name = self.replay.lanes.lane(index).request_id
            self.notify(f"the filter leaves {name} out", severity="warning", markup=False, timeout=3)
        elif self.replay is not None:
            self.replay.show(index, self._clock())
            self._move(self.replay.playhead)
            self._selected()

    def _selected(self) -> None:
        """Another lane is selected: it is the chosen request everywhere, and an open panel follows."""
        lane = self.replay.lane() if self.replay is not None else None
        self.tailtrace.chosen = None if lane is None else lane.rid
        if self.query_one("#side").has_class("-open"):
            self._explain()
        self._draw()

    def copied(self) -> tuple[str, str] | None:
        """The request's id; its account, while the panel has the focus."""
        panel = self.query_one(RequestPanel)
        if panel.has_focus:
            return paint(panel.account()), "the request's account"
        lane = self.replay.lane() if self.replay is not None else None
        return None if lane is None else (lane.request_id, lane.request_id)

    def shown(self) -> Shown | None:
        """The requests of the window, those of the filter."""
        if self.replay is None:
            return None
        lanes, window = self.replay.lanes, self.replay.window

        def document() -> object:
            stretch = {"since_ns": window.start - window.low, "until_ns": window.end - window.low}
            return {"run": name, "filter": only, **stretch, "requests": table().to_pylist()}

        def table() -> pa.Table:
            return lanes.rows(lanes.alive(window))

        name, only = self.book.name, str(self.only)
        return Shown(f"{name}-timeline", table, document)

    # The panel of a request

    def action_detail(self) -> None:
        """Open it for the selected lane."""
        if self.replay is not None and self.replay.in_sight() is not None:
            self.query_one("#side").add_class("-open")
            self._explain()
            self.query_one(RequestPanel).focus()
            self.call_after_refresh(self._draw)

    def action_close(self) -> None:
        """Close it."""
        self.query_one("#side").remove_class("-open")
        self.set_focus(None)
        self.call_after_refresh(self._draw)

    def _explain(self) -> None:
        lane, panel = self.replay.lane() if self.replay is not None else None, self.query_one(RequestPanel)
        if lane is not None and self.replay is not None:
            panel.open(self.replay.lanes, lane)
            self.ask("causes", partial(read_causes, rid=lane.rid, attempt=lane.attempt), panel.explain)

    def on_request_panel_closed(self) -> None:
        """It wants to go."""
        self.action_close()

    def on_request_panel_blamed(self, message: RequestPanel.Blamed) -> None:
        """To the culprit."""
        index = self.replay.lanes.of_rid(message.rid) if self.replay is not None else None
        if index is not None:
            self._jump(index)

    def on_gantt_picked(self, message: Gantt.Picked) -> None:
        """A click seeks and selects."""
        if message.t is not None:
            self._seek(message.t)
        if message.index is not None and self.replay is not None:
            self.replay.selected = message.index
            self._selected()

    def on_gantt_turned(self, message: Gantt.Turned) -> None:
        """The wheel moves through lanes, with ctrl it zooms."""
        if message.zoom:
            self.action_zoom(-message.lines)
        else:
            self.action_lane(message.lines)


def _read_page(session: Session, cursor: "duckdb.DuckDBPyConnection", *, worker: int, first: int, last: int) -> Page:
    """The composition of the passes `first` to `last` of a worker."""
    answer = session.ask("timeline_slices", cursor=cursor, worker=worker, first=first, last=last)
    columns = (answer[name].to_pylist() for name in ("step", "rid", "role", "tokens", "computed_before"))
    return worker, first, last, [Member(*row) for row in zip(*columns, strict=True)]
