"""Workers that a recording lost, as a re-run is told of them: the losses, and requests that changed hands."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from recorder.tables import RunTables
from recorder.words import EventKind, Reason

Row = dict[str, Any]


def whole_requests(rows: Sequence[Row]) -> list[Row]:
    """Rows of attempts as rows of requests: one that was handed on is asked once, and ended as its last attempt did.

    Such attempts are counted from the first one's arrival. A client that came again by itself asked again, too.
    `last_output_tokens` are those that the stamps of the last attempt are about.
    """
    by_rid = {row["rid"]: row for row in rows}
    following: dict[int, Row] = {}
    for row in rows:
        before = by_rid.get(row["retry_of"])
        if before is not None and before["arrival"] == row["arrival"]:
            following[before["rid"]] = row
    continued = {row["rid"] for row in following.values()}
    return [_joined(row, following) for row in rows if row["rid"] not in continued]


def _joined(first: Row, following: Mapping[int, Row]) -> Row:
    last = first
    while last["rid"] in following:
        last = following[last["rid"]]
    if last is first:
        return {**first, "last_output_tokens": first["output_tokens"]}
    asked = ("rid", "attempt", "worker", "admitted", "prompt_tokens", "max_tokens", "prefix_of", "prefix_tokens")
    output = last["output_tokens"]
    if output is not None:  # what its client already had is in the prompt of the last attempt
        output += last["prompt_tokens"] - first["prompt_tokens"]
    mine = {name: first[name] for name in asked}
    return {**last, **mine, "output_tokens": output, "last_output_tokens": last["output_tokens"]}


def recorded_losses(tables: RunTables, origin: int) -> str:
    """The workers that died, as `[faults] worker_lost` has them, in time from `origin`."""
    died = [row for row in _lost(tables) if row["reason"] != Reason.HEARTBEAT.value]
    return " ".join(f"{row['worker']}@{max(row['t'] - origin, 0) / 1e9:.9f}" for row in died)


def note_silence(tables: RunTables) -> Iterator[str]:
    """What a re-run of a server's recording does not repeat: workers that came back from a silence."""
    silent = sorted({row["worker"] for row in _lost(tables) if row["reason"] == Reason.HEARTBEAT.value})
    if silent and tables.info.clock.kind != "virtual":
        yield f"worker {', '.join(map(str, silent))} was taken out for its silence for a while; in a re-run nobody is"


def _lost(tables: RunTables) -> list[Row]:
    events = tables.table("events").select(["t", "worker", "kind", "reason"])
    kinds = events["kind"].cast("string")
    found: list[Row] = events.filter(pc.equal(kinds, EventKind.WORKER_LOST.value)).to_pylist()
    return found
