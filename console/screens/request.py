"""The panel of one request: its causes, and the way to whoever is behind them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.message import Message

from console.keys import Scope
from console.lanes import Lane, Lanes
from console.screens.bindings import bindings
from console.session import Session, rows
from console.widgets.detail import Cause, cause_at, detail_lines, in_order_of_life
from console.widgets.ink import Line
from console.widgets.paper import Paper

if TYPE_CHECKING:
    import duckdb


_LEGIBLE: Final = 80
_ALL: Final = 200


class RequestPanel(Paper, can_focus=True):
    """Has the focus while it is open, so that its keys go first."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.DETAIL)]

    class Closed(Message):
        """The panel is done with."""

    class Whole(Message):
        """All of the request is wanted, not only what there is room for here."""

    class Blamed(Message):
        """Jump to this request."""

        def __init__(self, rid: int) -> None:
            super().__init__()
            self.rid = rid

    def __init__(self) -> None:
        super().__init__(self._page, id="request")
        self._of: tuple[Lanes, Lane] | None = None
        self._causes: list[Cause] | None = None
        self._selected = 0

    def open(self, lanes: Lanes, lane: Lane) -> None:
        """Show a request; its causes come later."""
        self._of, self._causes, self._selected = (lanes, lane), None, 0
        self.redraw()

    def explain(self, causes: Sequence[Cause]) -> None:
        """The causes have come. The largest one that somebody is to blame for is selected."""
        self._causes = in_order_of_life(causes)
        blamed = [(cause.culprit is not None, cause.ns) for cause in self._causes]
        self._selected = blamed.index(max(blamed)) if blamed else 0
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select the cause; twice in a row: to whoever is behind it."""
        if self._of is None or not self._causes:
            return
        place = cause_at(self._of[1], len(self._causes), self._selected, event.y, self.size.height)
        if place is not None:
            self._selected = place
            self.redraw()
            if event.chain == 2:
                self.action_culprit()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The next cause."""
        event.stop()
        self.action_cause(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The cause before."""
        event.stop()
        self.action_cause(-1)

    def action_cause(self, step: int) -> None:
        """Select another cause."""
        self._selected = min(max(self._selected + step, 0), max(len(self._causes or ()) - 1, 0))
        self.redraw()

    def action_culprit(self) -> None:
        """Jump to whoever is behind the selected cause."""
        causes = self._causes or []
        rid = causes[self._selected].culprit if self._selected < len(causes) else None
        if rid is None:
            self.notify("nobody is to blame for this one", markup=False, timeout=2)
        else:
            self.post_message(self.Blamed(rid))

    def action_whole(self) -> None:
        """All of it."""
        self.post_message(self.Whole())

    def action_close(self) -> None:
        """Back to the lanes."""
        self.post_message(self.Closed())

    def account(self) -> list[Line]:
        """All of it in lines, however little of it there is room for."""
        return self._page(max(self.size.width, _LEGIBLE), _ALL)

    def _page(self, width: int, height: int) -> list[Line]:
        if self._of is None:
            return []
        return detail_lines(*self._of, self._causes, self._selected, width=width, height=height)


def read_causes(session: Session, cursor: "duckdb.DuckDBPyConnection", rid: int, attempt: int) -> list[Cause]:
    """Where one attempt's time went."""
    return [
        Cause(
            name=str(row["cause"]),
            ns=int(str(row["ns"])),
            measured=bool(row["measured"]),
            root=str(row["root"] or ""),
            culprit=None if row["culprit"] is None else int(str(row["culprit"])),
            culprits=int(str(row["culprits"])),
        )
        for row in rows(session.ask("timeline_causes", cursor=cursor, rid=rid, attempt=attempt))
    ]
