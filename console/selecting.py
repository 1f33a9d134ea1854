"""A stretch of a run that somebody selects, by columns of a chart or by instants. Pure.

A column is what a mouse points at, an instant is what is meant; on the way there and back nothing is lost as long as a
column is a nanosecond or more.
"""

from dataclasses import dataclass
from typing import Self

from console.filter import Alive
from console.timeline import Window


@dataclass(frozen=True, slots=True)
class Stretch:
    """The instants `[start, end)`, ns on the run's clock; never empty. `anchor` is the end that stays, if one does."""

    start: int
    end: int
    anchor: int | None = None

    @classmethod
    def between(cls, anchor: int, other: int) -> Self:
        """From the instant where it was begun to another one, before or after it."""
        start, end = sorted((anchor, other))
        return cls(start, max(end, start + 1), anchor)

    @classmethod
    def of_columns(cls, one: int, other: int, window: Window, width: int) -> Self:
        """All of two columns and of what is between them; columns beyond the chart count as its nearest."""
        first, last = (min(max(column, 0), max(width - 1, 0)) for column in sorted((one, other)))
        start = window.instant(first, width)
        return cls(start, max(window.instant(last + 1, width), start + 1))

    @property
    def span(self) -> int:
        """Its length in ns, at least 1."""
        return self.end - self.start

    def to(self, other: int) -> Self:
        """The same anchor, and another end."""
        return self.between(self.start if self.anchor is None else self.anchor, other)

    def columns(self, window: Window, width: int) -> range:
        """The columns that it touches in a window; none where it is beyond it."""
        if self.end <= window.start or self.start >= window.end or width <= 0:
            return range(0)
        first, last = window.column(self.start, width), window.column(self.end - 1, width)
        return range(max(first, 0), min(last, width - 1) + 1)

    def term(self, low: int) -> Alive:
        """The requests that some of it is in the life of; `low` is the instant that a filter counts from."""
        return Alive(max(self.start - low, 0), max(self.end - low, 0))
