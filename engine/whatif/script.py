"""The recorded passes of each worker as scripts to be followed: when each was, what it computed, who came in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.core import StepPlan
from engine.whatif.recorded import Recorded, WhatIfError
from recorder.tables import RunTables
from recorder.words import EventKind

Work = tuple[int, int, int]
"""rid, tokens, computed_before of a slice."""
_STAMPS: Final = ("t_sched", "t_exec", "t_done", "t_end", "device_ns")
_LEAVE_OUT: Final = "leave --recorded-steps out"


@dataclass
class Script:
    """The recorded passes of one worker, and how far they have been followed. Times from the recording's origin."""

    stamps: Mapping[str, npt.NDArray[np.int64]]
    works: Mapping[int, Sequence[Work]]
    """By pass, with rids as in virtual time."""
    taken_in: Mapping[int, int]
    """rid in virtual time -> pass in which the worker took it in."""
    cancelled: Mapping[int, int]
    """rid in virtual time -> pass in which the worker learnt that its client had gone."""
    following: bool = True
    followed: int = 0
    differs_at: int | None = None
    """The pass that was planned otherwise."""
    how: str = ""

    @classmethod
    def nothing(cls) -> "Script":
        """Of a worker that was not recorded: there is nothing to follow."""
        return cls({name: np.zeros(0, np.int64) for name in _STAMPS}, {}, {}, {}, following=False)

    def __len__(self) -> int:
        return len(self.stamps["t_sched"])

    def at(self, name: str, step: int) -> int:
        """A stamp of a recorded pass."""
        return int(self.stamps[name][step])

    def pass_from(self, t: int) -> int:
        """The first pass that begins at `t` or later: what a message takes part in of which no event tells."""
        return int(np.searchsorted(self.stamps["t_sched"], t))

    def compare(self, plan: StepPlan) -> None:
        """Go on following if the plan is the recorded one; else say where and how it differs."""
        if not self.following:
            return
        if plan.step >= len(self):
            self.following = False
            return
        planned = sorted((part.rid, part.tokens, part.computed_before) for part in plan.slices)
        then = sorted(self.works.get(plan.step, ()))
        if planned == then:
            self.followed += 1
        else:
            self.leave(plan.step, f"{_told(planned)}, recorded were {_told(then)}")

    def cut(self, step: int, how: str) -> None:
        """This pass, planned alike, is over sooner than it was."""
        self.followed -= 1
        self.leave(step, how)

    def leave(self, step: int, how: str) -> None:
        """From this pass on another time runs."""
        if self.following:
            self.following, self.differs_at, self.how = False, step, how


def read_scripts(recorded: Recorded) -> dict[int, Script]:
    """By worker. WhatIfError where the run has no steps, or not all of them."""
    tables, path = recorded.tables, recorded.tables.path
    steps = tables.table("steps").sort_by([("worker", "ascending"), ("step", "ascending")])
    if not steps.num_rows:
        raise WhatIfError(f"{path} holds no steps, so none can be followed; {_LEAVE_OUT}")
    if any(recorded.info.config.get("faults", {}).values()):
        raise WhatIfError(f"{path} lost a worker, and what it did last was not recorded; {_LEAVE_OUT}")
    if tables.left_out:
        raise WhatIfError(
            f'{path} was recorded with [record] keep = "tail", so not all steps were kept to be followed; {_LEAVE_OUT}'
        )
    works, events, rids = _works(tables), _events(tables), virtual_rids(tables)
    return {worker: _script(recorded, _of(steps, worker), works, events, rids) for worker in _workers(steps)}


def _script(recorded: Recorded, steps: pa.Table, works: pa.Table, events: pa.Table, rids: Mapping[int, int]) -> Script:
    worker = steps["worker"][0].as_py()
    if steps["step"].to_pylist() != list(range(steps.num_rows)):
        raise WhatIfError(f"{recorded.tables.path}: some steps are missing, so they can't be followed; {_LEAVE_OUT}")
    computed: dict[int, list[Work]] = {}
    for row in _of(works, worker).to_pylist():
        work = (rids[row["rid"]], row["tokens"], row["computed_before"])
        computed.setdefault(row["step"], []).append(work)
    told = _of(events, worker).to_pylist()
    return Script(
        {name: steps[name].to_numpy() - (recorded.origin if name != "device_ns" else 0) for name in _STAMPS},
        computed,
        taken_in=_passes(told, rids, EventKind.QUEUED, EventKind.REJECTED),
        cancelled=_passes(told, rids, EventKind.CANCELLED),
    )


def virtual_rids(tables: RunTables) -> dict[int, int]:
    """Recorded rid -> rid in virtual time, by the order of `read_recorded`."""
    requests = tables.table("requests")
    known = requests.filter(pc.is_valid(requests["prompt_tokens"]))
    ordered = known.sort_by([("arrival", "ascending"), ("rid", "ascending")])["rid"].to_pylist()
    return {rid: number for number, rid in enumerate(ordered, 1)}


def _workers(steps: pa.Table) -> list[int]:
    found: list[int] = pc.unique(steps["worker"]).to_pylist()
    return found


def _of(table: pa.Table, worker: int) -> pa.Table:
    return table.filter(pc.equal(table["worker"], worker))


def _works(tables: RunTables) -> pa.Table:
    return tables.table("slices").select(["worker", "step", "rid", "tokens", "computed_before"])


def _events(tables: RunTables) -> pa.Table:
    events = tables.table("events").select(["worker", "step", "rid", "kind"])
    return events.filter(pc.is_valid(events["step"]))


def _passes(events: Sequence[Mapping[str, Any]], rids: Mapping[int, int], *kinds: EventKind) -> dict[int, int]:
    return {rids[event["rid"]]: event["step"] for event in events if event["kind"] in kinds and event["rid"] in rids}


def _told(works: Sequence[Work]) -> str:
    return f"{sum(tokens for _, tokens, _ in works)} tokens of {len(works)} requests"
