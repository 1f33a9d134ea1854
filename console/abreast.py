"""The same requests in several runs on one axis of time, with one playhead. A value without a widget.

Runs have no clock in common: time here is ns since each run's first request or pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from console.lanes import Lanes
from console.playhead import Playhead
from console.timeline import Window

_MOST: Final = 400
"""Requests that are shown: beyond, one can't find one's way; a filter picks others."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Who is shown: a name, and the lane of that request in each run (None where it is not there), first come first."""

    names: Sequence[str]
    lanes: Sequence[tuple[int | None, ...]]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, runs: Sequence[Lanes]) -> Self:
        """The requests in sight, in the order in which the first run knows them; those it lacks come last."""
        known = [{run.lane(int(index)).request_id: int(index) for index in run.sighted[:_MOST]} for run in runs]
        names = list(dict.fromkeys(name for one in known for name in one))[:_MOST]
        return cls(names, [tuple(one.get(name) for one in known) for name in names])


@dataclass
class Abreast:
    """Where somebody stands in several runs at once. Methods take `now`, the viewer's clock in ns."""

    runs: Sequence[Lanes]
    rows: Rows
    playhead: Playhead
    window: Window
    selected: int = 0
    top: int = 0

    @classmethod
    def of(cls, runs: Sequence[Lanes]) -> Self:
        """All of the longest run, the playhead at rest at the beginning."""
        window = Window.whole(0, max(run.window.high - run.window.low for run in runs))
        return cls(runs, Rows.of(runs), Playhead.resting(0, window.high, 0), window)

    def of_run(self, place: int) -> Window:
        """The window on the clock of one run."""
        low = self.runs[place].window.low
        return Window(low, low + self.window.high, low + self.window.start, low + self.window.end)

    def flying(self, place: int, at: int) -> int:
        """How many of a run's requests in sight are in flight."""
        run = self.runs[place]
        t = run.window.low + at
        return int((run.in_sight & (run.columns["arrival"] <= t) & (run.columns["finish"] > t)).sum())

    def select(self, step: int) -> None:
        """Another request."""
        self.selected = min(max(self.selected + step, 0), max(len(self.rows) - 1, 0))

    def nudge(self, columns: int, width: int, now: int) -> None:
        """The playhead by columns of a picture so wide."""
        at = self.playhead.position(now) + columns * max(self.window.span // max(width, 1), 1)
        self.playhead = self.playhead.pause(now).seek(at, now)
        self.window = self.window.reveal(self.playhead.position(now))

    def zoom(self, step: int, now: int) -> None:
        """Half or twice the time, about the playhead."""
        at = self.playhead.position(now)
        self.window = self.window.zoom(1, 2, at) if step > 0 else self.window.zoom(2, 1, at)

    def follow(self, now: int) -> bool:
        """Keep a playhead that moves in the window; False once it rests."""
        self.playhead = self.playhead.settled(now)
        self.window = self.window.reveal(self.playhead.position(now))
        return self.playhead.playing

    def scroll(self, room: int) -> range:
        """Which requests fit `room`, so that the selected one is among them."""
        room = max(room, 1)
        self.top = min(max(self.top, self.selected - room + 1, 0), self.selected, max(len(self.rows) - 1, 0))
        return range(self.top, min(self.top + room, len(self.rows)))
