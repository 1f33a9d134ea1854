"""The line that asks where the playhead should go."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from console.seeking import HELP


class SeekLine(Input):
    """Shown while it has the focus; what was typed comes as `Input.Submitted`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close", show=False)]
    DEFAULT_CSS = """
    SeekLine { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    SeekLine.-open { display: block; }
    """

    class Left(Message):
        """Nobody wants to go anywhere."""

    def __init__(self) -> None:
        super().__init__(placeholder=f"go to: {HELP}", compact=True)

    def open(self) -> None:
        """Ask."""
        self.value = ""
        self.add_class("-open")
        self.focus()

    def close(self) -> None:
        """Stop asking."""
        self.remove_class("-open")

    def action_leave(self) -> None:
        """Never mind."""
        self.post_message(self.Left())
