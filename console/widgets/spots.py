"""Places on a screen that one can jump to by a letter, and the letters. Knows Textual's widgets, and no screen."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Protocol, runtime_checkable

from textual.errors import NoWidget
from textual.widget import Widget

_LETTERS: Final = "asdfghjklqwertyuiopzxcvbnm"
"""Those under resting fingers first."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A cell of a widget, and what going there does."""

    x: int
    y: int
    go: Callable[[], object]


@runtime_checkable
class Jumpable(Protocol):
    """A widget that has places to jump to."""

    def spots(self) -> Sequence[Spot]:
        """Those that are drawn now, in cells of the widget."""
        ...


def labels(count: int) -> list[str]:
    """So many words of letters, all of one length, so that none begins another."""
    length = 1
    while len(_LETTERS) ** length < count:
        length += 1
    words = ("".join(letters) for letters in product(_LETTERS, repeat=length))
    return [word for word, _ in zip(words, range(count), strict=False)]


def spots_on(screen: Widget) -> list[Spot]:
    """Every place that can be seen, from the top left on, in cells of the screen."""
    found = (spot for widget in screen.walk_children(Widget) if widget.display for spot in _seen(widget))
    return sorted(found, key=lambda spot: (spot.y, spot.x))


def _seen(widget: Widget) -> Iterator[Spot]:
    if not isinstance(widget, Jumpable):
        return
    try:
        sight = widget.screen.find_widget(widget).visible_region
    except NoWidget:  # inside something that is not displayed
        return
    for spot in widget.spots():
        x, y = widget.content_region.x + spot.x, widget.content_region.y + spot.y
        if sight.contains(x, y):
            yield Spot(x, y, spot.go)
