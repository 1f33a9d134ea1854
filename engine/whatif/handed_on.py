"""Workers that a recording lost, as a re-run is told of them: the losses, and requests that changed hands."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from recorder.tables import RunTables
from recorder.words import EventKind, Reason

Row = dict[str, Any]


def whole_requests(rows: Sequence[Row]) -> list[Row]:
    """Rows of attempts as rows of requests: one that was handed on is asked once, and ended as its last attempt did.

    Such attempts are counted from the first one's arrival. A client that came again by itself asked again, too.
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
        return first
    asked = ("rid", "attempt", "worker", "admitted", "prompt_tokens", "max_tokens", "prefix_of", "prefix_tokens")
    output = last["output_tokens"]
    if output is not None:  # what its client already had is in the prompt of the last attempt
        output += last["prompt_tokens"] - first["prompt_tokens"]
    return {**last, **{name: first[name] for name in asked}, "output_tokens": output}


def recorded_losses(tables: RunTables, origin: int) -> str:
    """The workers that died, as `[faults] worker_lost` has them, in time from `origin`."""
    events = tables.table("events")
    died = pc.and_(
        pc.equal(events["kind"].cast("string"), EventKind.WORKER_LOST.value),
        pc.not_equal(events["reason"].cast("string"), Reason.HEARTBEAT.value),
    )
    lost = events.filter(died).select(["t", "worker"]).to_pylist()
    return " ".join(f"{row['worker']}@{max(row['t'] - origin, 0) / 1e9:.9f}" for row in lost)
