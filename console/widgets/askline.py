"""A line at the bottom that asks for a few words: where to go, what to call a mark."""

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from console.keys import Scope
from console.screens.bindings import bindings


class AskLine(Input):
    """Shown while it has the focus; what was typed comes as `Input.Submitted` with the line's id."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.ASKED)]
    DEFAULT_CSS = """
    AskLine { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    AskLine.-open { display: block; }
    """

    class Left(Message):
        """Nobody wants to answer."""

    def __init__(self, placeholder: str, id: str) -> None:  # noqa: A002  # Textual's word
        super().__init__(placeholder=placeholder, compact=True, id=id)

    def open(self, value: str = "") -> None:
        """Ask."""
        self.value = value
        self.cursor_position = len(value)
        self.add_class("-open")
        self.focus()

    def close(self) -> None:
        """Stop asking."""
        self.remove_class("-open")

    def action_leave(self) -> None:
        """Never mind."""
        self.post_message(self.Left())
