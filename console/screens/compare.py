"""Compare: two to four runs by numbers, by curve, request by request, and side by side in time."""

import io
from functools import partial
from typing import ClassVar, Final

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll

from console.book import Book
from console.comparing import METRICS, Answer, read_answer, read_both_causes
from console.exporting import Shown
from console.keys import Scope
from console.screens.abreast import AbreastPanel
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session
from console.text import several
from console.text.compare import block_lines
from console.theme import RUNS, Look, resolve
from console.widgets.detail import Cause
from console.widgets.ink import Line, crop
from console.widgets.pairs import Pairs, cause_lines, list_lines, rows_shown, side_by_side
from console.widgets.paper import Paper
from console.widgets.spots import Spot

_CURVE: Final = 13
_PLAIN: Final = Console(color_system="truecolor", file=io.StringIO())


class CompareScreen(RunScreen):
    """Run A is the first of the command line, up to three others are held against it.

    Requests are paired with those of the chosen one, or of the second where the first is chosen.
    """

    SCOPE = Scope.COMPARE
    NAME = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.COMPARE)]
    CSS = """
    CompareScreen.-wide VerticalScroll { width: 1fr; }
    CompareScreen #stage #pairs { height: 45%; }
    CompareScreen.-wide #stage #pairs { height: 1fr; width: 1fr; }
    CompareScreen #abreast { display: none; padding: 1 1 0 0; }
    CompareScreen.-abreast #abreast { display: block; }
    CompareScreen.-abreast #stage { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._answer: Answer | None = None
        self._causes: tuple[list[Cause], list[Cause]] | None = None
        self._selected = 0
        self._reverse = False
        self._metric = 0
        self._curve: tuple[object, list[Line]] = (None, [])
        self._answered_for: object = None
        self._listed = 0, range(0)

    def body(self) -> ComposeResult:
        """Numbers that scroll, and the pairs."""
        with Container(id="stage"):
            with VerticalScroll(can_focus=False):
                yield Paper(self._page, id="page")
            yield Paper(self._pairs, id="pairs", classes="second", spots=self._rows)
        yield AbreastPanel()

    def on_screen(self) -> tuple[Book, ...]:
        """The runs that are compared: the first ones, and the chosen one."""
        books, place = self.tailtrace.books, self.tailtrace.place
        most = len(RUNS)
        return (*books[: most - 1], books[max(place, most - 1)]) if len(books) > most else tuple(books)

    @property
    def other(self) -> int:
        """The place of the run whose requests are paired with those of A."""
        chosen = self.on_screen().index(self.book)
        return chosen or 1

    @property
    def look(self) -> Look:
        """The letter of that run."""
        return RUNS[self.other]

    def heading(self) -> str:
        """All runs; of more than two, the pair."""
        runs = self.on_screen()
        if len(runs) < 2:
            return self.book.name
        return f"{runs[0].name} → {runs[self.other].name}"

    def scopes(self) -> tuple[Scope, ...]:
        """The panel's keys while it has the focus."""
        return (Scope.ABREAST,) if isinstance(self.focused, AbreastPanel) else (Scope.COMPARE,)

    def turn(self) -> None:
        """Compare them; where only the pair is another one, all is there."""
        books = self.on_screen()
        wanted = ([(book, book.revision) for book in books], self.only)
        self._selected, self._causes = 0, None
        if len(books) > 1 and self._answered_for != wanted:
            self._answer, self._answered_for = None, None
            self.ask("compare", partial(read_answer, books, self.only, self.tailtrace.slo_ns), self._arrive)
        elif self._answer is not None:
            self._explain()
        self.redraw("#page, #pairs", layout=True)

    def reload_run(self) -> None:
        """Read all of the runs again."""
        books = self.on_screen()

        def read(_session: Session, _cursor: duckdb.DuckDBPyConnection) -> None:
            for book in books:
                book.reload()

        self.ask("reload", read, lambda _nothing: self.refresh_run())

    def _arrive(self, answer: Answer) -> None:
        books = self.on_screen()
        self._answer, self._answered_for = answer, ([(book, book.revision) for book in books], self.only)
        for book, lanes in zip(books, answer.read, strict=True):
            book.lanes, book.seen = lanes
        if self.has_class("-abreast"):
            self.query_one(AbreastPanel).show(answer.lanes, self._chosen_name())
        self._explain()
        self.redraw("#page, #pairs", layout=True)

    @property
    def pairs(self) -> Pairs | None:
        """The requests of A and of the other run; None while they are not read."""
        return None if self._answer is None else self._answer.pairs[self.other - 1]

    # Keys

    def action_pair(self, step: int) -> None:
        """Select another pair."""
        if self.pairs is not None and len(self.pairs):
            self._select(min(max(self._selected + step, 0), len(self.pairs) - 1))

    def _select(self, row: int) -> None:
        self._selected = row
        self._explain()

    def action_order(self) -> None:
        """Winners first, or losers first."""
        self._reverse, self._selected = not self._reverse, 0
        self._explain()

    def action_metric(self) -> None:
        """The curve of the next measure."""
        self._metric = (self._metric + 1) % len(METRICS)
        self.redraw("#page, #pairs")

    def action_scroll(self, lines: int) -> None:
        """Move the page of numbers."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    async def action_show_request(self) -> None:
        """The selected request on the timeline of the other run."""
        place = self._place()
        if self.pairs is not None and place is not None:
            self.tailtrace.place = self.tailtrace.books.index(self.on_screen()[self.other])
            self.tailtrace.chosen = self.pairs.rids_b[place]
            await self.tailtrace.action_show("timeline")

    def action_abreast(self) -> None:
        """All runs on one axis of time."""
        if self._answer is not None:
            panel = self.query_one(AbreastPanel)
            self.add_class("-abreast")
            panel.show(self._answer.lanes, self._chosen_name())
            panel.focus()

    def on_abreast_panel_closed(self) -> None:
        """Back to the numbers."""
        self.remove_class("-abreast")
        self.set_focus(None)

    async def on_abreast_panel_chosen(self, message: AbreastPanel.Chosen) -> None:
        """The request on the timeline of the chosen run."""
        lanes = None if self._answer is None else self._answer.lanes[self.on_screen().index(self.book)]
        index = None if lanes is None else lanes.find(message.name)
        if lanes is None or index is None:
            self.notify(f"{message.name} is not in {self.book.name}", markup=False, timeout=3)
            return
        self.tailtrace.chosen = lanes.lane(index).rid
        await self.tailtrace.action_show("timeline")

    def shown(self) -> Shown | None:
        """The pairs, and the comparison as `tailtrace compare` has it."""
        answer, pairs = self._answer, self.pairs
        if answer is None or pairs is None:
            return None
        comparison = answer.comparisons[self.other - 1]
        name = f"{comparison['a']['run']}-{comparison['b']['run']}-compare"
        return Shown(name, lambda: _pair_rows(pairs), lambda: comparison)

    def copied(self) -> tuple[str, str] | None:
        """The selected pair: its id and what it took in each run."""
        place = self._place()
        if self.pairs is None or place is None:
            return None
        row = _pair_rows(self.pairs).slice(place, 1).to_pylist()[0]
        return "\t".join(str(value) for value in row.values()), str(row["request_id"])

    def _place(self) -> int | None:
        """The selected pair in the order of `Pairs`."""
        count = len(self.pairs) if self.pairs is not None else 0
        if not count:
            return None
        return count - 1 - self._selected if self._reverse else self._selected

    def _chosen_name(self) -> str | None:
        """What the selected request is called."""
        place = self._place()
        return None if self.pairs is None or place is None else self.pairs.names[place]

    def _explain(self) -> None:
        """Ask for the causes of the selected pair."""
        place = self._place()
        self._causes = None
        if self._answer is not None and self.pairs is not None and place is not None:
            books, lanes, other = self.on_screen(), self._answer.lanes, self.other
            rids = self.pairs.rids_a[place], self.pairs.rids_b[place]
            asked = partial(read_both_causes, (books[0], books[other]), (lanes[0], lanes[other]), rids)
            self.ask("causes", asked, self._explained)
        self.redraw("#pairs")

    def _explained(self, causes: tuple[list[Cause], list[Cause]]) -> None:
        self._causes = causes
        self.redraw("#pairs")

    # What is drawn

    def _page(self, width: int, _height: int) -> list[Line]:
        if len(self.on_screen()) < 2:
            return [[("One run can't be compared: tailtrace open A B", "muted")]]
        if self._answer is None:
            return [[("comparing …", "muted")]]
        lines = self._block("heads", width) + self._block("latency", width)
        if self.size.width < self.WIDE:
            lines += [*self._cdf(width, _CURVE), *self.laid([[]])]
        for name in ("phases", "causes", "rates", "states", "settings"):
            lines += self._block(name, width)
        return lines

    def _block(self, name: str, width: int) -> list[Line]:
        """Two runs have room for differences, more of them for ratios."""
        assert self._answer is not None
        made = self._answer.comparisons
        block = block_lines(name, made[0], width) if len(made) == 1 else several.block_lines(name, made, width)
        return self.laid(block)

    def _pairs(self, width: int, height: int) -> list[Line]:
        if self.pairs is None:
            return []
        lines = [*self._cdf(width, _CURVE), []] if self.size.width >= self.WIDE else []
        place = self._place()
        beside = self._side_by_side(place, width, height - len(lines)) if place is not None else []
        room = max(height - len(lines) - len(beside), 2)
        self._listed = len(lines) + 1, rows_shown(len(self.pairs), self._selected, room)
        listed = list_lines(self.pairs, self._selected, self._reverse, width, room, other=self.look)
        return [*lines, *listed, *beside][:height]

    def _rows(self) -> list[Spot]:
        """The pairs that are listed."""
        top, rows = self._listed
        return [Spot(1, top + line, partial(self._select, row)) for line, row in enumerate(rows)]

    def _side_by_side(self, place: int, width: int, room: int) -> list[Line]:
        """The selected pair: lanes, and causes where there is room for them."""
        if self._answer is None or self.pairs is None:
            return []
        lanes = self._answer.lanes[0], self._answer.lanes[self.other]
        a, b = lanes[0].of_rid(self.pairs.rids_a[place]), lanes[1].of_rid(self.pairs.rids_b[place])
        if a is None or b is None:
            return []
        lines: list[Line] = [[], *side_by_side(lanes, (a, b), width, self.look)]
        if room >= 16 and self._causes is not None:
            lines += [[], *cause_lines(*self._causes, width, room // 2 - 3, self.look)]
        return self.laid(lines)

    def _cdf(self, width: int, height: int) -> list[Line]:
        """Share of requests done within a time, by plotext; drawn once for a size and a measure."""
        from console.text.curves import cdf  # 0.15 s of plotext, which nothing else here needs

        if self._answer is None:
            return []
        metric, dark = METRICS[self._metric], self.app.current_theme.dark
        key = (id(self._answer), metric, width, height, dark)
        if self._curve[0] != key:
            curves = {look.glyph: times for look, times in zip(RUNS, self._answer.curves[metric], strict=False)}
            title = f"{metric.upper()}, share of requests done  (v: next)"
            drawn = cdf(title, curves, width=width, height=height - 1, colour="true", dark=dark)
            self._curve = (key, [crop(_from_ansi(line, dark), width) for line in drawn])
        return self._curve[1]


def _from_ansi(line: str, dark: bool) -> Line:
    """A line that plotext coloured, in the words of the theme."""
    known = {resolve(run.style, dark).foreground: run.style for run in RUNS}
    text = Text.from_ansi(line)
    pieces: Line = []
    for segment in text.render(_PLAIN):
        colour = segment.style.color if segment.style is not None else None
        rgb = colour.triplet.hex if colour is not None and colour.triplet is not None else ""
        pieces.append((segment.text, known.get(rgb, "muted")))
    return pieces


def _pair_rows(pairs: Pairs) -> pa.Table:
    """The list as rows, the biggest winner first; times in ms."""
    columns = {"a_ms": pairs.times_a / 1e6, "b_ms": pairs.times_b / 1e6, "diff_ms": pairs.changes / 1e6}
    return pa.table({"request_id": pa.array(pairs.names, pa.string()), **columns})
