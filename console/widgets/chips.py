"""The filter as chips under the top bar: what is looked at, each part with a cross that takes it away."""

import re
from collections.abc import Callable, Sequence
from functools import partial

from textual.message import Message

from console.filter import EVERYTHING, Filter
from console.widgets.ink import Line, clean, crop, duration, fit, spread, width_of
from console.widgets.paper import Paper
from console.widgets.spots import Spot

Counts = Sequence[tuple[int, int]]
"""How many attempts the filter lets through, of how many: for each run on screen."""

_HEAD = " only "
_CROSS = " ✕"
_LONGEST = 36
_TIME = re.compile(r"(?<=[<>=:.])(\d{5,})(ns|us)\b")
_NS = {"ns": 1, "us": 1000}
_MORE = 4


def chip_line(only: Filter, counts: Counts | None, width: int) -> Line:
    """The chips that fit, how many more there are, and how many requests are left."""
    told = "counting …"
    if counts is not None:
        told = " → ".join(f"{picked:,} of {total:,}" for picked, total in counts) + " requests"
    nothing = counts is not None and not any(picked for picked, _ in counts)
    right: Line = [(f" {told} ", "bad" if nothing else "accent")]
    room = max(width - width_of(right) - 1, 0)
    left: Line = [(_HEAD, "muted")]
    chips = _chips(only)
    for place, chip in enumerate(chips):
        piece: Line = [(f" {chip}", "strong on.cursor"), (f"{_CROSS} ", "accent on.cursor"), (" ", "text")]
        more = len(chips) - place
        if width_of(left) + width_of(piece) + (_MORE if more > 1 else 0) > room:
            left.append((f"+{more}", "accent bold"))
            break
        left += piece
    return spread(crop(left, room), right, width)


def chip_at(only: Filter, column: int) -> int | None:
    """Which chip is in a column of the line."""
    edge = len(_HEAD)
    for place, chip in enumerate(_chips(only)):
        size = width_of([(f" {chip}{_CROSS} ", "")])
        if edge <= column < edge + size:
            return place
        edge += size + 1
    return None


def _chips(only: Filter) -> list[str]:
    texts = [_TIME.sub(_rounded, clean(str(term))) for term in only.terms]
    return [fit(text, _LONGEST) if width_of([(text, "")]) > _LONGEST else text for text in texts]


def _rounded(time: re.Match[str]) -> str:
    """A time that is no round one, as a box has them, is told in a few digits; the filter has all of them."""
    return f"~{duration(int(time[1]) * _NS[time[2]])}"


class Chips(Paper):
    """Shows the filter while there is one; a click takes a term away."""

    DEFAULT_CSS = """
    Chips.bar { display: none; }
    Chips.bar.-some { display: block; }
    """

    class Removed(Message):
        """Somebody wants to do without the term at `place`."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, ask: Callable[[], tuple[Filter, Counts | None]]) -> None:
        super().__init__(self._line, classes="bar chips", spots=self._places)
        self._ask = ask
        self._shown: Filter = EVERYTHING

    def redraw(self, *, layout: bool = False) -> None:
        """Come and go with the filter."""
        self.set_class(bool(self._ask()[0]), "-some")
        super().redraw(layout=layout)

    def _places(self) -> list[Spot]:
        """Every chip, to take it away."""
        edges = [(column, chip_at(self._shown, column)) for column in range(self.size.width)]
        firsts = {place: column for column, place in reversed(edges) if place is not None}
        return [Spot(x, 0, partial(self.post_message, self.Removed(place))) for place, x in firsts.items()]

    def _line(self, width: int, _height: int) -> list[Line]:
        self._shown, counts = self._ask()
        return [chip_line(self._shown, counts, width)]
