"""The console: which runs are on the shelf, which screen shows them. Screens and widgets do the rest."""

import asyncio
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
from console.keymap import Keymap, textual_keymap, with_keymap
from console.leaving import leave_when_told
from console.remembering import Memory, Preferences, Remembered
from console.screens.base import RunScreen
from console.screentable import SCREENS, Place
from console.theme import SCHEMES, Scheme, colours_of
from console.watching import Pace
from recorder.errors import UserError

if TYPE_CHECKING:
    from textual.command import Provider

    from console.budget import Budget
    from console.watching import Watch

Start = str
_LOOK_S: Final = 1.0
"""Seconds between looks at a run that is watched."""


def screen_class(place: Place) -> type[RunScreen]:
    """The class that shows a row of the table of screens."""
    module, _, name = place.shown_by.partition(":")
    found: type[RunScreen] = getattr(importlib.import_module(f"console.screens.{module}"), name)
    return found


def _screen(place: Place) -> Callable[[], Screen[None]]:
    """Makes a screen; its module is imported only when somebody goes there for the first time."""

    def make() -> Screen[None]:
        return screen_class(place)()

    return make


def _palette() -> "type[Provider]":
    from console.screens.palette import TableCommands

    return TableCommands


class Tailtrace(App[None]):
    """Shows runs. `books` are the runs of the command line, `place` the chosen one; `slo_ns` is what counts as slow.

    With a `watch` the last of them is still recorded, and the screens move with it. `only` is the filter to begin
    with; None: the one that the first run was left with. `budget` is what runs are held against,
    `keymap` the user's own keys.
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
        *,
        budget: "Budget | None" = None,
        keymap: Keymap | None = None,
    ) -> None:
        super().__init__()
        self.keys = with_keymap(keymap or {})
        self.set_keymap(textual_keymap(keymap or {}))
        self.only = EVERYTHING if only is None else only
        self.memory = Memory()
        self.books = list(books)
        self.place = 0
        self.slo_ns = slo_ns
        self.budget = budget
        self.watch_live = watch
        self.wanted_t: int | None = None
        self.wanted_at: str | None = None
        """A place in words (`console.seeking`) that the timeline is to show."""
        self.compact = False
        self._start, self._recall_filter = start, only is None
        self._askers: list[Asker] = []
        self._progress: float | None = None
        self._pace = Pace()
        for scheme in SCHEMES:
            self.register_theme(_theme(scheme))
        self.theme = SCHEMES[0].name

    @property
    def book(self) -> Book:
        """The chosen run."""
        return self.books[self.place]

    @property
    def in_front(self) -> RunScreen | None:
        """The screen of a run that is shown; None while something else lies over it."""
        return self.screen if isinstance(self.screen, RunScreen) else None

    @property
    def chosen(self) -> int | None:
        """Number of the request that the screens tell of, in the chosen run; None until one is chosen."""
        return self.book.chosen

    @chosen.setter
    def chosen(self, rid: int | None) -> None:
        self.book.chosen = rid

    async def on_mount(self) -> None:
        """Begin with the screen that was asked for, and with what is remembered of the runs."""
        leave_when_told(asyncio.get_running_loop(), lambda code: self.exit(return_code=code))
        for book in self.books:
            self.recall(book)
        self._recall_preferences()
        await self.switch_mode(self._start)
        self.set_interval(_LOOK_S, self.tell_progress)
        if self.watch_live is not None:
            self.set_interval(_LOOK_S, self.look)

    def tell_progress(self) -> None:
        """Say how far something is that takes long, and that it is over."""
        before, self._progress = self._progress, self.book.progress
        if before != self._progress and self.in_front is not None:
            self.in_front.redraw_bars()

    def look(self) -> None:
        """See how a watched run stands. Whoever still waits for an answer is not asked again."""
        watch, screen = self.watch_live, self.in_front
        if watch is None or screen is None:
            return
        if watch.run != self.books[-1].path:
            self.books.append(Book(watch.run))
            self.recall(self.books[-1])
            self.place = len(self.books) - 1
            watch.begin()
            screen.refresh_run()
        elif self.place == len(self.books) - 1 and self._pace.ready(busy=busy(self.book.waiting)) and watch.due():
            screen.reload_run()
        if watch.has_ended():
            screen.ask_health()
        screen.redraw_bars()

    def action_live(self) -> None:
        """Back to the newest records of a watched run."""
        if self.watch_live is not None and self.in_front is not None:
            self.watch_live.come_back()
            self._pace.hurry()
            self.in_front.to_the_edge()
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
            liked = self.memory.preferences()
            self.compact = liked.compact
            self.theme = liked.theme if liked.theme in {scheme.name for scheme in SCHEMES} else SCHEMES[0].name
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
        if only == self.only:
            return
        self.only = only
        self.remember(self.book)
        if self.in_front is not None:
            self.in_front.refresh_run()

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
        """With NO_COLOR set, or where somebody wants it so, no colour at all: Textual alone would still send greys."""
        plain = self.no_color or not self.scheme.coloured
        return [*super().get_line_filters(), *([NoColor()] if plain else [])]

    def _fatal_error(self) -> None:
        """Say what went wrong without the values of every variable: thousands of lines of them help nobody."""
        self.panic(Traceback(show_locals=False, max_frames=12))

    async def action_show(self, screen: str) -> None:
        """Turn to a screen."""
        await self.switch_mode(screen)

    def action_next_run(self, step: int) -> None:
        """Choose another run of the shelf."""
        self.place = (self.place + step) % len(self.books)
        if self.in_front is not None:
            self.in_front.refresh_run()

    def action_reload(self) -> None:
        """Read the chosen run again."""
        if self.in_front is not None:
            self.in_front.reload_run()

    def action_next_theme(self) -> None:
        """The next theme, now and the next time too."""
        scheme = SCHEMES[(SCHEMES.index(self.scheme) + 1) % len(SCHEMES)]
        self.theme = scheme.name
        self.notify(scheme.title, markup=False, timeout=2)
        self._prefer()

    @property
    def scheme(self) -> Scheme:
        """The theme in the words of `console.theme`."""
        return next(scheme for scheme in SCHEMES if scheme.name == self.theme)

    def action_toggle_compact(self) -> None:
        """More on a small screen, or room to breathe; on all screens, and the next time too."""
        self.compact = not self.compact
        if self.in_front is not None:
            self.in_front.fit_density()
        self._prefer()

    def _prefer(self) -> None:
        """Keep how the console is liked."""
        try:
            self.memory.prefer(Preferences(compact=self.compact, theme=self.theme))
        except UserError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=10)

    def action_help(self) -> None:
        """Show every key."""
        from console.screens.help import HelpScreen

        if self.in_front is not None:
            self.push_screen(HelpScreen(self.in_front.scopes(), self.keys))


def _theme(scheme: Scheme) -> Theme:
    """The colours of `console.theme` for Textual's own widgets."""
    colour = colours_of(scheme)
    return Theme(
        name=scheme.name,
        dark=scheme.dark,
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
