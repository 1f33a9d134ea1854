"""The columns of lanes: one row a lane from one question, or, of a large run, a column at a time to spare memory."""

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from console.session import Session
from console.timeline import Bools, Ints
from recorder.schema import NONE

if TYPE_CHECKING:
    import duckdb

TEXTS: Final = ("request_id", "tier", "status", "reason")
_READ: Final = ("arrival", "queued", "first_scheduled", "first_token", "last_token", "returned")
STAMPS: Final = (*_READ, "finish")
COUNTS: Final = ("rid", "attempt", "worker", "prompt_tokens", "output_tokens", "cached_tokens", "preemptions")
MEASURES: Final = ("ttft", "tpot", "e2e")

Columns = tuple[dict[str, Ints], dict[str, pa.ChunkedArray]]
"""Numbers, `NONE` where one is not known; and texts."""


def read_columns(session: Session, cursor: "duckdb.DuckDBPyConnection", high: int) -> Columns:
    """All lanes in the order of arrival; an open one ends at `high`."""
    if session.is_in_order:
        return _in_turn(session, cursor, high)
    rows = session.ask("timeline_lanes", cursor=cursor, high=high)
    numbers = {name: ints(rows, name) for name in (*STAMPS, *COUNTS, *MEASURES)}
    return numbers, {name: rows[name] for name in TEXTS}


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers; NULL becomes `NONE`."""
    column: Ints = table[name].cast(pa.int64()).fill_null(NONE).to_numpy()
    return column


def _in_turn(session: Session, cursor: "duckdb.DuckDBPyConnection", high: int) -> Columns:
    def column(name: str) -> pa.Table:
        return session.query(f"SELECT {name} AS it FROM requests", cursor=cursor)

    texts = {name: column(name)["it"] for name in TEXTS}
    texts = {name: each if name == "request_id" else each.dictionary_encode() for name, each in texts.items()}
    is_open = pc.fill_null(pc.equal(texts["status"].cast(pa.string()), "open"), False).to_numpy()
    numbers = {name: ints(column(name), "it") for name in (*_READ, *COUNTS)}
    last = np.maximum.reduce([ints(column("admitted"), "it"), *(numbers[name] for name in _READ[:-1])])
    last = _until_gone(session, cursor, last, numbers, is_open)
    last = np.where(is_open, np.maximum(numbers["arrival"], high), last)
    numbers["finish"] = np.where(numbers["returned"] != NONE, numbers["returned"], last)
    numbers["ttft"] = _between(numbers["arrival"], numbers["first_token"])
    numbers["tpot"] = ints(session.query("SELECT tpot_ns::BIGINT AS it FROM latency", cursor=cursor), "it")
    numbers["e2e"] = _between(numbers["arrival"], numbers["returned"])
    return numbers, texts


def _until_gone(
    session: Session, cursor: "duckdb.DuckDBPyConnection", last: Ints, numbers: dict[str, Ints], is_open: Bools
) -> Ints:
    """Who never returned was there until its worker said that it had gone, where that is the last known of it."""
    lost = np.flatnonzero((numbers["returned"] == NONE) & ~is_open)
    if not len(lost):
        return last
    gone = session.ask("timeline_gone", cursor=cursor, rids=np.unique(numbers["rid"][lost]).tolist())
    rids, instants = ints(gone, "rid"), ints(gone, "t")
    place = np.searchsorted(rids, numbers["rid"][lost])
    found = (
        (place < len(rids)) & (rids[np.minimum(place, len(rids) - 1)] == numbers["rid"][lost])
        if len(rids)
        else place < 0
    )
    last[lost[found]] = np.maximum(last[lost[found]], instants[place[found]])
    return last


def _between(start: Ints, end: Ints) -> Ints:
    return np.where((start != NONE) & (end != NONE), end - start, NONE)
