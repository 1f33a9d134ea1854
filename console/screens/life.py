"""One request on a screen of its own: causes, token gaps, passes, neighbours, attempts, events."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from console.blame.cohorts import Slow, read_cohorts
from console.exporting import Shown, flattened
from console.filter import Filter
from console.keys import Scope
from console.request import Life, causes_of, family_of, life_of
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.session import Session, rows
from console.text.paint import paint
from console.text.request import request_lines
from console.widgets.ink import Line
from console.widgets.life import head_lines, in_order_of_life, panes_of
from console.widgets.panes import Pane, panes_lines, row_at, rows_in, slots
from console.widgets.paper import Draw, Paper
from console.widgets.spots import Spot

if TYPE_CHECKING:
    import duckdb

_HEAD: Final = 4
"""Rows above the panes: three lines of facts, and a blank one."""
_LEGIBLE: Final = 100

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """A request, and whether the filter leaves it out. Its causes come later: until then they are `pending`."""

    life: Life
    outside: bool
    pending: bool = True

    @property
    def whole(self) -> bool:
        """Whether all of it is there."""
        return not self.pending and bool(self.life["family"])

    @property
    def rid(self) -> int:
        """Its number."""
        rid: int = self.life["request"]["rid"]
        return rid


class Page(Paper):
    """All of the screen's lines; tells where it was clicked."""

    class Clicked(Message):
        """On this cell; `twice` in a row."""

        def __init__(self, x: int, y: int, *, twice: bool) -> None:
            super().__init__()
            self.x = x
            self.y = y
            self.twice = twice

    class Turned(Message):
        """The wheel: rows down, or up where negative."""

        def __init__(self, steps: int) -> None:
            super().__init__()
            self.steps = steps

    def __init__(self, draw: Draw, spots: Callable[[], list[Spot]]) -> None:
        super().__init__(draw, id="page")
        self._places = spots

    def spots(self) -> list[Spot]:
        """The lists, and the rows of the one with the cursor. A click means more than to go there."""
        return self._places()

    def on_click(self, event: events.Click) -> None:
        """Say where."""
        at = event.get_content_offset(self)
        if at is not None:
            self.post_message(self.Clicked(at.x, at.y, twice=event.chain == 2))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The next rows."""
        event.stop()
        self.post_message(self.Turned(1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The rows before."""
        event.stop()
        self.post_message(self.Turned(-1))


class RequestScreen(RunScreen):
    """Shows the chosen request; where none is chosen yet, the first slow one, or else the first."""

    SCOPE = Scope.REQUEST
    NAME = "request"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.REQUEST)]
    CSS = """
    RequestScreen #page { height: 1fr; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: Found | None = None
        self.panes: list[Pane] = []
        self.active = 0
        self.selected: list[int] = []
        self._way_back: list[int] = []
        self._asked: int | None = None
        self._nothing = False
        self._turned_to: object = None

    def body(self) -> ComposeResult:
        """One page of panes."""
        yield Page(self._page, self._spots)

    def turn(self) -> None:
        """Read the chosen request (again); nothing of another run is kept."""
        if self._turned_to is not self.book:
            self._turned_to, self.found, self.panes = self.book, None, []
            self._way_back.clear()
        self._read(self.tailtrace.chosen)

    def on_screen_resume(self) -> None:
        """Another screen may have chosen another request."""
        super().on_screen_resume()
        if self._shown is not None and self.tailtrace.chosen != self._asked:
            self._way_back.clear()
            self._read(self.tailtrace.chosen)

    def shown(self) -> Shown | None:
        """What `tailtrace request` has of it."""
        if self.found is None or not self.found.whole:
            return None
        life, name = self.found.life, self.book.name
        wanted = life["request"]["request_id"] or f"req:{self.found.rid}"
        document = {"run": name, "id": wanted, "attempts": [life]}
        return Shown(f"{name}-request-{self.found.rid}", lambda: flattened(document), lambda: document)

    def copied(self) -> tuple[str, str] | None:
        """Its whole account as text."""
        if self.found is None or not self.found.whole:
            return None
        return paint(request_lines(self.found.life, _LEGIBLE)), "the request's account"

    # What is shown

    def _read(self, rid: int | None) -> None:
        self._asked = rid
        self.ask("life", partial(_read_life, only=self.only, rid=rid, slo_ns=self.tailtrace.slo_ns), self._arrive)

    def _arrive(self, found: Found | None) -> None:
        """All but the causes. Those of an earlier look at the same request stay until there are new ones."""
        before, self._nothing = self.found, found is None
        if found is None:
            self.found, self.panes, self.selected = None, [], []
        elif before is not None and before.rid == found.rid:
            life: Life = {**found.life, "causes": before.life["causes"], "family": before.life["family"]}
            self._show(replace(found, life=life, pending=before.pending))
        else:
            self.selected = []
            self._show(found)
        if found is not None:
            self.tailtrace.chosen = self._asked = found.rid
            self.ask("family", partial(_read_family, found.life), self._relate)
            self.ask("causes", partial(_read_causes, found.life), self._explain)
        self._hold()
        self.redraw("#page")

    def _relate(self, family: Rows) -> None:
        """The attempts that belong together are there."""
        if self.found is not None:
            self._show(replace(self.found, life={**self.found.life, "family": family}))
            self.redraw("#page")

    def _explain(self, causes: Rows) -> None:
        """The causes are there. The largest one that somebody is to blame for is selected, at first."""
        if self.found is not None:
            waited = self.found.pending
            life: Life = {**self.found.life, "causes": causes}
            self._show(replace(self.found, life=life, pending=False))
            self.selected[0] = _most_blamed(life) if waited else self.selected[0]
            self.redraw("#page")

    def _show(self, found: Found) -> None:
        """Keep the rows that were selected, as far as there are such."""
        self.found, self.panes = found, panes_of(found.life, pending=found.pending)
        rows = self.selected or [0] * len(self.panes)
        self.selected = [max(min(row, pane.rows - 1), 0) for row, pane in zip(rows, self.panes, strict=True)]

    def _hold(self) -> None:
        """Who reads of one request of a watched run must not have it read anew with every record that comes."""
        watch = self.tailtrace.watch_live
        if watch is not None:
            watch.look(at_the_edge=False)

    def _page(self, width: int, height: int) -> list[Line]:
        if self.found is None:
            words = "no request to tell of: none is under the filter" if self._nothing else "reading the request …"
            return [[(words, "muted")]]
        head = [*head_lines(self.found.life, self.found.outside, width), []]
        head = head if not self.tailtrace.compact else head[:-1]
        room = max(height - len(head), 1)
        return [*head, *panes_lines(self.panes, self.active, self.selected, width, room)]

    # Keys

    def action_row(self, step: int) -> None:
        """Select another row of the pane."""
        if self.panes:
            last = self.panes[self.active].rows - 1
            self.selected[self.active] = max(min(self.selected[self.active] + step, last), 0)
            self.redraw("#page")

    def action_pane(self, step: int) -> None:
        """To another pane."""
        if self.panes:
            self.active = (self.active + step) % len(self.panes)
            self.redraw("#page")

    def action_culprit(self) -> None:
        """To whoever is behind the selected row."""
        rid = self._selected_row(lambda pane, row: pane.who(row))
        if rid is None or self.found is None:
            self.notify("nobody else is behind this one", markup=False, timeout=2)
        elif rid != self.found.rid:
            self._way_back.append(self.found.rid)
            self._read(rid)

    async def action_look(self) -> None:
        """To the timeline, where the selected row happened."""
        t = self._selected_row(lambda pane, row: pane.when(row))
        self.tailtrace.wanted_t = t
        await self.tailtrace.action_show("timeline")

    def action_slow(self, step: int) -> None:
        """The next request over the SLO in the order of arrival."""
        if self.found is not None:
            row = self.found.life["request"]
            question = partial(
                _read_next, only=self.only, slo_ns=self.tailtrace.slo_ns, at=(row["arrival"], row["rid"]), way=step
            )
            self.ask("slow", question, self._go_on)

    def _go_on(self, rid: int | None) -> None:
        if rid is None:
            self.notify("no request over the SLO that way", markup=False, timeout=2)
        else:
            self._read(rid)

    async def action_back(self) -> None:
        """To the request one came from, or to the timeline."""
        if self._way_back:
            self._read(self._way_back.pop())
        else:
            await self.tailtrace.action_show("timeline")

    def _selected_row(self, of: Callable[[Pane, int], int | None]) -> int | None:
        if not self.panes or not self.panes[self.active].rows:
            return None
        return of(self.panes[self.active], self.selected[self.active])

    # The mouse, and jumps

    def _above(self) -> int:
        """Rows above the panes."""
        return _HEAD - (1 if self.tailtrace.compact else 0)

    def _room(self) -> tuple[int, int]:
        """Cells of all panes."""
        page = self.query_one(Page)
        return page.size.width, max(page.size.height - self._above(), 1)

    def _spots(self) -> list[Spot]:
        found = []
        for slot in slots(len(self.panes), self.active, *self._room()):
            y = slot.y + self._above()
            found.append(Spot(slot.x, y, partial(self._go_to, slot.place, None)))
            if slot.place == self.active:
                rows = rows_in(self.panes[slot.place].rows, self.selected[slot.place], slot)
                found += [Spot(slot.x, y + 1 + i, partial(self._go_to, slot.place, row)) for i, row in enumerate(rows)]
        return found

    def _go_to(self, place: int, row: int | None) -> None:
        self.active = place
        if row is not None:
            self.selected[place] = row
        self.redraw("#page")

    async def on_page_clicked(self, message: Page.Clicked) -> None:
        """Select a pane and a row; twice: to whoever is behind it."""
        at = (message.x, message.y - self._above())
        hit = row_at(self.panes, self.active, self.selected, self._room(), at)
        if hit is not None:
            self._go_to(*hit)
            if message.twice and hit[1] is not None:
                self.action_culprit()

    def on_page_turned(self, message: Page.Turned) -> None:
        """The wheel moves through the pane."""
        self.action_row(message.steps)


def _most_blamed(life: Life) -> int:
    """The row of the causes to begin with: the largest one that somebody is to blame for."""
    ordered = in_order_of_life(life)
    blamed = [(row["culprit"] is not None, row["ns"]) for row in ordered]
    return blamed.index(max(blamed)) if blamed else 0


def _read_life(
    session: Session, cursor: "duckdb.DuckDBPyConnection", *, only: Filter, rid: int | None, slo_ns: int | None
) -> Found | None:
    """The chosen request, or whom to begin with."""
    if rid is None:
        rid = _read_next(session, session.connect(), only=only, slo_ns=slo_ns, at=(-1, -1), way=1)
    if rid is None:
        picked = session.picked(only, cursor=cursor)
        rid = picked["rid"][0].as_py() if picked.num_rows else None
    attempts = rows(session.ask("find_request", cursor=cursor, id=None, rid=rid))
    if not attempts:
        return None
    found = life_of(session, int(str(attempts[-1]["rid"])), int(str(attempts[-1]["attempt"])), cursor)
    return Found(found, outside=bool(only) and not _is_among(rid, session.picked(only, cursor=cursor)))


def _is_among(rid: int | None, picked: pa.Table) -> bool:
    """Whether a filter lets a request through; it may let millions."""
    return bool(pc.any(pc.equal(picked["rid"], rid)).as_py())


def _read_causes(life: Life, session: Session, cursor: "duckdb.DuckDBPyConnection") -> Rows:
    return causes_of(session, life, cursor)


def _read_family(life: Life, session: Session, cursor: "duckdb.DuckDBPyConnection") -> Rows:
    return family_of(session, life, cursor)


def _read_next(
    session: Session,
    cursor: "duckdb.DuckDBPyConnection",
    *,
    only: Filter,
    slo_ns: int | None,
    at: tuple[int, int],
    way: int,
) -> int | None:
    """The next request under the filter that took longer than the SLO; without one, as long as the p95 or longer."""
    session.narrow(cursor, only)
    limit = slo_ns if slo_ns is not None else read_cohorts(session, Slow(), cursor).edge
    if limit is None:
        return None
    arrival, rid = at
    answer = session.ask("next_slow", cursor=cursor, limit=limit, at=slo_ns is None, arrival=arrival, rid=rid, way=way)
    return answer["rid"][0].as_py() if answer.num_rows else None
