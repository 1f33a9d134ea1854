"""What lies over the cells of a row on a time axis: the playhead, and the stretch that is selected."""

from dataclasses import dataclass
from typing import Final

from console import theme
from console.timeline import Window
from console.widgets.ink import Line, Piece, runs

_SOLID: Final = frozenset("█▓▒░")
_CROSSED: Final = {"━": "┿", "┄": "┼"}


def column_of(t: int, window: Window, width: int) -> int | None:
    """Where an instant is drawn; the window's end is in its last column, so that the end of a run can be pointed at."""
    if t == window.end:
        return width - 1 if width else None
    column = window.column(t, width)
    return column if 0 <= column < width else None


@dataclass(frozen=True, slots=True)
class Overlay:
    """The column of the playhead, and the columns of the selected stretch."""

    head: int | None = None
    stretch: range = range(0)

    def over(self, cells: list[Piece]) -> Line:
        """Cells with both over them; a solid cell lends the playhead its colour as ground, a line is crossed."""
        for column in self.stretch:
            glyph, style = cells[column]
            cells[column] = (glyph, style if " on." in style else f"{style} on.line")
        if self.head is not None and 0 <= self.head < len(cells):
            cells[self.head] = _crossed(*cells[self.head])
        return runs(cells)


def _crossed(glyph: str, style: str) -> Piece:
    colour = style.partition(" ")[0]
    if glyph in _SOLID and colour in theme.COLOURS:
        return theme.PLAYHEAD.glyph, f"background on.{colour}"
    kept = next((f" {word}" for word in style.split() if word.startswith("on.")), "")
    return _CROSSED.get(glyph, theme.PLAYHEAD.glyph), theme.PLAYHEAD.style + kept
