"""What the compare screen shows of its runs, read in a thread: numbers, pairs, lanes, curves, causes of a pair."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import duckdb
import numpy as np

from console.asking import Superseded
from console.book import Book, read_lanes
from console.compare import Comparison, compare_all, pair
from console.filter import Filter
from console.lanes import Lanes
from console.session import Session
from console.timeline import Floats
from console.widgets.detail import Cause
from console.widgets.pairs import Pairs, by_change

METRICS: Final = ("e2e", "ttft", "tpot")
Seen = tuple[Filter, Lanes]


class Answer(NamedTuple):
    """Everything that is shown: of each other run against the first, and of all runs.

    `read` are all lanes of each run, and those under the filter; `curves` the times of each measure in ms, run by run.
    """

    comparisons: Sequence[Comparison]
    pairs: Sequence[Pairs]
    read: Sequence[tuple[Lanes, Seen]]
    curves: dict[str, list[list[float]]]

    @property
    def lanes(self) -> list[Lanes]:
        """Those under the filter, run by run."""
        return [seen for _, (_, seen) in self.read]


def read_answer(
    books: Sequence[Book], only: Filter, slo_ns: int | None, _session: Session, _cursor: duckdb.DuckDBPyConnection
) -> Answer:
    """Everything about the runs."""
    import console.text.curves  # noqa: F401  # so that plotext is there when the screen draws

    sessions = [book.session() for book in books]
    comparisons = compare_all(sessions, only, slo_ns)
    read = [_read_lanes(book, only) for book in books]
    seen = [lanes for _, (_, lanes) in read]
    curves = {metric: [_milliseconds(lanes, metric) for lanes in seen] for metric in METRICS}
    return Answer(comparisons, [_pairs(sessions[0], other, only) for other in sessions[1:]], read, curves)


def read_both_causes(
    books: tuple[Book, Book],
    lanes: tuple[Lanes, Lanes],
    rids: tuple[int, int],
    _session: Session,
    _cursor: duckdb.DuckDBPyConnection,
) -> tuple[list[Cause], list[Cause]]:
    """The causes of one request in two runs."""
    a, b = map(_causes_in, books, lanes, rids)
    return a, b


def _causes_in(book: Book, run: Lanes, rid: int) -> list[Cause]:
    from console.screens.request import read_causes

    index = run.of_rid(rid)
    if index is None:
        raise Superseded
    session = book.session()
    with session.connect() as cursor:
        return read_causes(session, cursor, rid, run.lane(index).attempt)


def _read_lanes(book: Book, only: Filter) -> tuple[Lanes, Seen]:
    session = book.session()
    with session.connect() as cursor:
        return read_lanes(book, only, session, cursor)


def _pairs(a: Session, b: Session, only: Filter) -> Pairs:
    rows = pair(a, b, only).answered
    names, rids_a, rids_b = (rows[name].to_pylist() for name in ("request_id", "rid_a", "rid_b"))
    times = tuple(np.asarray(rows[f"e2e_ns_{side}"].to_numpy(), np.float64) for side in "ab")
    return by_change(names, (rids_a, rids_b), (times[0], times[1]))


def _milliseconds(lanes: Lanes, metric: str) -> list[float]:
    values = lanes.columns[metric][lanes.ok]
    known: Floats = values[values >= 0] / 1e6
    return [float(value) for value in known]
