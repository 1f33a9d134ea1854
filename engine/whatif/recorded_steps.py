"""Follow a recording pass by pass, each taking the time it took, until the scheduler plans another step than then.

Up to that pass the what-if is not an estimate but what happened. From there on the fitted cost tells the time.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.core import Commit, Sampled, Scheduler, StepPlan, StepResult
from engine.cost.model import CostFit
from engine.ledger import RunLedger
from engine.loop import Loop
from engine.messages import Cancel, Drain, Sampling, Submit, ToWorker
from engine.scheduling import StepTimeModel
from engine.simulate.clock import Delays, HostTime, VirtualClock
from engine.simulate.cost import KnownCost
from engine.simulate.files import VirtualRun
from engine.simulate.front import Arrival, VirtualFrontEnd
from engine.simulate.setup import Setup
from engine.simulate.stepped import Beacon
from engine.whatif.recorded import Recorded, WhatIfError
from engine.whatif.rerun import Engine, Rerun, stamps_of
from recorder.tables import RunTables
from recorder.words import EventKind

Work = tuple[int, int, int]
"""rid, tokens, computed_before of a slice."""
_STAMPS: Final = ("t_sched", "t_exec", "t_done", "t_end", "device_ns")


@dataclass(frozen=True)
class Replayed(Rerun):
    """What came of following: `differs_at` is the first step that was planned otherwise, None if none was."""

    followed: int
    recorded: int
    differs_at: int | None
    how: str

    def document(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "followed": self.followed,
            "recorded": self.recorded,
            "differs_at_step": self.differs_at,
            "how": self.how,
        }


@dataclass
class _Script:
    """The recorded passes of the one worker, and how far they have been followed. Times from the recording's origin."""

    stamps: Mapping[str, npt.NDArray[np.int64]]
    works: Mapping[int, Sequence[Work]]
    rids: Mapping[int, int]
    """Recorded rid -> rid in virtual time."""
    taken_in: Mapping[int, int]
    """rid in virtual time -> pass in which its worker took it in."""
    cancelled: Mapping[int, int]
    """rid in virtual time -> pass in which its worker learnt that its client had gone."""
    following: bool = True
    followed: int = 0
    differs_at: int | None = None
    how: str = ""

    @classmethod
    def read(cls, recorded: Recorded) -> "_Script":
        """WhatIfError where the run has no steps, not all of them, or those of several workers."""
        steps = recorded.tables.table("steps").sort_by("step")
        path = recorded.tables.path
        if not steps.num_rows:
            raise WhatIfError(f"{path} holds no steps, so none can be followed; leave --recorded-steps out")
        if recorded.tables.left_out:
            raise WhatIfError(
                f'{path} was recorded with [record] keep = "tail", so not all steps were kept to be followed;'
                " leave --recorded-steps out"
            )
        if recorded.workers > 1:
            raise WhatIfError(f"{path}: the steps of {recorded.workers} workers can't be followed at once")
        if steps["step"].to_pylist() != list(range(steps.num_rows)):
            raise WhatIfError(f"{path}: some steps are missing, so they can't be followed; leave --recorded-steps out")
        stamps = {name: steps[name].to_numpy() - (recorded.origin if name != "device_ns" else 0) for name in _STAMPS}
        rids = _rids(recorded.tables)
        events = _events(recorded.tables)
        return cls(
            stamps,
            _works(recorded.tables),
            rids,
            taken_in=_passes(events, rids, EventKind.QUEUED, EventKind.REJECTED),
            cancelled=_passes(events, rids, EventKind.CANCELLED),
        )

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
        then = sorted((self.rids[rid], *rest) for rid, *rest in self.works.get(plan.step, ()))
        if planned == then:
            self.followed += 1
            return
        self.following, self.differs_at = False, plan.step
        self.how = f"{_told(planned)}, recorded were {_told(then)}"


def _told(works: Sequence[Sequence[int]]) -> str:
    return f"{sum(work[1] for work in works)} tokens of {len(works)} requests"


def _works(tables: RunTables) -> dict[int, list[Work]]:
    slices = tables.table("slices").select(["step", "rid", "tokens", "computed_before"])
    works: dict[int, list[Work]] = {}
    for row in slices.to_pylist():
        works.setdefault(row["step"], []).append((row["rid"], row["tokens"], row["computed_before"]))
    return works


def _events(tables: RunTables) -> list[dict[str, Any]]:
    events = tables.table("events").select(["rid", "step", "kind"])
    found: list[dict[str, Any]] = events.to_pylist()
    return found


def _passes(events: Sequence[Mapping[str, Any]], rids: Mapping[int, int], *kinds: EventKind) -> dict[int, int]:
    told = (event for event in events if event["kind"] in kinds and event["step"] is not None)
    return {rids[event["rid"]]: event["step"] for event in told if event["rid"] in rids}


def _rids(tables: RunTables) -> dict[int, int]:
    """In the order of `read_recorded`."""
    requests = tables.table("requests")
    known = requests.filter(pa.compute.is_valid(requests["prompt_tokens"]))
    ordered = known.sort_by([("arrival", "ascending"), ("rid", "ascending")])["rid"].to_pylist()
    return {rid: number for number, rid in enumerate(ordered, 1)}


@dataclass(frozen=True)
class _Due:
    """A message, the recorded pass that took it in, and when it comes once the recording is left."""

    message: ToWorker
    in_pass: int
    at: int


@dataclass
class _Inbox:
    """Messages in the passes that took them in; after the recording is left, by time. Implements `loop.Inbox`."""

    script: _Script
    clock: VirtualClock
    front: VirtualFrontEnd
    recorded: Recorded
    due: deque[_Due]
    passes: int = 0
    arrived: int = field(default=0)

    def poll(self) -> Sequence[ToWorker]:
        """What this pass takes in; whoever is turned away at the door never comes here."""
        self._arrive()
        here, later = [], deque[_Due]()
        for one in self.due:
            in_time = one.in_pass <= self.passes if self.script.following else one.at <= self.clock.now()
            if not in_time:
                later.append(one)
            elif isinstance(one.message, Drain) or not self.front.turned_away(one.message.rid):
                here.append(one.message)
        self.due = later
        self.passes += 1
        return here

    def wait(self, until_ns: int | None) -> None:
        """An idle pass lasts as it did, or until something comes."""
        if self.script.following:
            self.clock.wait_until(self.script.at("t_done", self.passes - 1))
            return
        instants = [one.at for one in self.due] + ([] if until_ns is None else [until_ns])
        self.clock.wait_until(min(instants))

    def _arrive(self) -> None:
        """Requests are known to the front end from their arrival on."""
        arrivals = self.recorded.arrivals
        while self.arrived < len(arrivals) and arrivals[self.arrived].arrival <= self.clock.now():
            self.front.arrive(arrivals[self.arrived])
            self.arrived += 1


class _Host(HostTime):
    """A scheduler whose plans and commits take the recorded time, then the fitted."""

    def __init__(self, scheduler: Scheduler, clock: VirtualClock, script: _Script, delays: Delays) -> None:
        super().__init__(scheduler, clock, replace(delays, plan_ns=0, commit_ns=0))
        self._script = script
        self._time = clock
        self._fitted = delays

    def plan(self, now: int) -> StepPlan:
        """As wrapped, then the time of planning passes."""
        plan = super().plan(now)
        self._script.compare(plan)
        self._pass("t_exec", plan.step, self._fitted.plan_ns)
        return plan

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        """As wrapped, then the time of handing out passes."""
        commit = super().commit(plan, result, t_exec, t_done)
        self._pass("t_end", plan.step, self._fitted.commit_ns)
        return commit

    def _pass(self, stamp: str, step: int, fitted_ns: int) -> None:
        if self._script.following:
            self._time.wait_until(self._script.at(stamp, step))
        else:
            self._time.charge(fitted_ns)


@dataclass
class _Executor:
    """Takes the recorded time of each step, then the fitted. Alone knows the output lengths."""

    script: _Script
    clock: VirtualClock
    fit: CostFit
    lengths: Mapping[int, int]
    given: dict[int, int] = field(default_factory=dict)

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        """Begin to count its output."""
        self.given[rid] = 0

    def execute(self, plan: StepPlan) -> StepResult:
        """Let the step's time pass; each sampling slice gives one token."""
        begun = self.clock.now()
        if self.script.following:
            self.clock.wait_until(self.script.at("t_done", plan.step))
            device_ns = self.script.at("device_ns", plan.step)
        else:
            self.clock.charge(self.fit.cost(plan))
            device_ns = self.clock.now() - begun
        return StepResult(tuple(self._sample(part.rid) for part in plan.slices if part.samples), device_ns)

    def release(self, rid: int) -> None:
        """Forget it."""
        self.given.pop(rid, None)

    def _sample(self, rid: int) -> Sampled:
        self.given[rid] += 1
        return Sampled(rid, self.given[rid], stop=self.given[rid] == self.lengths.get(rid))


def replay_steps(recorded: Recorded, engine: Engine, fit: CostFit, run: Path) -> Replayed:
    """Run `engine` on the arrivals along the recorded steps, and write it. WhatIfError where they can't be followed."""
    if engine.workers > 1:
        raise WhatIfError("recorded steps can be followed on one worker only; leave --workers or --recorded-steps out")
    script = _Script.read(recorded)
    setup = Setup(
        config=engine.config,
        cost=fit.cost,
        num_blocks=engine.num_blocks,
        max_model_len=engine.max_model_len,
        delays=fit.delays,
    )
    with VirtualRun(run, setup, {"arrivals": len(recorded.arrivals)}) as files:
        front = VirtualFrontEnd(setup, files.front())
        forecast = _forecast(recorded, fit)
        clock = VirtualClock(script.at("t_sched", 0))
        lengths = {rid: a.output_tokens for rid, a in enumerate(recorded.arrivals, 1) if a.output_tokens}
        Loop(
            0,
            scheduler=_Host(setup.scheduler(forecast), clock, script, fit.delays),
            executor=_Executor(script, clock, fit, lengths),
            clock=clock,
            inbox=_Inbox(script, clock, front, recorded, _timeline(recorded, script, fit)),
            outbox=front,
            ledger=RunLedger(0, files.worker(0)),
            step_time=forecast,
            watcher=Beacon(0, clock, front),
        ).run()
    outcomes = front.outcomes
    preemptions = sum(outcome.end.preemptions for outcome in outcomes if outcome.end)
    return Replayed(
        stamps=stamps_of(outcomes),
        preemptions=preemptions,
        followed=script.followed,
        recorded=len(script),
        differs_at=script.differs_at,
        how=script.how,
    )


def _forecast(recorded: Recorded, fit: CostFit) -> KnownCost | StepTimeModel:
    """What told the recorded scheduler how long steps take: a server learns that as it goes, from the same times."""
    if recorded.info.clock.kind == "virtual":
        return KnownCost(fit.cost)
    return StepTimeModel()


def _submission(rid: int, asked: Arrival) -> Submit:
    return Submit(
        rid,
        1,
        [rid] * asked.prompt_tokens,
        asked.max_tokens,
        Sampling(),
        asked.arrival,
        tier=asked.tier,
        tenant=asked.tenant,
        priority=asked.priority,
        deadline=asked.deadline,
    )


def _timeline(recorded: Recorded, script: _Script, fit: CostFit) -> deque[_Due]:
    """Every message in the order in which it was taken in; after the last one, `Drain`."""
    due: list[_Due] = []
    for rid, asked in enumerate(recorded.arrivals, 1):
        at = asked.arrival + fit.delays.ingress_ns
        due.append(_Due(_submission(rid, asked), script.taken_in.get(rid, script.pass_from(at)), at))
        if asked.cancel_at is not None:
            gone = asked.cancel_at + fit.delays.ingress_ns
            due.append(_Due(Cancel(rid), script.cancelled.get(rid, script.pass_from(gone)), gone))
    due.sort(key=lambda one: (one.in_pass, one.at))
    due.append(_Due(Drain(), max(one.in_pass for one in due), max(one.at for one in due)))
    return deque(due)
