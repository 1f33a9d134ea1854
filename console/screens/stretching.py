"""A screen on which a stretch of a run can be selected, with keys and with the mouse, and is told of."""

from functools import partial
from typing import TYPE_CHECKING, Final

from console.filter import Filter
from console.lived import Lived, lived
from console.screens.replaying import ReplayScreen
from console.selecting import Stretch
from console.session import Session
from console.widgets.gantt import Gantt

if TYPE_CHECKING:
    import duckdb

_WHEEL: Final = 3
"""Lanes for each step of the wheel."""


class StretchScreen(ReplayScreen):
    """Holds who was alive in the stretch that the replay has selected. Subclasses draw, and have a `Gantt`."""

    def __init__(self) -> None:
        super().__init__()
        self.lived: Lived | None = None
        self._lived_in: tuple[Stretch, Filter, int] | None = None

    def told(self) -> None:
        """It is known who was alive in the stretch."""
        raise NotImplementedError

    def ask_lived(self) -> None:
        """Ask who was alive in the selected stretch, once it is another one; while it is dragged the newest wins."""
        stretch = self.replay.stretch if self.replay is not None else None
        wanted = None if stretch is None else (stretch, self.only, self.book.revision)
        if self.replay is None or wanted == self._lived_in:
            return
        self._lived_in, self.lived = wanted, None
        if stretch is not None:
            question = partial(_read_lived, self.only, stretch, self.replay.lanes.window.low)
            self.ask("lived", question, self._lived_through)

    def _lived_through(self, found: Lived) -> None:
        self.lived = found
        self.told()

    def action_stretch(self) -> None:
        """Select from the playhead on; once more, and the selection stays as it is."""
        if self.replay is not None:
            self.replay.begin_stretch(self._clock())
            self.draw()

    def action_extend(self, columns: int) -> None:
        """One column more, or less."""
        if self.replay is not None:
            self.replay.extend(columns, self.chart_width(), self._clock())
            self.draw(follow=True)

    def action_look_closer(self) -> None:
        """The window to the selection."""
        if self.replay is not None:
            self.replay.look_closer(self._clock())
            self.draw()

    def action_only_stretch(self) -> None:
        """The selection as a term of the filter."""
        if self.replay is None or self.replay.stretch is None:
            self.notify("select a stretch first: v, or drag over the chart", timeout=3, markup=False)
            return
        term = self.replay.stretch.term(self.replay.lanes.window.low)
        self.tailtrace.look_at(self.only & Filter((term,)))

    def action_drop(self) -> None:
        """Select nothing."""
        if self.replay is not None:
            self.replay.drop_stretch()
            self.draw()

    # The mouse

    def on_gantt_scrubbed(self, message: Gantt.Scrubbed) -> None:
        """The playhead to where the mouse is in the whole run, and the window with it."""
        if self.replay is not None:
            self.replay.pan_to(message.t, self._clock())
            self.move(self.replay.playhead)

    def on_gantt_stretched(self, message: Gantt.Stretched) -> None:
        """What is dragged over is selected."""
        if self.replay is not None:
            self.replay.stretch, self.replay.extending = message.stretch, False
            self.draw()

    def on_gantt_turned(self, message: Gantt.Turned) -> None:
        """The wheel moves through lanes, or through time."""
        if self.replay is None:
            return
        if message.across:
            self.replay.window = self.replay.window.pan(message.steps, 8)
        else:
            shape = self.query_one(Gantt).shape()
            self.replay.scroll(message.steps * _WHEEL, 0 if shape is None else shape.rows)
        self.draw()

    def on_gantt_zoomed(self, message: Gantt.Zoomed) -> None:
        """About where the mouse is."""
        if self.replay is not None:
            self.replay.zoom_about(message.step, message.t)
            self.draw()


def _read_lived(
    only: Filter, stretch: Stretch, low: int, session: Session, cursor: "duckdb.DuckDBPyConnection"
) -> Lived:
    return lived(session, only, stretch.term(low), cursor)
