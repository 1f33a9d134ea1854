"""How a screen watches a run that is still recorded: it moves with the run, or is held while records go on coming."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from console.widgets.ink import Line, clean
from recorder.tail.wire import Position, count_between

_LATE_NS: Final = 10**9
_RESTS: Final = 2
_LONGEST_REST: Final = 30
"""In looks."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a feed knows at one instant: the folder of the run, where its rings end, how late that is, what was missed.

    `word` says what else there is to say: that the connection broke, or how the run ended; `over` that it has ended.
    """

    run: Path
    ends: Position
    late_ns: int = 0
    behind: int = 0
    missed: int = 0
    word: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Following:
    """The view moves with the run; `shown` is what it has been told to show."""

    shown: Position


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody looks at something; the view rests at `since`."""

    since: Position


Mode = Following | Held


@dataclass
class Pace:
    """How often a view is brought up to date: at every look, unless that takes longer. Then it rests in between, so
    that a viewer of a large run takes at most a third of the time. Counts looks, and knows no clock.
    """

    _rest: int = 0

    def ready(self, *, busy: bool) -> bool:
        """Asked at each look: whether it is time. `busy`: what the last one asked is still being answered."""
        if busy:
            self._rest = min(self._rest + _RESTS, _LONGEST_REST)
        elif self._rest:
            self._rest -= 1
        else:
            return True
        return False

    def hurry(self) -> None:
        """Somebody wants to see it now."""
        self._rest = 0


class Watch:
    """Between a feed, which knows how the run stands, and screens, which show it. Knows no widget and no clock."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing
        self.mode: Mode = Following({})
        self._over = False

    @property
    def run(self) -> Path:
        """The run that is recorded now."""
        return self._standing().run

    def due(self) -> bool:
        """Whether the view has to be brought up to date; from now on it counts as told."""
        ends = self._standing().ends
        if not isinstance(self.mode, Following) or self.mode.shown == ends:
            return False
        self.mode = replace(self.mode, shown=ends)
        return True

    def has_ended(self) -> bool:
        """Whether the run has ended since this was asked last: held views say so too."""
        before, self._over = self._over, self._standing().over
        return self._over and not before

    def begin(self) -> None:
        """Another run is recorded: follow it."""
        self.mode, self._over = Following({}), False

    def look(self, *, at_the_edge: bool) -> None:
        """Somebody looks at the newest records, or at others: then nothing may move under their eyes."""
        if isinstance(self.mode, Following) and not at_the_edge:
            self.mode = Held(self.mode.shown)

    def come_back(self) -> None:
        """To the live edge."""
        if isinstance(self.mode, Held):
            self.mode = Following(self.mode.since)

    @property
    def new(self) -> int:
        """Records that have come since the view was held."""
        ends = self._standing().ends
        return count_between(self.mode.since, ends, ends) if isinstance(self.mode, Held) else 0

    def note(self) -> Line:
        """For the status line: following or held, and what a viewer has to know about the way here."""
        standing = self._standing()
        line: Line = [("ended", "warn bold")] if standing.over else [("live", "good bold")]
        if isinstance(self.mode, Held):
            line = [("held ", "warn bold"), (f"+{self.new:,}", "strong"), ("  G", "accent"), (" live", "muted")]
        if standing.missed:
            line += [(f"  {standing.missed:,} missed", "bad bold")]
        if standing.late_ns > _LATE_NS or standing.behind:
            line += [(f"  {standing.late_ns / 1e9:.1f} s late, {standing.behind:,} behind", "warn")]
        return [*line, (f"  {clean(standing.word)}", "warn")] if standing.word else line
