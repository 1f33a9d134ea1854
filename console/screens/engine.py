"""The engine: what the workers did over a stretch of the run, on one time axis, and what that says of their health."""

import time
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

import duckdb
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from console.engine_view.answer import EngineView, explained, workers
from console.engine_view.look import Asking, Look, whole
from console.exporting import Shown, flattened
from console.filter import Filter
from console.keys import Scope
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.selecting import Stretch
from console.session import Session
from console.text.engine import LEFT, RIGHT, block_lines, engine_lines
from console.text.engine_strips import parts_for, stretch_at, strip_lines
from console.text.paint import paint
from console.timeline import Window
from console.widgets.drag import Dragged, DragPaper
from console.widgets.ink import Line, beside, duration

_TWO_COLUMNS: Final = 118
"""From this width on there are two columns of blocks under the strips."""
_GAP: Final = 4
_AROUND: Final = 3
"""Cells beside the page: padding and scrollbar."""
_AT_ONCE_S: Final = 0.1
"""A run whose workers are told in so much time is small."""
_ROWS: Final = ((40, 3), (30, 2))
"""On a terminal of at least so many lines a strip has so many rows; on a smaller one a single one."""

Asked = tuple[Window | None, int | None, int]
"""The stretch (None: the whole run), the worker (None: all), and in how many parts."""


class EngineScreen(RunScreen):
    """`view` was asked for, `window` and `worker` are what is wanted; while an answer is awaited the last one stays."""

    SCOPE = Scope.ENGINE
    NAME = "engine"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.ENGINE)]

    def __init__(self) -> None:
        super().__init__()
        self.view: EngineView | None = None
        self.window: Window | None = None
        self.worker: int | None = None
        self._asked: Asked | None = None
        self._dragged: Stretch | None = None
        self._strips = 0
        self._turned_to: object = None

    def body(self) -> ComposeResult:
        """One page that scrolls."""
        with VerticalScroll(can_focus=False):
            yield DragPaper(self._page, id="page")

    def turn(self) -> None:
        """Ask about another run from its whole, about the same one where one stands."""
        if self._turned_to is not self.book:
            self.view = self.window = self.worker = None
        self._turned_to = self.book
        self._look()

    def on_resize(self) -> None:
        """Strips have as many parts as there is room for."""
        if self._asked is not None and self._asked[2] != self._parts():
            self._look()

    def note(self) -> Line:
        """Which worker, which stretch."""
        if self.view is None:
            return []
        workers, window = self.view.report["workers"], self.view.look.window
        whose = f"worker {self.worker}" if self.worker is not None else f"all of {len(workers)} workers"
        if len(workers) == 1:
            whose = f"worker {workers[0]['worker']}"
        since = f"{(window.start - window.low) / 1e9:,.3f}s"
        return [(f"{whose}  ", "text"), (since, "strong"), (f" + {duration(window.span)} ", "muted")]

    def shown(self) -> Shown | None:
        """The numbers, as `tailtrace engine --json` has them."""
        view = self.view
        if view is None or view.about is None:
            return None
        return Shown(f"{self.book.name}-engine", lambda: flattened(view.report), lambda: view.report)

    def copied(self) -> tuple[str, str] | None:
        """The page as text."""
        if self.view is None:
            return None
        return paint(engine_lines(self.view, self.query_one("#page").size.width)), "the engine's numbers"

    # Keys

    def action_scroll(self, lines: int) -> None:
        """Move the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_zoom(self, step: int) -> None:
        """Closer or farther, about the middle."""
        if self.window is not None:
            middle = self.window.start + self.window.span // 2
            self._move(self.window.zoom(*((1, 2) if step > 0 else (2, 1)), about=middle))

    def action_pan(self, step: int) -> None:
        """Left or right, by a quarter."""
        if self.window is not None:
            self._move(self.window.pan(step, 4))

    def action_fit(self) -> None:
        """The whole run."""
        if self.window is not None:
            self._move(self.window.fit())

    def action_worker(self, step: int) -> None:
        """Another worker, or all of them."""
        if self.view is not None:
            numbers = [None, *(row["worker"] for row in self.view.report["workers"])]
            place = numbers.index(self.worker) if self.worker in numbers else 0
            self.worker = numbers[(place + step) % len(numbers)]
            self._look()

    async def action_victim(self) -> None:
        """Whoever lost most to a preemption, on the timeline."""
        worst = self.view.report["preemptions"].get("worst") if self.view is not None else None
        if worst:
            self.tailtrace.chosen = worst[0]["victim"]
            await self.tailtrace.action_show("timeline")
        else:
            self.notify("nobody lost its KV blocks here", markup=False, timeout=2)

    async def action_moment(self) -> None:
        """The middle of the stretch on the timeline."""
        if self.window is not None:
            self.tailtrace.wanted_t = self.window.start + self.window.span // 2
            await self.tailtrace.action_show("timeline")

    # The mouse

    def on_dragged(self, message: Dragged) -> None:
        """What is dragged over on the strips is the stretch that is shown once the button is let go."""
        self._dragged = None
        if self.view is not None and message.start[1] < self._strips and message.start[0] != message.end[0]:
            width = self.query_one("#page").size.width
            self._dragged = stretch_at(self.view, width, message.start[0], message.end[0])
        if message.done and self._dragged is not None and self.view is not None:
            window = self.view.look.window.between(self._dragged.start, self._dragged.end)
            self._dragged = None
            self._move(window)
        self.redraw("#page")

    def to_the_edge(self) -> None:
        """All of a watched run."""
        self.action_fit()

    # Asking and drawing

    def _move(self, window: Window) -> None:
        if window != self.window:
            self.window = window
            self._tell_watch()
            self._look()

    def _tell_watch(self) -> None:
        """Whoever looks at a part of a watched run must not have it move under their eyes."""
        watch = self.tailtrace.watch_live
        if watch is not None and self.window is not None:
            watch.look(at_the_edge=self.window.end == self.window.high)

    def _parts(self) -> int:
        return parts_for(max(self.app.size.width - _AROUND, 1))

    def _look(self) -> None:
        self._asked = self.window, self.worker, self._parts()
        self.ask("engine", partial(_read, self.only, self._asked), self._arrive)
        self.redraw("#page", layout=True)

    def _arrive(self, view: EngineView) -> None:
        """What the workers did comes first: what is told of requests takes longer."""
        self.view, self.window = view, view.look.window
        if view.about is None:
            self.ask("engine", partial(_explain, self.only, view), self._arrive)
        self.redraw("#page", layout=True)
        self.redraw_bars()

    def _page(self, width: int, _height: int) -> list[Line]:
        if self.view is None:
            return [[("reading what the workers did …", "muted")]]
        view = self.view
        rows = next((rows for tall, rows in _ROWS if self.app.size.height >= tall), 1)
        strips = strip_lines(view, width, rows, self._dragged)
        self._strips = len(self.laid(strips))
        lines = [*strips, [], *block_lines("verdicts", view, width)]
        if view.about is None:
            lines += [[("reading the requests …", "muted")], []]
        if width < _TWO_COLUMNS:
            return self.laid(lines) + self._blocks(view, width, LEFT + RIGHT)
        left = (width - _GAP) // 2
        columns = self._blocks(view, left, LEFT), self._blocks(view, width - _GAP - left, RIGHT)
        return self.laid(lines) + beside(*columns, left + _GAP)

    def _blocks(self, view: EngineView, width: int, names: tuple[str, ...]) -> list[Line]:
        return self.laid([line for name in names for line in block_lines(name, view, width)])


def _read(only: Filter, asked: Asked, session: Session, cursor: duckdb.DuckDBPyConnection) -> EngineView:
    """A stretch of the run as it stands now; a worker that it has not is none. Of a small run all of it at once."""
    window, worker, parts = asked
    now = whole(session, cursor)
    look = Look(now if window is None else window.over(now.low, now.high), worker, parts)
    known = session.ask("engine_workers", cursor=cursor)["worker"].to_pylist()
    begun = time.monotonic()
    asking = Asking.under(session, only, look if worker in known else replace(look, worker=None), cursor)
    view = workers(asking, only)
    return explained(asking, view) if time.monotonic() - begun < _AT_ONCE_S else view


def _explain(only: Filter, view: EngineView, session: Session, cursor: duckdb.DuckDBPyConnection) -> EngineView:
    return explained(Asking.under(session, only, view.look, cursor), view)
