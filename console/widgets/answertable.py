"""The widget of an answer: scrolls a table of a million rows by writing out those that are seen."""

from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from console.keys import Scope
from console.screens.bindings import bindings
from console.widgets.density import dense
from console.widgets.grid import Grid
from console.widgets.ink import Line
from console.widgets.paper import Paper
from console.widgets.spots import Spot


class AnswerTable(Paper, can_focus=True):
    """`chosen` is the row that keys are about, `first` the leftmost column. Without a grid it shows nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.ANSWER)]

    class Opened(Message):
        """Somebody wants to see what the chosen row is about."""

    def __init__(self) -> None:
        super().__init__(self._page, id="answer", spots=self._rows)
        self.grid: Grid | None = None
        self.chosen = self.first = self._top = 0

    def show(self, grid: Grid | None) -> None:
        """Another answer, from its beginning."""
        self.grid, self.chosen, self.first, self._top = grid, 0, 0, 0
        self.redraw()

    def action_row(self, step: int) -> None:
        """Choose another row."""
        if self.grid is not None and len(self.grid):
            self.chosen = min(max(self.chosen + step, 0), len(self.grid) - 1)
            self.redraw()

    def action_page(self, pages: int) -> None:
        """A screenful on."""
        self.action_row(pages * max(self.size.height - len(self._heads(self.size.width)) - 1, 1))

    def action_ends(self, side: int) -> None:
        """The first row, or the last."""
        if self.grid is not None:
            self.action_row(side * len(self.grid))

    def action_column(self, step: int) -> None:
        """Other columns at the left edge."""
        if self.grid is not None:
            self.first = min(max(self.first + step, 0), max(len(self.grid.columns) - 1, 0))
            self.redraw()

    def action_open(self) -> None:
        """To what the row is about."""
        self.post_message(self.Opened())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows on."""
        event.stop()
        self.action_row(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows back."""
        event.stop()
        self.action_row(-3)

    def _heads(self, width: int) -> list[Line]:
        """Lines over the rows: names, and types where there is room for them."""
        heads = [] if self.grid is None else self.grid.heads(self.first, width)
        return dense(heads) if self.screen.has_class("-compact") else heads

    def _rows(self) -> list[Spot]:
        """A click on a row chooses it, and so does its letter."""
        above = len(self._heads(self.size.width))
        seen = 0 if self.grid is None else min(len(self.grid) - self._top, self.size.height - above)
        return [Spot(0, above + place, partial(self._choose, self._top + place)) for place in range(seen)]

    def _choose(self, row: int) -> None:
        self.focus()
        self.action_row(row - self.chosen)

    def _page(self, width: int, height: int) -> list[Line]:
        if self.grid is None:
            return []
        heads = self._heads(width)
        room = max(height - len(heads), 0)
        self._top = min(max(self._top, self.chosen - room + 1), self.chosen)
        rows = self.grid.lines(self._top, room, self.first, width, self.chosen)
        return [*heads, *rows]
