"""The console: which runs are on the shelf, which screen shows them. Screens and widgets do the rest."""

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.traceback import Traceback
from textual.app import App
from textual.filter import LineFilter, NoColor
from textual.screen import Screen
from textual.theme import Theme

from console.asking import Asker, busy, wait_until_quiet
from console.book import Book
from console.filter import EVERYTHING, Filter
from console.filter_language import parse_filter
from console.remembering import Memory, Preferences, Remembered
from console.screentable import SCREENS, Place
from console.theme import COLOURS
from recorder.errors import UserError

if TYPE_CHECKING:
    from textual.command import Provider

    from console.watching import Watch

Start = str
_LOOK_S: Final = 1.0
"""Seconds between looks at a run that is watched."""


def _screen(place: Place) -> Callable[[], Screen[None]]:
    """Makes the screen of a row of the table; its module is imported only then."""

    def make() -> Screen[None]:
        module, _, name = place.shown_by.partition(":")
        made: Screen[None] = getattr(importlib.import_module(f"console.screens.{module}"), name)()
        return made

    return make


def _palette() -> "type[Provider]":
    from console.screens.palette import TableCommands

    return TableCommands


class Tailtrace(App[None]):
    """Shows runs. `books` are the runs of the command line, `place` the chosen one; `slo_ns` is what counts as slow.

    With a `watch` the last of them is still recorded, and the screens move with it. `only` is the filter to begin
    with; None: the one that the first run was left with.
    """

    TITLE = "tailtrace"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {place.name: _screen(place) for place in SCREENS}
    COMMANDS: ClassVar[set["type[Provider] | Callable[[], type[Provider]]"]] = {_palette}
    CSS = """
    Screen { background: $background; color: $foreground; }
    """

    def __init__(
        self,
        books: Sequence[Book],
        start: Start = "overview",
        slo_ns: int | None = None,
        watch: "Watch | None" = None,
        only: Filter | None = None,
    ) -> None:
        super().__init__()
        self.only = EVERYTHING if only is None else only
        self.memory = Memory()
        self.books = list(books)
        self.place = 0
        self.slo_ns = slo_ns
        self.watch_live = watch
        self.wanted_t: int | None = None
        self.compact = False
        self._start, self._recall_filter = start, only is None
        self._askers: list[Asker] = []
        for theme in (_theme(dark=True), _theme(dark=False)):
            self.register_theme(theme)
        self.theme = "tailtrace-dark"

    @property
    def book(self) -> Book:
        """The chosen run."""
        return self.books[self.place]

    @property
    def chosen(self) -> int | None:
        """Number of the request that the screens tell of, in the chosen run; None until one is chosen."""
        return self.book.chosen

    @chosen.setter
    def chosen(self, rid: int | None) -> None:
        self.book.chosen = rid

    async def on_mount(self) -> None:
        """Begin with the screen that was asked for, and with what is remembered of the runs."""
        for book in self.books:
            self.recall(book)
        self._recall_preferences()
        await self.switch_mode(self._start)
        if self.watch_live is not None:
            self.set_interval(_LOOK_S, self.look)

    def look(self) -> None:
        """See how a watched run stands. Whoever still waits for an answer is not asked again."""
        from console.screens.base import RunScreen

        watch, screen = self.watch_live, self.screen
        if watch is None or not isinstance(screen, RunScreen):
            return
        if watch.run != self.books[-1].path:
            self.books.append(Book(watch.run))
            self.recall(self.books[-1])
            self.place = len(self.books) - 1
            watch.begin()
            screen.refresh_run()
        elif self.place == len(self.books) - 1 and not busy() and watch.due():
            screen.reload_run()
        screen.redraw_bars()

    def action_live(self) -> None:
        """Back to the newest records of a watched run."""
        from console.screens.base import RunScreen

        if self.watch_live is not None and isinstance(self.screen, RunScreen):
            self.watch_live.come_back()
            self.screen.to_the_edge()
            self.look()

    def recall(self, book: Book) -> None:
        """What is remembered of a run: its marks, and the filter that the first one was left with."""
        try:
            remembered = self.memory.recall(book.info)
            book.marks = remembered.marks
            if self._recall_filter and book is self.books[0]:
                self.only = parse_filter(remembered.filter)
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    def _recall_preferences(self) -> None:
        """How somebody likes the console."""
        try:
            self.compact = self.memory.preferences().compact
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    def remember(self, book: Book) -> None:
        """Keep what somebody marked and looked at for the next time."""
        try:
            self.memory.keep(book.info, Remembered(filter=str(self.only), marks=book.marks))
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    def look_at(self, only: Filter) -> None:
        """Put every screen under another filter."""
        from console.screens.base import RunScreen

        if only == self.only:
            return
        self.only = only
        self.remember(self.book)
        if isinstance(self.screen, RunScreen):
            self.screen.refresh_run()

    def action_marks(self) -> None:
        """List the marks of the chosen run."""
        from console.screens.marks import MarksScreen

        book = self.book
        zero = book.lanes.window.low if book.lanes is not None else 0
        self.push_screen(MarksScreen(book, zero, lambda: self.remember(book)), self._jump)

    async def _jump(self, at: int | None) -> None:
        if at is not None:
            self.wanted_t = at
            await self.switch_mode("timeline")

    def new_asker(self) -> Asker:
        """One more line of questions, known to `leave`."""
        self._askers.append(Asker())
        return self._askers[-1]

    def leave(self, timeout_s: float) -> bool:
        """Interrupt every question, and wait for their threads; False when one still works after `timeout_s`."""
        for asker in self._askers:
            asker.supersede()
        return wait_until_quiet(timeout_s)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With NO_COLOR set, no colour at all: Textual alone would still send greys."""
        return [*super().get_line_filters(), *([NoColor()] if self.no_color else [])]

    def _fatal_error(self) -> None:
        """Say what went wrong without the values of every variable: thousands of lines of them help nobody."""
        self.panic(Traceback(show_locals=False, max_frames=12))

    async def action_show(self, screen: str) -> None:
        """Turn to a screen."""
        await self.switch_mode(screen)

    def action_next_run(self, step: int) -> None:
        """Choose another run of the shelf."""
        from console.screens.base import RunScreen

        self.place = (self.place + step) % len(self.books)
        if isinstance(self.screen, RunScreen):
            self.screen.refresh_run()

    def action_reload(self) -> None:
        """Read the chosen run again."""
        from console.screens.base import RunScreen

        if isinstance(self.screen, RunScreen):
            self.screen.reload_run()

    def action_toggle_theme(self) -> None:
        """Dark to light, and back."""
        self.theme = "tailtrace-light" if self.current_theme.dark else "tailtrace-dark"

    def action_toggle_compact(self) -> None:
        """More on a small screen, or room to breathe; on all screens, and the next time too."""
        from console.screens.base import RunScreen

        self.compact = not self.compact
        if isinstance(self.screen, RunScreen):
            self.screen.fit_density()
        try:
            self.memory.prefer(Preferences(compact=self.compact))
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    def action_help(self) -> None:
        """Show every key."""
        from console.screens.base import RunScreen
        from console.screens.help import HelpScreen

        if isinstance(self.screen, RunScreen):
            self.push_screen(HelpScreen(self.screen.scopes()))


def _theme(*, dark: bool) -> Theme:
    """The palette of `console.theme` for Textual's own widgets."""
    colour = {name: pair[0 if dark else 1] for name, pair in COLOURS.items()}
    return Theme(
        name="tailtrace-dark" if dark else "tailtrace-light",
        dark=dark,
        primary=colour["accent"],
        secondary=colour["phase.return"],
        accent=colour["accent"],
        warning=colour["warn"],
        error=colour["bad"],
        success=colour["good"],
        foreground=colour["text"],
        background=colour["background"],
        surface=colour["surface"],
        panel=colour["cursor"],
        variables={"scrollbar": colour["line"], "scrollbar-background": colour["background"]},
    )
