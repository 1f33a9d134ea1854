"""A screen on which a run is replayed: what the keys of the playhead and of the window do. What is drawn is its own."""

import time
from typing import Final

from textual.timer import Timer

from console.marks import with_mark
from console.playhead import Playhead
from console.replay import Replay
from console.screens.base import RunScreen
from console.seeking import SeekError, parse_seek
from console.widgets.askline import AskLine

_FRAME_S: Final = 1 / 15
"""Seconds between frames while playing: fluent, and little enough for a slow line."""


class ReplayScreen(RunScreen):
    """Holds the replay and the timer that plays it. Subclasses draw, and say how wide their chart is."""

    def __init__(self) -> None:
        super().__init__()
        self.replay: Replay | None = None
        self._timer: Timer | None = None

    def draw(self, *, follow: bool = False) -> None:
        """Make the frame of this instant and show it; with `follow`, so that what happens there can be seen."""
        raise NotImplementedError

    def selected(self) -> None:
        """Another lane is selected."""
        raise NotImplementedError

    def chart_width(self) -> int:
        """Columns of time on screen."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """A timer that only runs while the playhead does."""
        self._timer = self.set_interval(_FRAME_S, self._tick, pause=True)
        super().on_mount()

    def on_screen_suspend(self) -> None:
        """On another screen nobody sees it play: hold it. Help and palette lie over it, and it plays on."""
        if self.app.current_mode != self.NAME and self.replay is not None:
            self.move(self.replay.playhead.pause(self._clock()))

    @staticmethod
    def _clock() -> int:
        return time.monotonic_ns()

    def _tick(self) -> None:
        """One frame of playing."""
        if self.replay is not None:
            self.move(self.replay.playhead.settled(self._clock()))

    def move(self, playhead: Playhead) -> None:
        """Another playhead: the timer runs while it does."""
        if self.replay is None or self._timer is None:
            return
        self.replay.playhead = playhead
        (self._timer.resume if playhead.playing else self._timer.pause)()
        self.draw(follow=True)

    def seek(self, t: int) -> None:
        """Send the playhead somewhere."""
        if self.replay is not None:
            self.move(self.replay.playhead.seek(t, self._clock()))

    # The playhead

    def action_play(self) -> None:
        """Play or pause."""
        if self.replay is not None:
            self.move(self.replay.playhead.toggle(self._clock()))

    def action_speed(self, step: int) -> None:
        """Faster or slower."""
        if self.replay is not None:
            playhead, now = self.replay.playhead, self._clock()
            self.move(playhead.faster(now) if step > 0 else playhead.slower(now))

    def action_reverse(self) -> None:
        """The other direction."""
        if self.replay is not None:
            self.move(self.replay.playhead.reverse(self._clock()))

    def action_event(self, step: int) -> None:
        """To the next change of state."""
        if self.replay is not None:
            self.replay.step_event(step, self._clock())
            self.move(self.replay.playhead)

    def action_pass(self, step: int) -> None:
        """To the next pass."""
        if self.replay is not None:
            self.replay.step_pass(step, self._clock())
            self.move(self.replay.playhead)

    def action_nudge(self, step: int) -> None:
        """One column."""
        if self.replay is not None:
            self.replay.nudge(step, self.chart_width(), self._clock())
            self.move(self.replay.playhead)

    def action_ends(self, side: int) -> None:
        """To the beginning or the end; the end of a watched run is its live edge."""
        if side > 0 and self.tailtrace.watch_live is not None:
            self.tailtrace.action_live()
        elif self.replay is not None:
            self.seek(self.replay.playhead.start if side < 0 else self.replay.playhead.end)

    # The lines that ask

    def action_ask_seek(self) -> None:
        """Open the line that asks where to."""
        self.query_one("#seek", AskLine).open()

    def action_mark(self) -> None:
        """Open the line that asks what to call this instant."""
        if self.replay is not None:
            self.move(self.replay.playhead.pause(self._clock()))
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
            self.draw()
        elif event.value.strip():
            self.go(event.value, self.replay)

    def go(self, text: str, replay: Replay) -> None:
        """Go where somebody said, or say why not."""
        clock = self.book.info.clock
        wall_offset = clock.wall_ns - clock.mono_ns if clock.kind == "monotonic" else None
        before = replay.selected
        try:
            self.seek(parse_seek(text, replay.places(self._clock(), wall_offset)))
        except SeekError as error:
            self.notify(str(error), severity="warning", markup=False)
        if replay.selected != before:
            self.selected()

    def on_ask_line_left(self) -> None:
        """Back to where the focus was."""
        for line in self.query(AskLine):
            line.close()
        self.give_focus_back()

    # The window

    def action_zoom(self, step: int) -> None:
        """Closer or farther, about the playhead."""
        if self.replay is not None:
            self.replay.zoom(step, self._clock())
            self.draw()

    def action_pan(self, step: int) -> None:
        """Left or right, by a quarter."""
        if self.replay is not None:
            self.replay.window = self.replay.window.pan(step, 4)
            self.draw()

    def action_fit(self) -> None:
        """Everything."""
        if self.replay is not None:
            self.replay.window = self.replay.window.fit()
            self.draw()
