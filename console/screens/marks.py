"""The marks of a run: a list to jump from."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from console.book import Book
from console.keys import Scope, keys_of
from console.marks import Mark, without_mark
from console.screens.bindings import bindings
from console.widgets.ink import Line, clean, crop, fit, instant, pad, rule
from console.widgets.paper import Paper

_TIME: Final = 14


class MarksScreen(ModalScreen[int | None]):
    """Gives the instant to go to, or None. `zero` is the beginning of the run; `changed` is told of a removal."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.MARKS)]
    CSS = """
    MarksScreen { align: center middle; background: $background 60%; }
    MarksScreen VerticalScroll {
        width: 64; max-width: 100%; height: auto; max-height: 100%;
        background: $surface; padding: 1 2; scrollbar-size-vertical: 1;
    }
    MarksScreen Paper { height: auto; }
    """

    def __init__(self, book: Book, zero: int, changed: Callable[[], None]) -> None:
        super().__init__()
        self._book, self._zero, self._changed = book, zero, changed
        self._selected = 0

    def compose(self) -> ComposeResult:
        """The list."""
        with VerticalScroll(can_focus=False):
            yield Paper(self._draw)

    def action_mark(self, step: int) -> None:
        """Select another one."""
        self._selected = min(max(self._selected + step, 0), max(len(self._book.marks) - 1, 0))
        self.query_one(VerticalScroll).scroll_to(y=max(self._selected - 4, 0), animate=False)
        self.query_one(Paper).redraw()

    def action_jump(self) -> None:
        """Go to the selected one."""
        mark = self._mark()
        self.dismiss(None if mark is None else mark.at)

    def action_remove(self) -> None:
        """Do without the selected one."""
        mark = self._mark()
        if mark is not None:
            self._book.marks = without_mark(self._book.marks, mark.at)
            self._changed()
            self.action_mark(0)
            self.query_one(Paper).redraw(layout=True)

    def action_close(self) -> None:
        """Stay."""
        self.dismiss(None)

    def _mark(self) -> Mark | None:
        marks = self._book.marks
        return marks[self._selected] if self._selected < len(marks) else None

    def _draw(self, width: int, _height: int) -> list[Line]:
        marks = self._book.marks
        lines = [rule("Marks", width, f"{len(marks)} in this run"), []]
        if not marks:
            lines += [[("none yet: m on the timeline marks where the playhead stands", "muted")]]
        for place, mark in enumerate(marks):
            ground = " on.cursor" if place == self._selected else ""
            line: Line = [
                ("▸ " if ground else "  ", f"accent bold{ground}"),
                (fit(instant(mark.at - self._zero, 1), _TIME, "right") + "  ", f"muted{ground}"),
                (clean(mark.label), f"strong{ground}"),
            ]
            lines.append(pad(line, width, f"text{ground}"))
        words = [piece for key in keys_of(Scope.MARKS) if key.label for piece in _words(key.shown, key.label)]
        return [*lines, [], crop(words, width)]


def _words(shown: str, label: str) -> Line:
    return [(shown, "accent"), (f" {label}  ", "muted")]
