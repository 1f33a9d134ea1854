"""What all screens of a run have in common: the frame around them, and how they ask without blocking."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from console.asking import Asker, Question, Superseded
from console.book import Book, Health, read_health, read_names
from console.exporting import Shown, save
from console.filter import Filter
from console.keys import Key, Scope, footer_keys, keys_of
from console.screens.bindings import bindings
from console.session import Session
from console.widgets.askline import AskLine
from console.widgets.chips import Chips, Counts
from console.widgets.chrome import foot_line, key_bar, status_line, titles_at, top_bar
from console.widgets.density import dense
from console.widgets.filterline import FilterInput, FilterLine
from console.widgets.ink import Line
from console.widgets.paper import Paper
from console.widgets.spots import Spot, spots_on
from recorder.errors import UserError

if TYPE_CHECKING:
    import duckdb

    from console.app import Tailtrace

T = TypeVar("T")


class Answered(Message):
    """An answer from a thread. `arrive` runs in the screen, or raises there what went wrong in the thread."""

    def __init__(self, asker: Asker, generation: int, arrive: Callable[[], None]) -> None:
        super().__init__()
        self.asker = asker
        self.generation = generation
        self.arrive = arrive

    def can_replace(self, message: Message) -> bool:
        """A newer answer on the same line of questions makes an older one that still waits superfluous."""
        if not isinstance(message, Answered):
            return False
        return message.asker is self.asker and message.generation >= self.generation


class RunScreen(Screen[None]):
    """A screen about the run that is chosen. Subclasses say what is between the bars, and what happens on `turn`."""

    SCOPE: ClassVar[Scope] = Scope.EVERYWHERE
    NAME: ClassVar[str] = ""
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EVERYWHERE)]
    WIDE: ClassVar[int] = 130
    """From this width on a screen has the class `-wide`."""
    DEFAULT_CSS = """
    RunScreen VerticalScroll {
        height: 1fr; padding: 1 1 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    RunScreen VerticalScroll Paper { height: auto; }
    RunScreen #stage { height: 1fr; layout: vertical; }
    RunScreen.-wide #stage { layout: horizontal; }
    RunScreen #stage .first { height: 2fr; padding: 1 1 0 1; }
    RunScreen #stage .second { height: 1fr; padding: 0 1; }
    RunScreen.-wide #stage .first { height: 1fr; width: 3fr; }
    RunScreen.-wide #stage .second { height: 1fr; width: 2fr; padding: 1 1 0 2; }
    RunScreen.-compact VerticalScroll, RunScreen.-compact #stage .first { padding: 0 1; }
    RunScreen.-compact.-wide #stage .second { padding: 0 1 0 2; }
    RunScreen.-compact .status { display: none; }
    """
    # Textual declares it so that it is no class variable to mypy.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._askers: dict[str, Asker] = {}
        self._shown: tuple[Book, int, Filter] | None = None
        self._counts: Counts | None = None

    @property
    def tailtrace(self) -> "Tailtrace":
        """The application, with its own type."""
        return cast("Tailtrace", self.app)

    @property
    def book(self) -> Book:
        """The run that is chosen."""
        return self.tailtrace.book

    @property
    def only(self) -> Filter:
        """The filter that all numbers are under."""
        return self.tailtrace.only

    def on_screen(self) -> tuple[Book, ...]:
        """The runs that are shown."""
        return (self.book,)

    def body(self) -> ComposeResult:
        """The widgets between the bars."""
        raise NotImplementedError

    def turn(self) -> None:
        """The chosen run or the filter is another one, or the run has been read again: fetch and show it."""
        raise NotImplementedError

    def shown(self) -> Shown | None:
        """What is on screen, for a file; None while there is nothing yet."""
        raise NotImplementedError

    def copied(self) -> tuple[str, str] | None:
        """What is on screen or selected, for the clipboard, and what that is called; None while there is nothing."""
        raise NotImplementedError

    def give_focus_back(self) -> None:
        """A line that asked something has been closed."""
        self.set_focus(None)

    def note(self) -> Line:
        """What this screen adds at the right end of the status line."""
        return []

    def to_the_edge(self) -> None:
        """Show the newest records of a watched run, where the screen has a place in time."""

    def heading(self) -> str:
        """What the top bar calls that which is shown."""
        return self.book.name

    def scopes(self) -> tuple[Scope, ...]:
        """Whose keys count now."""
        return (self.SCOPE,)

    def compose(self) -> ComposeResult:
        """Bars around the body."""
        yield Paper(self._top, classes="bar top", spots=self._screens)
        yield Chips(lambda: (self.only, self._counts))
        yield from self.body()
        yield FilterLine()
        yield Paper(self._status, classes="bar status")
        yield Paper(self._keys, classes="bar keys")

    def on_mount(self) -> None:
        """Show the run."""
        self.refresh_run()

    def on_screen_resume(self) -> None:
        """Another screen may have changed the run meanwhile, or how dense the screens are."""
        self.fit_density()
        if self._shown is not None:
            self.refresh_run()

    def on_unmount(self) -> None:
        """Nobody waits for answers any more."""
        for asker in self._askers.values():
            asker.supersede()

    def refresh_run(self) -> None:
        """Turn to the chosen run, under the filter, where that is not what is shown."""
        wanted = (self.book, self.book.revision, self.only)
        if self._shown == wanted:
            return
        if self._shown is None or (self._shown[0], self._shown[2]) != (self.book, self.only):
            self._counts = None
        self._shown = wanted
        self.ask_health()
        if self.only:
            self.ask("counts", partial(_read_counts, self.only, self.on_screen()), self._counted)
        self.turn()
        self.redraw_bars()

    def laid(self, lines: Sequence[Line]) -> list[Line]:
        """Lines of a page as dense as all screens are to be."""
        return dense(lines) if self.tailtrace.compact else list(lines)

    def ask_health(self) -> None:
        """How the run stands, which all screens say."""
        self.ask("health", read_health, self._healthy)

    def fit_density(self) -> None:
        """Be as compact as all screens are to be: the class `-compact` takes away what is only air."""
        if self.has_class("-compact") != self.tailtrace.compact:
            self.set_class(self.tailtrace.compact, "-compact")
            self.redraw("Paper", layout=True)

    def reload_run(self) -> None:
        """Read the chosen run again: a live one has grown."""

        def read(_session: Session, _cursor: "duckdb.DuckDBPyConnection") -> None:
            book.reload()

        book = self.book
        self.ask("reload", read, lambda _nothing: self.refresh_run())

    def ask(self, line: str, question: Question[T], then: Callable[[T], None]) -> None:
        """Ask in a thread; `then` gets the answer in the screen, unless a newer question on the same line came."""
        asker = self._askers.setdefault(line, self.tailtrace.new_asker())
        generation, book, loop = asker.supersede(), self.book, asyncio.get_running_loop()

        def work() -> None:
            arrive: Callable[[], None]
            try:
                answer = asker.ask(generation, book.session(), question)
            except Superseded:
                return
            except BaseException as error:  # noqa: BLE001  # carried over to the screen, which raises or shows it
                arrive = partial(self._fail, error)
            else:
                arrive = partial(then, answer)
            deliver(loop, self, Answered(asker, generation, arrive))

        asker.in_thread(work, line)

    def on_answered(self, message: Answered) -> None:
        """Let the newest answer in."""
        message.stop()
        if message.generation == message.asker.generation:
            message.arrive()

    # The filter

    def action_filter(self) -> None:
        """Ask which requests to look at."""
        line = self.query_one(FilterLine)
        line.open(self.only)
        self.ask("names", read_names, line.know)

    def action_unfilter(self) -> None:
        """Take the last term away."""
        self.tailtrace.look_at(self.only.without(len(self.only.terms) - 1))

    def on_filter_line_given(self, message: FilterLine.Given) -> None:
        """Look at these."""
        self.on_filter_line_left()
        self.tailtrace.look_at(message.only)

    def on_filter_line_left(self) -> None:
        """The filter stays."""
        self.query_one(FilterLine).close()
        self.give_focus_back()

    def on_chips_removed(self, message: Chips.Removed) -> None:
        """Do without a term."""
        self.tailtrace.look_at(self.only.without(message.place))

    def _counted(self, counts: Counts) -> None:
        self._counts = counts
        self.redraw(".chips")

    # Copy and export

    def action_copy(self) -> None:
        """To the clipboard of the terminal (OSC 52)."""
        found = self.copied()
        if found is not None:
            text, name = found
            self.app.copy_to_clipboard(text)
            self.notify(f"copied {name}", markup=False, timeout=2)

    def action_export(self) -> None:
        """Ask for the format, and write the file."""
        from console.screens.export import ExportScreen

        self.app.clear_notifications()  # they are no part of the picture
        self.app.push_screen(ExportScreen(), self._chosen)

    def _chosen(self, form: str | None) -> None:
        if form is not None:
            self.call_after_refresh(self._export, form)

    def _export(self, form: str) -> None:
        shown = self.shown()
        if shown is None:
            self.notify("there is nothing to export yet", markup=False, timeout=2)
            return
        picture = self.app.export_screenshot(title="tailtrace") if form == "svg" else ""

        def write(_session: Session, _cursor: "duckdb.DuckDBPyConnection") -> Path:
            return save(shown, form, picture, Path.cwd())

        self.ask("export", write, lambda file: self.notify(f"written to {file}", markup=False, timeout=8))

    def redraw(self, selector: str, *, layout: bool = False) -> None:
        """Draw the papers that match again."""
        for paper in self.query(selector).results(Paper):
            paper.redraw(layout=layout)

    def redraw_bars(self) -> None:
        """The bars depend on nearly everything, and are cheap."""
        self.redraw(".bar")

    def _healthy(self, health: Health) -> None:
        self.book.health = health
        self.redraw_bars()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, UserError):
            raise error
        self.notify(str(error), severity="error", markup=False, timeout=10)

    def _top(self, width: int, _height: int) -> list[Line]:
        shelf = self.tailtrace
        return [top_bar(self.NAME, self.heading(), shelf.place, len(shelf.books), width=width)]

    def _screens(self) -> list[Spot]:
        """The titles of the top bar."""
        shelf, width = self.tailtrace, self.size.width
        titles = titles_at(self.NAME, self.heading(), shelf.place, len(shelf.books), width=width)
        return [Spot(x, 0, partial(shelf.action_show, name)) for x, name in titles]

    def action_jump(self) -> None:
        """A letter on everything that one can go to."""
        from console.screens.jump import JumpScreen

        self.app.push_screen(JumpScreen(spots_on(self)), self._go)

    def _go(self, spot: Spot | None) -> None:
        if spot is not None:
            self.call_later(spot.go)

    def _live(self) -> Line:
        """How a watched run is watched, and how far something is that takes long."""
        watch, progress = self.tailtrace.watch_live, self.book.progress
        live = watch.note() if watch is not None else []
        return live if progress is None else [*live, (f"working out the causes, {progress:.0%}", "accent")]

    def _status(self, width: int, _height: int) -> list[Line]:
        return [status_line(self.book.health, self.note(), width, self._live())]

    def shown_keys(self) -> Sequence[Key]:
        """The keys that the footer has, the most useful first. While somebody types the others are text."""
        for kind, scope in ((FilterInput, Scope.FILTER), (AskLine, Scope.ASKED)):
            if isinstance(self.focused, kind):
                return keys_of(scope, table=self.tailtrace.keys)
        return footer_keys(*self.scopes(), table=self.tailtrace.keys)

    def _keys(self, width: int, _height: int) -> list[Line]:
        if self.tailtrace.compact:
            return [foot_line(self.book.health, self.note(), self.shown_keys(), width, self._live())]
        return [key_bar(self.shown_keys(), width)]

    def watch_focused(self, _focused: Widget | None) -> None:
        """The footer follows the focus."""
        self.redraw(".keys")


def deliver(loop: asyncio.AbstractEventLoop, screen: RunScreen, answer: Answered) -> None:
    """From a thread to the screen that asked. The application may have ended meanwhile: then nobody listens."""
    try:
        loop.call_soon_threadsafe(screen.post_message, answer)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _read_counts(
    only: Filter, books: tuple[Book, ...], _session: Session, _cursor: "duckdb.DuckDBPyConnection"
) -> Counts:
    """How many attempts of each run the filter lets through, of all."""
    sessions = [book.session() for book in books]
    return [(session.count(only), session.count()) for session in sessions]
