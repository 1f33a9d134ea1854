"""Jump mode: a letter on everything that one can go to."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from console.widgets.spots import Spot, labels


class JumpScreen(ModalScreen[Spot | None]):
    """Shows the letters over the screen that it was called from; what is typed picks one, any other key none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]
    CSS = """
    JumpScreen { background: transparent; }
    JumpScreen Static {
        position: absolute; width: auto; height: 1; background: $warning; color: $background; text-style: bold;
    }
    """

    def __init__(self, spots: Sequence[Spot]) -> None:
        super().__init__()
        self._spots = dict(zip(labels(len(spots)), spots, strict=True))
        self._typed = ""

    def compose(self) -> ComposeResult:
        """A label a spot."""
        for word, spot in self._spots.items():
            label = Static(word, markup=False)
            label.styles.offset = (spot.x, spot.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        """Narrow down; the last letter goes there."""
        event.stop()
        self._typed += event.character or "\0"
        if self._typed in self._spots:
            self.dismiss(self._spots[self._typed])
        elif not any(word.startswith(self._typed) for word in self._spots):
            self.dismiss(None)
