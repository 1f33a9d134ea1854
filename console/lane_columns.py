"""The columns of lanes: one row a lane from one question, or, of a large run, a column at a time to spare memory.

Counts are kept in few bytes, and what follows from the stamps is worked out where it is looked at: in a run of millions
of requests every whole column of int64 is more than ten megabytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from console.narrow import Narrow, Words, narrow, number_at, widened
from console.session import Session
from console.timeline import Bools, Ints
from recorder.attribution.columns import in_order
from recorder.schema import NONE
from recorder.words import Status

if TYPE_CHECKING:
    import duckdb

WORDS: Final = ("tier", "status", "reason")
_READ: Final = ("arrival", "queued", "first_scheduled", "first_token", "last_token", "returned")
_KEPT: Final = (*_READ[:-1], "finish")
COUNTS: Final = ("rid", "attempt", "worker", "prompt_tokens", "output_tokens", "cached_tokens", "preemptions")
NAMES: Final = (*_READ, "finish", *COUNTS, "ttft", "tpot", "e2e")
"""The numbers of a lane."""

_Read = tuple[dict[str, Ints], dict[str, Narrow], Words]
"""Stamps, counts and status."""

Places = slice | Ints | Bools
"""Some lanes, by their place in the order of arrival."""
EVERY: Final = slice(None)


class Columns:
    """The numbers of all lanes, `NONE` where one is not known."""

    def __init__(self, stamps: Mapping[str, Ints], counts: Mapping[str, Narrow]) -> None:
        """`stamps` have a `finish`, which is the return of a lane that has returned; `counts` are those of `COUNTS`."""
        self._stamps = {name: stamps[name] for name in _KEPT}
        self._returned = stamps["returned"] != NONE
        self.counts = counts

    def __len__(self) -> int:
        return len(self._returned)

    def __getitem__(self, name: str) -> Ints:
        return self.at(name, EVERY)

    def at(self, name: str, places: Places) -> Ints:
        """One of `NAMES`, of some lanes."""
        if name in self._stamps:
            return self._stamps[name][places]
        if name in self.counts:
            return widened(self.counts[name][places])
        if name == "tpot":
            return self._tpot(places)
        if name == "e2e":
            return self._e2e[places]
        end = self._stamps["first_token"][places] if name == "ttft" else self._returns(places)
        return end if name == "returned" else _between(self._stamps["arrival"][places], end)

    def lane(self, place: int) -> dict[str, int | None]:
        """All numbers of one lane; a frame asks for those of every lane that it draws."""
        numbers = {name: number_at(column, place) for name, column in (*self._stamps.items(), *self.counts.items())}
        arrival, first, last, tokens = (
            numbers[name] for name in ("arrival", "first_token", "last_token", "output_tokens")
        )
        numbers["returned"] = returned = numbers["finish"] if self._returned[place] else None
        numbers["ttft"] = _since(arrival, first)
        answered, gaps = _since(first, last), (tokens or 1) - 1
        numbers["tpot"] = None if answered is None or gaps < 1 else round(answered / gaps)
        numbers["e2e"] = _since(arrival, returned)
        return numbers

    @cached_property
    def _e2e(self) -> Ints:
        """Every picture asks for it, and every filter."""
        return _between(self._stamps["arrival"], self._returns(EVERY))

    def _returns(self, places: Places) -> Ints:
        return np.where(self._returned[places], self._stamps["finish"][places], NONE)

    def _tpot(self, places: Places) -> Ints:
        answered = _between(self._stamps["first_token"][places], self._stamps["last_token"][places])
        tokens = widened(self.counts["output_tokens"][places])
        known = (answered != NONE) & (tokens > 1)
        times = np.full(answered.shape, NONE)
        times[known] = np.rint(answered[known] / (tokens[known] - 1)).astype(np.int64)
        return times


@dataclass(frozen=True)
class Texts:
    """What lanes are called, whose they are, and why they stand as they do."""

    request_ids: pa.ChunkedArray
    tier: Words
    reason: Words

    def ordered(self, order: Ints) -> "Texts":
        """Those of the same lanes in another order."""
        return Texts(self.request_ids.take(pa.array(order)), self.tier.ordered(order), self.reason.ordered(order))


def read_columns(
    session: Session, cursor: "duckdb.DuckDBPyConnection", high: int
) -> tuple[Columns, Words, Texts | None]:
    """All lanes in the order of arrival, their status, and their texts where they come with them.

    A lane that is open ends at `high`.
    """
    if session.is_in_order:
        stamps, counts, status = _in_turn(session, cursor, high)
        return Columns(stamps, counts), status, None
    if session.is_followed:
        return _put_in_order(session, cursor, high)
    rows = session.ask("timeline_lanes", cursor=cursor, high=high)
    stamps = {name: ints(rows, name) for name in (*_READ, "finish")}
    columns = Columns(stamps, {name: narrow(ints(rows, name)) for name in COUNTS})
    return columns, Words.of(rows["status"]), _texts(lambda name: rows[name])


def read_texts(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Texts:
    """The texts of a run whose lanes were read without."""
    return _texts(partial(_column, session, cursor))


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers; NULL becomes `NONE`."""
    return _ints(table[name])


def _ints(column: pa.ChunkedArray) -> Ints:
    whole = column.cast(pa.int64())
    found: Ints = (whole.fill_null(NONE) if whole.null_count else whole).to_numpy()
    return found


def _texts(column: Callable[[str], pa.ChunkedArray]) -> Texts:
    return Texts(column("request_id"), Words.of(column("tier")), Words.of(column("reason")))


def _column(session: Session, cursor: "duckdb.DuckDBPyConnection", name: str) -> pa.ChunkedArray:
    return session.query(f"SELECT {name} AS it FROM requests", cursor=cursor)["it"]


def _status(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Words:
    place = "(list_position($words::VARCHAR[], status) - 1)::TINYINT"
    codes = session.query(f"SELECT {place} AS it FROM requests", cursor=cursor, words=sorted(Status))
    return Words.coded(Status, codes["it"])


def _in_turn(session: Session, cursor: "duckdb.DuckDBPyConnection", high: int) -> _Read:
    column = partial(_column, session, cursor)
    stamps = {name: _ints(column(name)) for name in _READ}
    counts = {name: narrow(_ints(column(name))) for name in COUNTS}
    status = _status(session, cursor)
    lost = np.flatnonzero(stamps["returned"] == NONE)
    stamps["finish"] = stamps["returned"].copy() if len(lost) else stamps["returned"]
    if len(lost):
        admitted = session.query("SELECT admitted AS it FROM requests WHERE returned IS NULL", cursor=cursor)
        last = np.maximum.reduce([ints(admitted, "it"), *(stamps[name][lost] for name in _READ[:-1])])
        last = _until_gone(session, cursor, last, widened(counts["rid"][lost]), ~status.are("open")[lost])
        stamps["finish"][lost] = np.where(status.are("open")[lost], np.maximum(stamps["arrival"][lost], high), last)
    return stamps, counts, status


def _put_in_order(session: Session, cursor: "duckdb.DuckDBPyConnection", high: int) -> tuple[Columns, Words, Texts]:
    """Of a run that is followed nearly all lie in the order of arrival: places are sorted in no time, rows are not."""
    cursor.begin()  # every column of the same rows, whatever comes meanwhile
    try:
        stamps, counts, status = _in_turn(session, cursor, high)
        texts = read_texts(session, cursor)
    finally:
        cursor.rollback()
    order = in_order(stamps["arrival"], widened(counts["rid"]), widened(counts["attempt"]))
    columns = Columns(
        {name: column[order] for name, column in stamps.items()},
        {name: column[order] for name, column in counts.items()},
    )
    return columns, status.ordered(order), texts.ordered(order)


def _until_gone(session: Session, cursor: "duckdb.DuckDBPyConnection", last: Ints, rids: Ints, ended: Bools) -> Ints:
    """Who never returned was there until its worker said that it had gone, where that is the last known of it."""
    gone = session.ask("timeline_gone", cursor=cursor, rids=np.unique(rids[ended]).tolist())
    known, instants = ints(gone, "rid"), ints(gone, "t")
    if not len(known):
        return last
    place = np.minimum(np.searchsorted(known, rids), len(known) - 1)
    return np.where(ended & (known[place] == rids), np.maximum(last, instants[place]), last)


def _between(start: Ints, end: Ints) -> Ints:
    return np.where((start != NONE) & (end != NONE), end - start, NONE)


def _since(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start
