"""The one question of an export: in which format."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen

from console.keys import Scope, keys_of
from console.screens.bindings import bindings
from console.widgets.ink import Line, crop
from console.widgets.paper import Paper


class ExportScreen(ModalScreen[str | None]):
    """One line over the screen that is exported. Gives the format, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EXPORT)]
    CSS = """
    ExportScreen { align: left bottom; background: $background 0%; }
    ExportScreen Paper { height: 1; background: $panel; }
    """

    def compose(self) -> ComposeResult:
        """The formats."""
        yield Paper(self._line)

    def action_form(self, form: str) -> None:
        """This one."""
        self.dismiss(form)

    def action_close(self) -> None:
        """None of them."""
        self.dismiss(None)

    def _line(self, width: int, _height: int) -> list[Line]:
        line: Line = [(" export what is shown  ", "strong")]
        for key in keys_of(Scope.EXPORT):
            line += [(key.shown, "accent bold"), (f" {key.label}  ", "text")]
        return [crop(line, width)]
