"""The lines at the bottom in which a filter is typed, with what may come next and what is wrong with it."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from console.filter import Filter
from console.filter_language import HELP, FilterError, Names, complete, parse_filter
from console.keys import Scope
from console.screens.bindings import bindings
from console.widgets.ink import Line, clean, crop, width_of
from console.widgets.paper import Paper

_LABEL: Final = " filter "


class FilterInput(Input):
    """Tab takes the first of what may come next."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.FILTER)]

    def action_leave(self) -> None:
        """Never mind."""
        self.post_message(FilterLine.Left())

    def action_take(self) -> None:
        """Complete what was typed."""
        self.post_message(FilterLine.Taken())


class FilterLine(Vertical):
    """Shown while it has the focus. A good filter comes as `Given`; a bad one keeps the line open and is explained."""

    DEFAULT_CSS = """
    FilterLine { display: none; height: 2; }
    FilterLine.-open { display: block; }
    FilterLine Paper { height: 1; background: $surface; }
    FilterLine FilterInput { height: 1; border: none; padding: 0 1; background: $panel; }
    """

    class Given(Message):
        """Look at these only."""

        def __init__(self, only: Filter) -> None:
            super().__init__()
            self.only = only

    class Left(Message):
        """The filter stays what it was."""

    class Taken(Message):
        """Tab was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self._names: Names = {}
        self._wrong = ""

    def compose(self) -> ComposeResult:
        """A hint over the words."""
        yield Paper(self._hint)
        words = "every request; type what to look at, enter"
        yield FilterInput(placeholder=words, compact=True, select_on_focus=False)

    @property
    def _input(self) -> FilterInput:
        return self.query_one(FilterInput)

    def open(self, only: Filter) -> None:
        """Ask, beginning with what holds now."""
        self._wrong = ""
        self._input.value = f"{only} " if only else ""
        self._input.cursor_position = len(self._input.value)
        self.add_class("-open")
        self._input.focus()
        self.query_one(Paper).redraw()

    def know(self, names: Names) -> None:
        """The words of this run."""
        self._names = names
        self.query_one(Paper).redraw()

    def close(self) -> None:
        """Stop asking."""
        self.remove_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another hint."""
        event.stop()
        self._wrong = ""
        self.query_one(Paper).redraw()

    def on_filter_line_taken(self, message: Taken) -> None:
        """Go on with the first of what may come next."""
        message.stop()
        endings = complete(self._input.value, self._names)
        if endings:
            self._input.value = endings[0]
            self._input.cursor_position = len(endings[0])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the filter, or say what is wrong."""
        event.stop()
        try:
            only = parse_filter(event.value)
        except FilterError as error:
            self._wrong = str(error)
            self.query_one(Paper).redraw()
        else:
            self.post_message(self.Given(only))

    def _hint(self, width: int, _height: int) -> list[Line]:
        return [hint_line(self._input.value, self._names, self._wrong, width)]


def hint_line(text: str, names: Names, wrong: str, width: int) -> Line:
    """What is wrong, or how the last word may go on, or what there is to type."""
    head: Line = [(_LABEL, "accent bold")]
    if wrong:
        return crop([*head, (clean(wrong), "bad")], width)
    endings = [ending.rpartition(" ")[2] if '"' not in ending else ending for ending in complete(text, names)]
    if not endings:
        return crop([*head, (HELP, "muted")], width)
    line: Line = [*head, ("tab ", "accent"), (clean(endings[0]), "strong")]
    for ending in endings[1:]:
        piece = f"  {clean(ending)}"
        if width_of(line) + width_of([(piece, "")]) > width:
            break
        line.append((piece, "muted"))
    return crop(line, width)
