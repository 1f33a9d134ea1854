"""Every key, read from the key table."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from console.keys import Key, Scope, keys_of
from console.theme import CAUSES, PHASES, STATUSES, STEPS, Look
from console.widgets.ink import Line, fit, rule
from console.widgets.paper import Paper

_KEY_WIDTH: Final = 10
_TITLE_WIDTH: Final = 22


class HelpScreen(ModalScreen[None]):
    """Keys of the screen it was called from first, then all others, then what the glyphs mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "Close", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]
    CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen VerticalScroll {
        width: 88; max-width: 100%; height: auto; max-height: 100%;
        background: $surface; padding: 0 2; scrollbar-size-vertical: 1;
    }
    HelpScreen Paper { height: auto; }
    """

    def __init__(self, scopes: Sequence[Scope], table: Sequence[Key]) -> None:
        super().__init__()
        self._scopes = scopes
        self._table = table

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with VerticalScroll():
            yield Paper(self._draw)

    def action_scroll(self, lines: int) -> None:
        """Move the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _draw(self, width: int, _height: int) -> list[Line]:
        order = [*self._scopes, Scope.EVERYWHERE]
        order += [scope for scope in Scope if scope not in order]
        lines: list[Line] = [[]]
        for scope in order:
            lines += [
                rule(scope.value, width),
                *(_key_line(key) for key in keys_of(scope, table=self._table)),
                [],
            ]
        for title, looks in (("Phases", PHASES), ("Passes", STEPS), ("States", STATUSES), ("Causes", CAUSES)):
            lines += [rule(title, width), *_glyphs(looks, width), []]
        return [*lines, [("esc closes", "muted")], []]


def _key_line(key: Key) -> Line:
    return [(fit(key.shown, _KEY_WIDTH), "accent"), (fit(key.title, _TITLE_WIDTH), "text"), (key.help, "muted")]


def _glyphs(looks: dict[str, Look], width: int) -> list[Line]:
    """Glyph and name, in columns."""
    room = max(len(name) for name in looks) + 4
    across = max(width // room, 1)
    entries: list[Line] = [
        [(f"{look.glyph} ", look.style), (fit(name, room - 2), "text")] for name, look in looks.items()
    ]
    return [
        [piece for entry in entries[first : first + across] for piece in entry]
        for first in range(0, len(entries), across)
    ]
