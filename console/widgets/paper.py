"""A widget that shows lines of ink through Textual's line API: no markup is parsed, whatever the data says."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from console.theme import Scheme, resolve
from console.widgets.ink import Line
from console.widgets.spots import Spot


class Coloured(Protocol):
    """The application as a paper sees it."""

    @property
    def scheme(self) -> Scheme:
        """The colours that are chosen."""
        ...


Draw = Callable[[int, int], Sequence[Line]]
"""Width and height in cells -> lines; a height of 0 asks for all lines there are."""


@lru_cache(maxsize=2048)
def rich_style(style: str, dark: bool, safe: bool = False) -> Style:
    """The style of `console.theme` in Rich's words."""
    ink = resolve(style, dark, safe)
    return Style(
        color=ink.foreground,
        bgcolor=ink.background,
        bold=ink.bold or None,
        reverse=ink.reverse or None,
        underline=ink.underline or None,
        italic=ink.italic or None,
    )


def strip_of(line: Line, width: int, scheme: Scheme, base: Style) -> Strip:
    """One line as a strip of exactly `width` cells over the widget's own style."""
    segments = [Segment(text, base + rich_style(style, scheme.dark, scheme.safe)) for text, style in line if text]
    return Strip(segments).adjust_cell_length(width, base)


class Paper(Widget):
    """Shows what `draw` gives for its size. `redraw` asks again; a frame is drawn once, not once per line.

    `spots` are the places of it that one can go to, by a click or by a letter.
    """

    DEFAULT_CSS = """
    Paper { width: 1fr; height: 1fr; }
    Paper.bar { height: 1; }
    Paper.status { background: $surface; }
    """

    def __init__(
        self,
        draw: Draw,
        *,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
        spots: Callable[[], Sequence[Spot]] | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw
        self._spots = spots
        self._drawn: Sequence[Line] = ()
        self._drawn_for: tuple[int, int] | None = None

    def redraw(self, *, layout: bool = False) -> None:
        """Draw again at the next refresh; with `layout` where the number of lines may have changed."""
        self._drawn_for = None
        self.refresh(layout=layout)

    def spots(self) -> Sequence[Spot]:
        """Where one can jump to on this paper; a click there is as good."""
        return self._spots() if self._spots is not None else ()

    def on_click(self, event: events.Click) -> None:
        """The nearest spot to the left in that line."""
        at = event.get_content_offset(self)
        spots = self._spots() if self._spots is not None and at is not None else ()
        here = [spot for spot in spots if at is not None and spot.y == at.y and spot.x <= at.x]
        if here:
            self.call_later(max(here, key=lambda spot: spot.x).go)

    def render_line(self, y: int) -> Strip:
        """Line `y` of the drawing."""
        lines = self._lines(self.size.width, self.size.height)
        base = self.visual_style.rich_style
        line = lines[y] if y < len(lines) else []
        return strip_of(line, self.size.width, cast("Coloured", self.app).scheme, base)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as what there is to say, where the height is `auto`."""
        return len(self._draw(width, 0))

    def notify_style_update(self) -> None:
        """Another theme has other colours."""
        super().notify_style_update()
        self._drawn_for = None

    def _lines(self, width: int, height: int) -> Sequence[Line]:
        if self._drawn_for != (width, height):
            self._drawn, self._drawn_for = self._draw(width, height), (width, height)
        return self._drawn
