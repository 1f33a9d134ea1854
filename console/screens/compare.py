"""Compare: two runs by numbers, by curve, and request by request."""

import io
from functools import partial
from typing import ClassVar, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll

from console.asking import Superseded
from console.book import Book, read_lanes
from console.compare import Comparison, compare, pair
from console.exporting import Shown
from console.filter import Filter
from console.keys import Scope
from console.lanes import Lanes
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.screens.request import read_causes
from console.session import Session
from console.text.compare import block_lines
from console.theme import resolve
from console.timeline import Floats
from console.widgets.detail import Cause
from console.widgets.ink import Line, crop
from console.widgets.pairs import Pairs, by_change, cause_lines, list_lines, side_by_side
from console.widgets.paper import Paper

_METRICS: Final = ("e2e", "ttft", "tpot")
_WIDE: Final = 130
_CURVE: Final = 13
_PLAIN: Final = Console(color_system="truecolor", file=io.StringIO())


Seen = tuple[Filter, Lanes]


class Answer(NamedTuple):
    """Everything the screen shows of two runs; `curves` are the times of each measure in ms, A and B.

    `read` are all lanes of each run, and those under the filter.
    """

    comparison: Comparison
    pairs: Pairs
    read: tuple[tuple[Lanes, Seen], tuple[Lanes, Seen]]
    curves: dict[str, tuple[list[float], list[float]]]

    @property
    def lanes(self) -> tuple[Lanes, Lanes]:
        """Those under the filter."""
        return self.read[0][1][1], self.read[1][1][1]


class CompareScreen(RunScreen):
    """Run A is the first of the command line, run B the chosen one (the second, where the first is chosen)."""

    SCOPE = Scope.COMPARE
    NAME = "compare"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.COMPARE)]
    # Textual declares it so that it is no class variable to mypy.
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012
    CSS = """
    CompareScreen #stage { height: 1fr; layout: vertical; }
    CompareScreen.-wide #stage { layout: horizontal; }
    CompareScreen VerticalScroll {
        height: 1fr; padding: 1 1 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    CompareScreen.-wide VerticalScroll { width: 1fr; }
    CompareScreen #page { height: auto; }
    CompareScreen #pairs { height: 45%; padding: 0 1; }
    CompareScreen.-wide #pairs { height: 1fr; width: 1fr; padding: 1 1 0 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._answer: Answer | None = None
        self._causes: tuple[list[Cause], list[Cause]] | None = None
        self._selected = 0
        self._reverse = False
        self._metric = 0
        self._curve: tuple[object, list[Line]] = (None, [])

    def body(self) -> ComposeResult:
        """Numbers that scroll, and the pairs."""
        with Container(id="stage"):
            with VerticalScroll(can_focus=False):
                yield Paper(self._page, id="page")
            yield Paper(self._pairs, id="pairs")

    @property
    def sides(self) -> tuple[Book, Book] | None:
        """Run A and run B; None where there is only one run."""
        books, place = self.tailtrace.books, self.tailtrace.place
        return None if len(books) < 2 else (books[0], books[place or 1])

    def on_screen(self) -> tuple[Book, ...]:
        """Both runs."""
        return self.sides or (self.book,)

    def heading(self) -> str:
        """Both runs."""
        return self.book.name if self.sides is None else " → ".join(book.name for book in self.sides)

    def turn(self) -> None:
        """Compare them."""
        self._answer = self._causes = None
        self._selected = 0
        if self.sides is not None:
            self.ask("compare", partial(_read, self.sides, self.only), self._arrive)
        self.redraw("#page, #pairs", layout=True)

    def reload_run(self) -> None:
        """Read both runs again."""
        sides = self.on_screen()

        def read(_session: Session, _cursor: duckdb.DuckDBPyConnection) -> None:
            for book in sides:
                book.reload()

        self.ask("reload", read, lambda _nothing: self.refresh_run())

    def _arrive(self, answer: Answer) -> None:
        self._answer = answer
        if self.sides is not None:
            for book, lanes in zip(self.sides, answer.read, strict=True):
                book.lanes, book.seen = lanes
        self._explain()
        self.redraw("#page, #pairs", layout=True)

    # Keys

    def action_pair(self, step: int) -> None:
        """Select another pair."""
        if self._answer is not None and len(self._answer.pairs):
            self._selected = min(max(self._selected + step, 0), len(self._answer.pairs) - 1)
            self._explain()

    def action_order(self) -> None:
        """Winners first, or losers first."""
        self._reverse, self._selected = not self._reverse, 0
        self._explain()

    def action_metric(self) -> None:
        """The curve of the next measure."""
        self._metric = (self._metric + 1) % len(_METRICS)
        self.redraw("#page, #pairs")

    def action_scroll(self, lines: int) -> None:
        """Move the page of numbers."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    async def action_show_request(self) -> None:
        """The selected request on the timeline of run B."""
        place = self._place()
        if self._answer is not None and self.sides is not None and place is not None:
            self.tailtrace.place = self.tailtrace.books.index(self.sides[1])
            self.tailtrace.chosen = self._answer.pairs.rids_b[place]
            await self.tailtrace.action_show("timeline")

    def shown(self) -> Shown | None:
        """The pairs, and the comparison as `tailtrace compare` has it."""
        answer = self._answer
        if answer is None:
            return None
        return Shown(
            f"{answer.comparison['a']['run']}-{answer.comparison['b']['run']}-compare",
            lambda: _pair_rows(answer.pairs),
            lambda: answer.comparison,
        )

    def copied(self) -> tuple[str, str] | None:
        """The selected pair: its id and what it took in A and in B."""
        place = self._place()
        if self._answer is None or place is None:
            return None
        row = _pair_rows(self._answer.pairs).slice(place, 1).to_pylist()[0]
        return "\t".join(str(value) for value in row.values()), str(row["request_id"])

    def _place(self) -> int | None:
        """The selected pair in the order of `Pairs`."""
        count = len(self._answer.pairs) if self._answer is not None else 0
        if not count:
            return None
        return count - 1 - self._selected if self._reverse else self._selected

    def _explain(self) -> None:
        """Ask for the causes of the selected pair."""
        place = self._place()
        self._causes = None
        if self._answer is not None and self.sides is not None and place is not None:
            rids = self._answer.pairs.rids_a[place], self._answer.pairs.rids_b[place]
            self.ask("causes", partial(_read_both_causes, self.sides, self._answer.lanes, rids), self._explained)
        self.redraw("#pairs")

    def _explained(self, causes: tuple[list[Cause], list[Cause]]) -> None:
        self._causes = causes
        self.redraw("#pairs")

    # What is drawn

    def _page(self, width: int, _height: int) -> list[Line]:
        if self.sides is None:
            return [[("One run can't be compared: tailtrace open A B", "muted")]]
        if self._answer is None:
            return [[("comparing …", "muted")]]
        comparison = self._answer.comparison
        lines = block_lines("heads", comparison, width) + block_lines("latency", comparison, width)
        if self.size.width < _WIDE:
            lines += [*self._cdf(width, _CURVE), []]
        for name in ("phases", "causes", "rates", "states", "settings"):
            lines += block_lines(name, comparison, width)
        return lines

    def _pairs(self, width: int, height: int) -> list[Line]:
        if self._answer is None:
            return []
        lines = [*self._cdf(width, _CURVE), []] if self.size.width >= _WIDE else []
        place = self._place()
        beside = self._side_by_side(place, width, height - len(lines)) if place is not None else []
        room = max(height - len(lines) - len(beside), 2)
        return [*lines, *list_lines(self._answer.pairs, self._selected, self._reverse, width, room), *beside][:height]

    def _side_by_side(self, place: int, width: int, room: int) -> list[Line]:
        """The selected pair: lanes, and causes where there is room for them."""
        if self._answer is None:
            return []
        lanes, pairs = self._answer.lanes, self._answer.pairs
        a, b = lanes[0].of_rid(pairs.rids_a[place]), lanes[1].of_rid(pairs.rids_b[place])
        if a is None or b is None:
            return []
        lines: list[Line] = [[], *side_by_side(lanes, (a, b), width)]
        if room >= 16 and self._causes is not None:
            lines += [[], *cause_lines(*self._causes, width, room // 2 - 3)]
        return lines

    def _cdf(self, width: int, height: int) -> list[Line]:
        """Share of requests done within a time, by plotext; drawn once for a size and a measure."""
        from console.text.curves import cdf  # 0.15 s of plotext, which nothing else here needs

        if self._answer is None:
            return []
        metric, dark = _METRICS[self._metric], self.app.current_theme.dark
        key = (id(self._answer), metric, width, height, dark)
        if self._curve[0] != key:
            a, b = self._answer.curves[metric]
            title = f"{metric.upper()}, share of requests done  (v: next)"
            drawn = cdf(title, {"A": a, "B": b}, width=width, height=height - 1, colour="true", dark=dark)
            self._curve = (key, [crop(_from_ansi(line, dark), width) for line in drawn])
        return self._curve[1]


def _from_ansi(line: str, dark: bool) -> Line:
    """A line that plotext coloured, in the words of the theme."""
    known = {resolve(style, dark).foreground: style for style in ("run.a", "run.b")}
    text = Text.from_ansi(line)
    pieces: Line = []
    for segment in text.render(_PLAIN):
        colour = segment.style.color if segment.style is not None else None
        rgb = colour.triplet.hex if colour is not None and colour.triplet is not None else ""
        pieces.append((segment.text, known.get(rgb, "muted")))
    return pieces


def _read(sides: tuple[Book, Book], only: Filter, _session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """Everything about two runs."""
    import console.text.curves  # noqa: F401  # so that plotext is there when the screen draws

    a, b = (book.session() for book in sides)
    comparison = compare(a, b, only)
    read = []
    for book, session in zip(sides, (a, b), strict=True):
        with session.connect() as own:
            read.append(read_lanes(book, only, session, own))
    return Answer(comparison, _read_pairs(a, b, only), (read[0], read[1]), _curves(read[0][1][1], read[1][1][1]))


def _read_pairs(a: Session, b: Session, only: Filter) -> Pairs:
    rows = pair(a, b, only).answered
    names, rids_a, rids_b = (rows[name].to_pylist() for name in ("request_id", "rid_a", "rid_b"))
    times = tuple(np.asarray(rows[f"e2e_ns_{side}"].to_numpy(), np.float64) for side in "ab")
    return by_change(names, (rids_a, rids_b), (times[0], times[1]))


def _pair_rows(pairs: Pairs) -> pa.Table:
    """The list as rows, the biggest winner first; times in ms."""
    columns = {"a_ms": pairs.times_a / 1e6, "b_ms": pairs.times_b / 1e6, "diff_ms": pairs.changes / 1e6}
    return pa.table({"request_id": pa.array(pairs.names, pa.string()), **columns})


def _curves(a: Lanes, b: Lanes) -> dict[str, tuple[list[float], list[float]]]:
    return {metric: (_milliseconds(a, metric), _milliseconds(b, metric)) for metric in _METRICS}


def _milliseconds(lanes: Lanes, metric: str) -> list[float]:
    values = lanes.columns[metric][lanes.ok]
    known: Floats = values[values >= 0] / 1e6
    return [float(value) for value in known]


def _read_both_causes(
    sides: tuple[Book, Book], lanes: tuple[Lanes, Lanes], rids: tuple[int, int], *_own: object
) -> tuple[list[Cause], list[Cause]]:
    """The causes of one request in both runs."""
    found = []
    for book, run, rid in zip(sides, lanes, rids, strict=True):
        index = run.of_rid(rid)
        if index is None:
            raise Superseded
        session = book.session()
        with session.connect() as cursor:
            found.append(read_causes(session, cursor, rid, run.lane(index).attempt))
    return found[0], found[1]
