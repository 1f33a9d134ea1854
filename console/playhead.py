"""Where the replay stands: a value without a clock. Every method takes `now` (ns of the viewer's clock) as argument.

The playhead is one of three values that are kept apart on purpose: the playhead itself, the frame that was last drawn,
and the data that was last fetched for it. Only this one is the truth; the other two follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

SPEEDS: Final = tuple(Fraction(s) for s in ("1/10", "1/4", "1/2", "1", "2", "4", "8", "16", "32", "64"))
"""Run time per time of the viewer."""

Marks = Sequence[int] | NDArray[np.int64]
"""Run times to step to, sorted and distinct."""


@dataclass(frozen=True, slots=True)
class Playhead:
    """At viewer time `since` it stood at run time `at`; from there it runs, or rests. All times in ns."""

    start: int
    end: int
    at: int
    since: int = 0
    speed: Fraction = Fraction(1)
    backward: bool = False
    playing: bool = False

    @classmethod
    def resting(cls, start: int, end: int, at: int | None = None) -> Self:
        """A playhead over the run's extent `[start, end]`, at rest at `at` (None: the end, where all has happened)."""
        return cls(start, end, end if at is None else min(max(at, start), end))

    def position(self, now: int) -> int:
        """The run time it points to; never outside the run."""
        if not self.playing:
            return self.at
        moved = (now - self.since) * self.speed.numerator // self.speed.denominator
        return self._inside(self.at - moved if self.backward else self.at + moved)

    def seek(self, t: int, now: int) -> Self:
        """Stand at `t`, and go on playing if it played."""
        return replace(self, at=self._inside(t), since=now)

    def play(self, now: int) -> Self:
        """Run from where it stands."""
        return replace(self, at=self.position(now), since=now, playing=True)

    def pause(self, now: int) -> Self:
        """Rest where it stands."""
        return replace(self, at=self.position(now), since=now, playing=False)

    def toggle(self, now: int) -> Self:
        """Play or pause. At the end of its way it first goes back to the beginning, as every player does."""
        if self.playing and not self.exhausted(now):
            return self.pause(now)
        return (self.seek(self._origin(), now) if self.exhausted(now) else self).play(now)

    def faster(self, now: int) -> Self:
        """The next speed up; the fastest stays."""
        return self.at_speed(next((s for s in SPEEDS if s > self.speed), SPEEDS[-1]), now)

    def slower(self, now: int) -> Self:
        """The next speed down; the slowest stays."""
        return self.at_speed(next((s for s in reversed(SPEEDS) if s < self.speed), SPEEDS[0]), now)

    def at_speed(self, speed: Fraction, now: int) -> Self:
        """Another speed from this instant on; the position does not jump."""
        return replace(self, at=self.position(now), since=now, speed=speed)

    def reverse(self, now: int) -> Self:
        """The other direction from this instant on."""
        return replace(self, at=self.position(now), since=now, backward=not self.backward)

    def step(self, marks: Marks, now: int, count: int = 1) -> Self:
        """Rest at the `count`-th mark after the position (before it where negative).

        `marks` are sorted, distinct run times. Beyond the last mark (first) it stays at that mark, or where it is.
        """
        here = self.position(now)
        if count > 0:
            place = min(int(np.searchsorted(marks, here, "right")) + count - 1, len(marks) - 1)
            target = max(int(marks[place]), here) if len(marks) else here
        else:
            place = max(int(np.searchsorted(marks, here)) + count, 0)
            target = min(int(marks[place]), here) if len(marks) else here
        return self.pause(now).seek(target, now)

    def exhausted(self, now: int) -> bool:
        """Whether there is no more way in its direction."""
        return self.position(now) == (self.start if self.backward else self.end)

    def settled(self, now: int) -> Self:
        """Itself, at rest where it has run out of way."""
        return self.pause(now) if self.playing and self.exhausted(now) else self

    def over(self, start: int, end: int, now: int) -> Self:
        """The same playhead over another extent: the run has grown since."""
        moved = replace(self, at=self.position(now), since=now, start=start, end=end)
        return replace(moved, at=moved._inside(moved.at))

    def _origin(self) -> int:
        return self.end if self.backward else self.start

    def _inside(self, t: int) -> int:
        return min(max(t, self.start), self.end)
