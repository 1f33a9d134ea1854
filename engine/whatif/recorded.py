"""A recorded run as a simulation needs it: arrivals and lengths, the stamps to compare with, the configuration."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.config import Config, from_dict
from engine.cost.solve import Array
from engine.cost.stamps import Chosen, Stamps
from engine.simulate.front import Arrival
from engine.whatif.handed_on import note_silence, recorded_losses, whole_requests
from recorder.errors import UserError
from recorder.run import RunInfo
from recorder.tables import RunTables
from recorder.words import Status

STAMPS: Final = ("arrival", "queued", "first_scheduled", "first_token", "last_token", "returned")
_NEEDED: Final = (("scheduler", "max_num_seqs"), ("scheduler", "max_num_batched_tokens"))
"""Knobs without which a re-run would be of another engine. A run of our own always has them."""


class WhatIfError(UserError):
    """A run that can't be re-run, or a change that can't be made: says what is missing or wrong."""


@dataclass(frozen=True)
class Recorded:
    """A recording. Times are ns from `origin` on the run's clock; the n-th arrival is that of the n-th stamps."""

    info: RunInfo
    tables: RunTables
    arrivals: Sequence[Arrival]
    stamps: Stamps
    answered: Chosen
    workers: int
    routes: Sequence[int | None]
    """The worker of each; None where that is not known."""
    notes: tuple[str, ...]

    @property
    def origin(self) -> int:
        """What was subtracted from the run's times: a recording from real time starts at its clock's anchor."""
        return origin_of(self.info)


def origin_of(info: RunInfo) -> int:
    """The instant that becomes 0 in virtual time. Virtual runs keep their times."""
    return 0 if info.clock.kind == "virtual" else info.clock.mono_ns


def read_recorded(tables: RunTables) -> Recorded:
    """All attempts of a run in order of arrival. WhatIfError where none has the sizes and stamps that it takes."""
    rows = [row for row in _rows(tables) if row["prompt_tokens"] is not None and row["arrival"] is not None]
    rows = sorted(whole_requests(rows), key=lambda row: (row["arrival"], row["rid"]))
    answered = np.array([_is_answered(row) for row in rows], bool)
    if not answered.any():
        raise WhatIfError(
            f"{tables.path}: no answered request with its stamps is recorded, so there is nothing to re-run;"
            " give a run with requests that ended well"
        )
    origin = origin_of(tables.info)
    return Recorded(
        info=_with_losses(tables, origin),
        tables=tables,
        arrivals=_arrivals(rows, origin, _ends(tables)),
        stamps=_stamps(rows, origin),
        answered=answered,
        workers=_workers(tables.info, rows),
        routes=[row["worker"] for row in rows],
        notes=(*_notes(tables.info, rows), *_note_left_out(tables), *note_silence(tables)),
    )


def _workers(info: RunInfo, rows: Sequence[Mapping[str, Any]]) -> int:
    """How many there were: as the run tells, and at least those that served. Imported runs tell of none."""
    served = max((row["worker"] for row in rows if row["worker"] is not None), default=0) + 1
    if info.clock.kind == "virtual":
        return max(served, int(info.workload.get("workers", 1)))
    return max(served, len({device["worker"] for device in info.devices if "worker" in device}))


def _with_losses(tables: RunTables, origin: int) -> RunInfo:
    """The run's account of itself; workers that died in it die in its re-run. A virtual run has them planned."""
    info = tables.info
    lost = "" if info.clock.kind == "virtual" else recorded_losses(tables, origin)
    if not lost:
        return info
    return msgspec.structs.replace(info, config={**info.config, "faults": {"worker_lost": lost}})


def recorded_config(info: RunInfo, changes: Mapping[str, Mapping[str, object]] | None = None) -> Config:
    """The configuration of the run, with changes by section. ConfigError for values that can't be; WhatIfError where
    the recording lacks what a scheduler must know and the changes do not say it."""
    plain: dict[str, dict[str, Any]] = {section: dict(values) for section, values in info.config.items()}
    for section, values in (changes or {}).items():
        plain[section] = plain.get(section, {}) | dict(values)
    missing = [f"{section}.{name}" for section, name in _NEEDED if name not in plain.get(section, {})]
    if missing:
        raise WhatIfError(
            f"the recording does not say {', '.join(missing)}: give --set {' '.join(f'{name}=...' for name in missing)}"
        )
    return from_dict(plain, "what-if")


def _rows(tables: RunTables) -> list[dict[str, Any]]:
    requests = tables.table("requests")
    columns = (
        *("rid", "attempt", "retry_of", "request_id", "tenant", "tier", "worker"),
        *("status", "admitted", "deadline", *STAMPS),
        *("prompt_tokens", "max_tokens", "output_tokens", "cached_tokens", "prefix_of", "prefix_tokens"),
    )
    plain = requests.select(columns).set_column(
        columns.index("status"), "status", pc.cast(requests["status"], pa.string())
    )
    found: list[dict[str, Any]] = plain.to_pylist()
    return found


def _is_answered(row: Mapping[str, Any]) -> bool:
    stamped = all(row[name] is not None for name in STAMPS)
    return bool(row["status"] == Status.OK.value and stamped and row["output_tokens"])


def _ends(tables: RunTables) -> dict[tuple[int, int], int]:
    """(rid, attempt) -> end of the last span: when a cancelled attempt left."""
    last = tables.table("spans").group_by(["rid", "attempt"]).aggregate([("end", "max")])
    return {(row["rid"], row["attempt"]): row["end_max"] for row in last.to_pylist()}


def _arrivals(rows: Sequence[Mapping[str, Any]], origin: int, ends: Mapping[tuple[int, int], int]) -> list[Arrival]:
    numbers = {row["rid"]: number for number, row in enumerate(rows, 1)}
    return [_arrival(row, origin, ends.get((row["rid"], row["attempt"])), numbers) for row in rows]


def _arrival(row: Mapping[str, Any], origin: int, ended: int | None, numbers: Mapping[int, int]) -> Arrival:
    """Where the output length is known, only the executor gets it; `max_tokens` is what the scheduler may know.

    Where `max_tokens` was not recorded, the output length has to stand in for it.
    """
    output = row["output_tokens"] or None
    ingress = (row["admitted"] or row["arrival"]) - row["arrival"]
    gone = row["status"] in {Status.CANCELLED.value, Status.FAILED.value}
    return Arrival(
        arrival=row["arrival"] - origin,
        prompt_tokens=row["prompt_tokens"],
        max_tokens=row["max_tokens"] or output or 1,
        output_tokens=output if row["status"] == Status.OK.value else None,
        request_id=row["request_id"] or "",
        tier=row["tier"] or "",
        tenant=row["tenant"] or "",
        cancel_at=max((ended or 0) - ingress, row["arrival"]) - origin if gone else None,
        deadline=None if row["deadline"] is None else row["deadline"] - origin,
        prefix_of=numbers.get(row["prefix_of"], 0),
        prefix_tokens=row["prefix_tokens"] or 0 if row["prefix_of"] in numbers else 0,
    )


def _stamps(rows: Sequence[Mapping[str, Any]], origin: int) -> Stamps:
    def column(name: str, less: int) -> Array:
        return np.array([np.nan if row[name] is None else row[name] - less for row in rows], np.float64)

    sizes = [column(name, 0) for name in ("prompt_tokens", "last_output_tokens")]
    return Stamps(*(column(name, origin) for name in STAMPS), *sizes)


def _notes(info: RunInfo, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if any(row["max_tokens"] is None for row in rows):
        yield "max_tokens is not recorded: each request's output length stands in for it"
    cached = sum(row["cached_tokens"] or 0 for row in rows)
    if cached and all(row["prefix_tokens"] is None for row in rows):
        yield f"{cached:,} prompt tokens came from the prefix cache; which prompts share them is not, so none do"
    if is_closed_loop(info):
        yield "the recording is of a closed loop: another configuration would have moved its arrivals; here they stay"
    if count := sum(row["status"] == Status.OPEN.value for row in rows):
        yield f"{count} requests were still open: they are taken to go on until their max_tokens"


def _note_left_out(tables: RunTables) -> Iterator[str]:
    if passes := tables.left_out.passes:
        yield f'[record] keep = "tail" left out {passes:,} steps: the cost of a step is fitted to the others alone'


def is_closed_loop(info: RunInfo) -> bool:
    """Whether the load waited for answers, as far as the run says."""
    return "closed" in str(info.workload.get("loop", info.workload.get("kind", "")))
