"""One picture of the timeline before it is drawn: what is shown, and which cells of the screen show it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.lanes import Lanes
from console.marks import Marks
from console.ordering import ARRIVAL, place_of
from console.selecting import Stretch
from console.timeline import Ints, Window

STEPS: Final = "steps"
WAITING: Final = "waiting"
KV: Final = "kv"
DEVICE: Final = "device"

WIDE: Final = 100
"""From this width on the gutter also says how each request stands."""
_TALL: Final = 30
"""From this height on the minimap has a second row."""
_ROOMY: Final = (12, 18)
"""From this room on the strips that have a height get a row more."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the playhead stands, what is shown, what is selected. Drawn once, never changed.

    `shown` are the lanes of the window from the top (None: as they arrived), `top` is the first of them on screen,
    `misses` the instants at which requests went over the SLO.
    """

    at: int
    window: Window
    selected: int | None
    top: int
    slow: frozenset[int] = frozenset()
    marks: Marks = ()
    shown: Ints | None = None
    order: str = ARRIVAL
    worker: int | None = None
    stretch: Stretch | None = None
    misses: Ints | None = None
    compact: bool = False

    def lanes_of(self, lanes: Lanes) -> Ints:
        """The lanes of the window, from the top."""
        return lanes.alive(self.window) if self.shown is None else self.shown


@dataclass(frozen=True, slots=True)
class Band:
    """One strip of one worker, in `height` rows. A `brief` one is all there is of its worker, and says the rest."""

    worker: int
    what: str
    height: int = 1
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """Cells of one picture: `gutter` columns of labels, `chart` columns of time; rows of the minimap, the axis, the
    bands and the lanes, in this order. Any of them may be zero. For `unseen` workers there was no room."""

    gutter: int
    chart: int
    minimap: int
    bands: tuple[Band, ...]
    strips: int
    rows: int
    unseen: int = 0

    def is_minimap(self, y: int) -> bool:
        """Whether the minimap is in a row of the picture."""
        return 0 <= y < self.minimap

    def lane_row(self, y: int) -> int | None:
        """Which row of lanes is in a row of the picture, counted from its first."""
        return y - self.strips if self.strips <= y < self.strips + self.rows else None


def geometry(lanes: Lanes, width: int, height: int, *, compact: bool = False, worker: int | None = None) -> Geometry:
    """How the picture of a run is divided; `worker` is the one that is looked at."""
    workers = list(lanes.passes)
    looked_at = worker if worker in workers else next(iter(workers), None)
    minimap = 2 if height >= _TALL and not compact else 1
    shown = bands(workers, looked_at, height // (4 if compact else 3), compact=compact)
    strips = min(minimap + 1 + sum(band.height for band in shown), max(height, 0))
    gutter = min(30 if width >= WIDE else 16, max(width // 2, 0))
    unseen = len(workers) - len({band.worker for band in shown})
    return Geometry(gutter, max(width - gutter, 0), minimap, shown, strips, max(height - strips, 0), unseen)


def bands(workers: Sequence[int], looked_at: int | None, room: int, *, compact: bool) -> tuple[Band, ...]:
    """What there is room for, in the order of workers: all strips of the one that is looked at, of the others how they
    spent their passes; of every worker only that in a compact picture."""
    if looked_at is None:
        return ()
    own: tuple[Band, ...] = (Band(looked_at, STEPS, brief=True),)
    if room >= 4 and not compact:
        height = 1 + sum(room >= enough for enough in _ROOMY)
        own = (Band(looked_at, STEPS), *(Band(looked_at, what, height) for what in (WAITING, KV, DEVICE)))
    left = max(room - sum(band.height for band in own), 0)
    others = [worker for worker in workers if worker != looked_at][:left]
    chosen = {looked_at: own, **{worker: (Band(worker, STEPS, brief=True),) for worker in others}}
    return tuple(band for worker in sorted(chosen) for band in chosen[worker])


def top_for(selected: int | None, shown: Ints, top: int, rows: int) -> int:
    """The first visible row so that the selected lane is among `rows` rows; as near as can be to `top`."""
    top = max(min(top, len(shown) - rows), 0)
    place = place_of(shown, selected)
    if place is None or rows <= 0:
        return top
    return min(max(top, place - rows + 1), place)


def top_following(lanes: Lanes, shown: Ints, at: int, top: int, rows: int) -> int:
    """The first visible row so that the lanes that live at `at` are on screen; as near as can be to `top`.

    `shown` are in the order of arrival, and `at` is in the window that they are the lanes of.
    """
    top = max(min(top, len(shown) - rows), 0)
    living = lanes.alive(replace(lanes.window, start=at, end=at + 1))
    living = living[lanes.columns["finish"][living] > at]
    if not len(living) or not len(shown) or rows <= 0:
        return top
    first, last = (min(int(place), len(shown) - 1) for place in shown.searchsorted(living[[0, -1]]))
    if last >= top + rows:
        top = last - rows + 1
    return max(min(top, first), 0)
