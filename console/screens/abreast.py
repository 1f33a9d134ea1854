"""The panel of timelines side by side: keys and time move one playhead over all runs of a comparison."""

import time
from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.message import Message
from textual.timer import Timer

from console.abreast import Abreast
from console.keys import Scope
from console.lanes import Lanes
from console.screens.bindings import bindings
from console.widgets.abreast import abreast_lines, gutter_of
from console.widgets.ink import Line
from console.widgets.paper import Paper

_FRAME_S: Final = 1 / 30


class AbreastPanel(Paper, can_focus=True):
    """Has the focus while it is open, so that its keys go first."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.ABREAST)]

    class Closed(Message):
        """The panel is done with."""

    class Chosen(Message):
        """This request is wanted: its name."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__(self._picture, id="abreast")
        self.view: Abreast | None = None
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        """A timer that only runs while the playhead does."""
        self._timer = self.set_interval(_FRAME_S, self._tick, pause=True)

    def show(self, runs: Sequence[Lanes], name: str | None) -> None:
        """These runs, at the request of that name. Of the same runs the playhead stays where it was."""
        if self.view is None or tuple(self.view.runs) != tuple(runs):
            self.view = Abreast.of(runs)
        if name in self.view.rows.names:
            self.view.selected = self.view.rows.names.index(name)
        self.redraw()

    def action_select(self, step: int) -> None:
        """Another request."""
        if self.view is not None:
            self.view.select(step)
            self.redraw()

    def action_nudge(self, columns: int) -> None:
        """The playhead by so many columns."""
        if self.view is not None:
            self.view.nudge(columns, self.size.width - gutter_of(self.size.width), _now())
            self._rest_or_run()

    def action_zoom(self, step: int) -> None:
        """Half or twice the time."""
        if self.view is not None:
            self.view.zoom(step, _now())
            self.redraw()

    def action_pan(self, step: int) -> None:
        """A quarter of the time."""
        if self.view is not None:
            self.view.window = self.view.window.pan(step, 4)
            self.redraw()

    def action_fit(self) -> None:
        """All of the longest run."""
        if self.view is not None:
            self.view.window = self.view.window.fit()
            self.redraw()

    def action_play(self) -> None:
        """Run, or hold."""
        if self.view is not None:
            self.view.playhead = self.view.playhead.toggle(_now())
            self._rest_or_run()

    def action_speed(self, step: int) -> None:
        """Faster, or slower."""
        if self.view is not None:
            playhead = self.view.playhead
            self.view.playhead = playhead.faster(_now()) if step > 0 else playhead.slower(_now())
            self.redraw()

    def action_reverse(self) -> None:
        """The other way."""
        if self.view is not None:
            self.view.playhead = self.view.playhead.reverse(_now())
            self._rest_or_run()

    def action_choose(self) -> None:
        """The selected request on the timeline."""
        if self.view is not None and len(self.view.rows):
            self.post_message(self.Chosen(self.view.rows.names[self.view.selected]))

    def action_close(self) -> None:
        """Back to the numbers."""
        if self.view is not None:
            self.view.playhead = self.view.playhead.pause(_now())
            self._rest_or_run()
        self.post_message(self.Closed())

    def _tick(self) -> None:
        if self.view is not None:
            self.view.follow(_now())
            self._rest_or_run()

    def _rest_or_run(self) -> None:
        """The timer runs while the playhead does."""
        if self._timer is not None and self.view is not None:
            (self._timer.resume if self.view.playhead.playing else self._timer.pause)()
        self.redraw()

    def _picture(self, width: int, height: int) -> list[Line]:
        return [] if self.view is None else abreast_lines(self.view, _now(), width, height)


def _now() -> int:
    return time.monotonic_ns()
