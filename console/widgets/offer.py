"""The list under the cursor of an editor: what the word may go on as. Its lines, and the paper over the screen."""

from collections.abc import Callable
from functools import partial
from typing import Final

from textual.geometry import Offset

from console.querying.completing import Offer
from console.widgets.ink import Line, clean, fit, pad
from console.widgets.paper import Paper
from console.widgets.spots import Spot

ROWS: Final = 6
_NAME: Final = (12, 30)
_KINDS: Final = {"table": "▤", "column": "·", "function": "ƒ", "keyword": "▪"}


def rows_of(offer: Offer) -> range:
    """The candidates that are shown: those about the chosen one."""
    first = max(min(offer.chosen - ROWS // 2, len(offer.candidates) - ROWS), 0)
    return range(first, min(first + ROWS, len(offer.candidates)))


def offer_lines(offer: Offer, width: int) -> list[Line]:
    """Those candidates, each with what it is."""
    name = min(max(*(len(one.text) for one in offer.candidates), _NAME[0]), _NAME[1])
    lines = []
    for place in rows_of(offer):
        one = offer.candidates[place]
        ground = " on.line" if place == offer.chosen else ""
        line: Line = [
            ("▸" if place == offer.chosen else " ", f"accent bold{ground}"),
            (f"{_KINDS[one.kind]} ", f"muted{ground}"),
            (fit(clean(one.text), name), f"{'strong' if place == offer.chosen else 'text'}{ground}"),
            (f"  {clean(one.doc) or one.kind}", f"muted{ground}"),
        ]
        lines.append(pad(line, width, f"text{ground}"))
    return lines


class OfferList(Paper):
    """Lies over what is below the cursor while there is something to offer, and takes no focus. A click takes a row."""

    DEFAULT_CSS = """
    OfferList {
        display: none; layer: above; overlay: screen; position: absolute; constrain: inside inflect;
        width: 64; max-width: 100%; height: auto; background: $surface; border-left: thick $accent;
    }
    OfferList.-some { display: block; }
    """

    def __init__(self, asked: Callable[[], Offer | None], take: Callable[[int], None]) -> None:
        super().__init__(self._page, id="offer", spots=self._rows)
        self._asked = asked
        self._take = take

    def fit_to(self, cursor: Offset) -> None:
        """Show what there is below the word that ends at a cell of the screen, or go."""
        offer = self._asked()
        self.set_class(offer is not None, "-some")
        if offer is not None:
            self.absolute_offset = Offset(max(cursor.x - (offer.end - offer.start) - 4, 0), cursor.y + 1)
            self.redraw(layout=True)

    def _rows(self) -> list[Spot]:
        offer = self._asked()
        places = () if offer is None else rows_of(offer)
        return [Spot(0, y, partial(self._take, place)) for y, place in enumerate(places)]

    def _page(self, width: int, _height: int) -> list[Line]:
        offer = self._asked()
        return [] if offer is None else offer_lines(offer, width)
