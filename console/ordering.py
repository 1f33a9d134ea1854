"""In which order lanes stand below each other: as they arrived, by latency, or by the time in a phase. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from console.timeline import Ints
from recorder.words import Phase

if TYPE_CHECKING:
    from console.lanes import Lanes

ARRIVAL: Final = "arrival"
LATENCY: Final = "latency"
ORDERS: Final = (ARRIVAL, LATENCY, *(phase.value for phase in Phase))
"""By what lanes can be sorted; all but the arrival with the most on top."""


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """An order of all lanes of a run. `lanes` are their numbers from the top; None: as they arrived."""

    by: str = ARRIVAL
    lanes: Ints | None = None

    @classmethod
    def of(cls, by: str, amounts: Ints) -> Self:
        """The largest of `amounts` (one a lane) on top; of equal ones the one that arrived first."""
        return cls(by, np.argsort(-amounts, kind="stable").astype(np.int64))

    def arrange(self, shown: Ints) -> Ints:
        """Some of the lanes, in this order. A filter takes lanes away and never changes who stands above whom."""
        if self.lanes is None:
            return shown
        among = np.zeros(len(self.lanes), bool)
        among[shown] = True
        arranged: Ints = self.lanes[among[self.lanes]]
        return arranged


def order_of(lanes: "Lanes", by: str) -> Order:
    """Lanes by one of `ORDERS`. The life of who is still there counts as far as it is known."""
    if by == ARRIVAL:
        return Order()
    lived = lanes.columns["finish"] - lanes.columns["arrival"]
    return Order.of(by, lived if by == LATENCY else lanes.time_in(by))


def next_order(by: str, step: int) -> str:
    """The order that comes `step` after another."""
    return ORDERS[(ORDERS.index(by) + step) % len(ORDERS)]


def place_of(shown: Ints, lane: int | None) -> int | None:
    """Where a lane stands among those that are shown; None where it is not."""
    places = np.flatnonzero(shown == (-1 if lane is None else lane))
    return int(places[0]) if len(places) else None
