"""The replay of one run, without a widget: playhead, window and selection, and what each key does to them.

Methods take `now`, the viewer's clock in ns. A frame is cut from it when one is wanted; it never looks at a clock.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from console.lanes import Lane, Lanes
from console.marks import Marks
from console.ordering import ARRIVAL, Order, place_of
from console.playhead import Playhead
from console.seeking import Places
from console.selecting import Stretch
from console.timeline import Ints, Passes, Window
from console.widgets.frame import Frame, top_following, top_for

_LIVE_NS: Final = 30 * 10**9
"""How much of a watched run is on screen, unless somebody has zoomed."""


@dataclass
class Replay:
    """Where somebody stands in a run. `playhead` is the truth; frames are made from it and thrown away.

    `stretch` is what somebody has selected of the run; with `extending` it grows with the playhead.
    """

    lanes: Lanes
    slo_ns: int | None
    playhead: Playhead
    window: Window
    selected: int | None
    slow: frozenset[int]
    misses: Ints
    top: int = 0
    marks: Marks = ()
    order: Order = field(default_factory=Order)
    stretch: Stretch | None = None
    extending: bool = False
    compact: bool = False
    _shown: tuple[Window, Order, Ints] | None = None

    @classmethod
    def of(cls, lanes: Lanes, slo_ns: int | None) -> "Replay":
        """Everything on screen, the playhead at rest at the end, where all has happened."""
        window, slow = lanes.window, lanes.slow(slo_ns)
        return cls(
            lanes=lanes,
            slo_ns=slo_ns,
            playhead=Playhead.resting(window.low, window.high),
            window=window,
            selected=lanes.next_in_sight(0),
            slow=frozenset(slow.tolist()),
            misses=np.minimum(lanes.columns["arrival"][slow] + _limit(lanes, slo_ns), lanes.columns["finish"][slow]),
        )

    def resume(self, before: "Replay", now: int) -> None:
        """Stand where somebody stood in an earlier look at the same run; at its end, if that was it.

        Where the lane that was selected is out of sight now, it is the next one.
        """
        ended = not before.playhead.playing and before.playhead.at == before.playhead.end
        low, high = self.window.low, self.window.high
        self.playhead = self.playhead if ended else before.playhead.over(low, high, now)
        self.window = before.window.over(low, high)
        self.stretch, self.extending = before.stretch, before.extending
        lane = before.lane()
        index = self.lanes.of_rid(lane.rid) if lane is not None else None
        self.selected = self._nearest(index) if index is not None else self.selected

    def to_edge(self) -> None:
        """Stand at the newest of everything; a window that shows a whole long run is narrowed to its last part."""
        window = self.window
        whole = window.span == window.high - window.low
        self.playhead = Playhead.resting(window.low, window.high)
        self.window = window.latest(_LIVE_NS if whole else window.span)
        self.selected = self._newest()

    def at_edge(self) -> bool:
        """Whether somebody stands there, so that the picture may move on with the run."""
        window, playhead = self.window, self.playhead
        newest = self.selected is None or self.selected == self._newest()
        resting = not playhead.playing and playhead.at == playhead.end
        all_of_it = window.span == window.high - window.low > _LIVE_NS
        return newest and resting and window.end == window.high and not all_of_it

    def _newest(self) -> int | None:
        return self.lanes.last_in_sight()

    def _nearest(self, index: int) -> int | None:
        """A lane in sight: this one, or the next."""
        following = self.lanes.next_in_sight(index)
        return self.lanes.last_in_sight() if following is None else following

    def frame(self, now: int, rows: int, *, follow: bool = False) -> Frame:
        """The picture of this instant. With `follow` window and rows move so that what happens there can be seen; rows
        only where they are in the order of time."""
        at = self.playhead.position(now)
        if self.extending and self.stretch is not None:
            self.stretch = self.stretch.to(at)
        if follow:
            self.window = self.window.reveal(at)
        shown = self.shown()
        if follow and self.order.by == ARRIVAL:
            self.top = top_following(self.lanes, shown, at, self.top, rows)
        else:
            self.top = top_for(self.selected, shown, self.top, rows)
        return Frame(
            at=at,
            window=self.window,
            selected=self.selected,
            top=self.top,
            slow=self.slow,
            marks=self.marks,
            shown=shown,
            order=self.order.by,
            worker=self.worker(),
            stretch=self.stretch,
            misses=self.misses,
            compact=self.compact,
        )

    def shown(self) -> Ints:
        """The lanes of the window from the top; worked out once for a window, as it rests while the playhead runs."""
        kept = self._shown
        if kept is None or kept[0] != self.window or kept[1] is not self.order:
            kept = (self.window, self.order, self.order.arrange(self.lanes.alive(self.window)))
            self._shown = kept
        return kept[2]

    def lane(self) -> Lane | None:
        """The selected lane."""
        return None if self.selected is None else self.lanes.lane(self.selected)

    def worker(self) -> int:
        """The worker of the selected lane, or the first there is."""
        lane = self.lane()
        mine = lane["worker"] if lane is not None else None
        return mine if mine is not None and mine in self.lanes.passes else next(iter(self.lanes.passes), 0)

    def passes(self) -> Passes | None:
        """The passes of that worker."""
        return self.lanes.passes.get(self.worker())

    def step_at(self, t: int) -> int | None:
        """The number of that worker's pass at an instant; of its last one afterwards."""
        passes = self.passes()
        place = passes.before(t) if passes is not None else None
        return None if passes is None or place is None else int(passes.columns["step"][place])

    def seek(self, t: int, now: int) -> None:
        """Send the playhead somewhere."""
        self.playhead = self.playhead.seek(t, now)

    def step_event(self, count: int, now: int) -> None:
        """To the next change of state, or the one before."""
        self.playhead = self.playhead.step(self.lanes.marks, now, count)

    def step_pass(self, count: int, now: int) -> None:
        """To the next beginning of a pass, or the one before."""
        passes = self.passes()
        if passes is not None:
            self.playhead = self.playhead.step(passes.starts, now, count)

    def nudge(self, columns: int, width: int, now: int) -> None:
        """By columns of a chart that is `width` wide."""
        distance = max(self.window.span // max(width, 1), 1) * columns
        self.playhead = self.playhead.pause(now).seek(self.playhead.position(now) + distance, now)

    def zoom(self, step: int, now: int) -> None:
        """Closer (1) or farther (-1), about the playhead."""
        self.zoom_about(step, self.playhead.position(now))

    def pan_to(self, t: int, now: int) -> None:
        """The playhead to an instant, and the window about it."""
        self.window = self.window.centred(t)
        self.seek(t, now)

    def zoom_about(self, step: int, t: int) -> None:
        """Closer (1) or farther (-1), about an instant that keeps its place."""
        numerator, denominator = (1, 2) if step > 0 else (2, 1)
        self.window = self.window.zoom(numerator, denominator, t)

    def select_by(self, step: int) -> None:
        """Select a lane further down (up) among those of the window."""
        shown = self.shown()
        if not len(shown):
            return
        place = place_of(shown, self.selected)
        if place is None:
            place = self._beside(shown) - (1 if step > 0 else 0)
        self.selected = int(shown[min(max(place + step, 0), len(shown) - 1)])

    def in_sight(self) -> int | None:
        """The selected lane, after selecting the nearest of those in the window where it is not among them."""
        shown = self.shown()
        if len(shown) and place_of(shown, self.selected) is None:
            self.selected = int(shown[min(self._beside(shown), len(shown) - 1)])
        return self.selected

    def scroll(self, lines: int, rows: int) -> None:
        """Other rows, and the selection no farther than it must go to stay among them."""
        shown = self.shown()
        self.top = max(min(self.top + lines, len(shown) - rows), 0)
        visible = shown[self.top : self.top + max(rows, 1)]
        if len(visible) and place_of(visible, self.selected) is None:
            self.selected = int(visible[0 if lines > 0 else -1])

    def _beside(self, shown: Ints) -> int:
        """Where the selected lane would stand among lanes as they arrived; in any other order that is the top."""
        selected = -1 if self.selected is None else self.selected
        return int(shown.searchsorted(selected)) if self.order.by == ARRIVAL else 0

    def begin_stretch(self, now: int) -> None:
        """Select from the playhead on; where a selection grows already, it stays as it is."""
        at = self.playhead.position(now)
        if self.extending:
            self.extending = False
        else:
            self.stretch, self.extending = Stretch.between(at, at), True

    def extend(self, columns: int, width: int, now: int) -> None:
        """Let the selection end by columns of the chart further on; begin one at the playhead where there is none."""
        if self.stretch is None or self.stretch.anchor is None:
            at = self.playhead.position(now)
            self.stretch = Stretch.between(at, at)
        self.nudge(columns, width, now)
        self.stretch = self.stretch.to(self.playhead.position(now))

    def look_closer(self, now: int) -> None:
        """The window to the selected stretch, and the playhead into it."""
        if self.stretch is not None:
            at = self.playhead.position(now)
            self.window = self.window.around(self.stretch.start, self.stretch.end)
            if not self.window.start <= at <= self.window.end:
                self.seek(self.stretch.start, now)

    def drop_stretch(self) -> None:
        """Select nothing."""
        self.stretch, self.extending = None, False

    def next_slow(self, step: int) -> int | None:
        """The next lane that is over the SLO, in the order of arrival; None where there is none that way."""
        slow = self.lanes.slow(self.slo_ns)
        selected = -1 if self.selected is None else self.selected
        ahead = slow[slow > selected] if step > 0 else slow[slow < selected][::-1]
        return int(ahead[0]) if len(ahead) else None

    def show(self, index: int, now: int) -> None:
        """Select a lane with its whole life on screen, and rest where it went over the SLO, or else at its end."""
        lane = self.lanes.lane(index)
        limit = _limit(self.lanes, self.slo_ns)
        missed = min(lane.arrival + limit, lane.finish) if limit else lane.finish
        if not (self.window.start <= lane.arrival and lane.finish <= self.window.end):
            self.window = self.window.around(lane.arrival, lane.finish)
        self.playhead = self.playhead.pause(now).seek(missed, now)
        self.selected = index

    def places(self, now: int, wall_offset: int | None) -> Places:
        """What a typed target may refer to; a request that is named gets selected if it is in sight."""
        return Places(
            start=self.playhead.start,
            end=self.playhead.end,
            position=self.playhead.position(now),
            request=self._arrival_of,
            step=self.lanes.pass_start,
            wall_offset=wall_offset,
        )

    def look_at_life(self, name: str) -> None:
        """A window as long as the life of a request, by its id or number; also of one that a filter leaves out."""
        index = self.lanes.find(name)
        if index is not None:
            lane = self.lanes.lane(index)
            self.window = self.window.around(lane.arrival, lane.finish)

    def _arrival_of(self, name: str) -> int | None:
        index = self.lanes.find(name)
        if index is None:
            return None
        if self.lanes.in_sight[index]:
            self.selected = index
        return self.lanes.lane(index).arrival


def _limit(lanes: Lanes, slo_ns: int | None) -> int:
    """How long a request may take, ns: the SLO, or else the p95 of the run."""
    return slo_ns if slo_ns is not None else lanes.p95 or 0
