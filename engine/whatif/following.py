"""A worker in virtual time that follows a recording pass by pass for as long as its plans are the recorded ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.core import Commit, Scheduler, StepPlan, StepResult
from engine.ledger import Ledger
from engine.loop import Loop
from engine.messages import Cancel, Drain, Submit, ToWorker
from engine.scheduling import StepTimeModel
from engine.simulate.clock import Delays, HostTime, VirtualClock
from engine.simulate.cost import Cost, KnownCost
from engine.simulate.front import VirtualFrontEnd
from engine.simulate.setup import Setup
from engine.simulate.stepped import Beacon, VirtualExecutor
from engine.whatif.script import Script

_ANOTHER: Final = "a request came that this worker did not have then"


@dataclass(frozen=True)
class _Due:
    """A message, when it comes, and the recorded pass that took it in; None: none did."""

    message: ToWorker
    at: int
    in_pass: int | None


class _Inbox:
    """Messages in the passes that took them in; after the recording is left, by time. Implements `loop.Inbox`."""

    def __init__(self, script: Script, clock: VirtualClock) -> None:
        self._script = script
        self._clock = clock
        self._due: list[_Due] = []
        self._passes = 0

    def push(self, at: int, message: ToWorker) -> None:
        """Let a message arrive."""
        self._due.append(_Due(message, at, self._in_pass(message, at)))

    def _in_pass(self, message: ToWorker, at: int) -> int | None:
        script = self._script
        match message:
            case Submit(rid=rid):
                return script.taken_in.get(rid)
            case Cancel(rid=rid):
                return script.cancelled.get(rid, script.pass_from(at))
            case Drain():
                return max(len(script) - 1, 0)

    def poll(self) -> Sequence[ToWorker]:
        """What this pass takes in."""
        here = [one for one in self._due if self._is_here(one)]
        if any(one.in_pass is None for one in here):
            self._script.leave(self._passes, _ANOTHER)
        self._due = [one for one in self._due if one not in here]
        self._passes += 1
        return [one.message for one in here]

    def _is_here(self, one: _Due) -> bool:
        if self._script.following and one.in_pass is not None:
            return one.in_pass <= self._passes
        return one.at <= self._clock.now()

    def next(self, until_ns: int | None) -> int | None:
        """When an idle pass ends: as it did, or once something comes that did not come then."""
        if self._script.following:
            others = [one.at for one in self._due if one.in_pass is None]
            return min([self._script.at("t_done", self._passes - 1), *others])
        instants = [one.at for one in self._due] + ([] if until_ns is None else [until_ns])
        return min(instants, default=None)

    def woke(self) -> None:
        """The idle pass ends now: the recording is left where it lasted longer."""
        step = self._passes - 1
        if self._script.following and self._clock.now() < self._script.at("t_done", step):
            self._script.cut(step, _ANOTHER)

    def wait(self, until_ns: int | None) -> None:
        """Whoever drives the worker waits."""
        raise RuntimeError("a worker that follows a recording is driven from outside")


class _Host(HostTime):
    """A scheduler whose plans and commits take the recorded time, then the fitted."""

    def __init__(self, scheduler: Scheduler, clock: VirtualClock, script: Script, delays: Delays) -> None:
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


class _Executor(VirtualExecutor):
    """Takes the recorded time of each step, then the fitted."""

    def __init__(self, script: Script, clock: VirtualClock, cost: Cost, lengths: dict[int, int]) -> None:
        super().__init__(clock, cost, lengths)
        self._script = script
        self._time = clock

    def execute(self, plan: StepPlan) -> StepResult:
        """Let the step's time pass; each sampling slice gives one token."""
        if not self._script.following:
            return super().execute(plan)
        self._time.wait_until(self._script.at("t_done", plan.step))
        sampled = tuple(self._sample(part.rid) for part in plan.slices if part.samples)
        return StepResult(sampled, self._script.at("device_ns", plan.step))


class FollowingWorker:
    """One worker with its script. Implements `engine.simulate.fleet.FleetWorker`."""

    def __init__(
        self,
        number: int,
        setup: Setup,
        script: Script,
        *,
        front: VirtualFrontEnd,
        ledger: Ledger,
        step_time: KnownCost | StepTimeModel,
        begins: int,
    ) -> None:
        self.script = script
        self._clock = VirtualClock(begins)
        self._ingress_ns = setup.delays.ingress_ns
        self._inbox = _Inbox(script, self._clock)
        self._lengths: dict[int, int] = {}
        self._waiting = False
        self._loop = Loop(
            number,
            scheduler=_Host(setup.scheduler(step_time), self._clock, script, setup.delays),
            executor=_Executor(script, self._clock, setup.cost, self._lengths),
            clock=self._clock,
            inbox=self._inbox,
            outbox=front,
            ledger=ledger,
            step_time=step_time,
            watcher=Beacon(number, self._clock, front),
        )

    @property
    def left_at(self) -> int | None:
        """When the pass began that was planned otherwise."""
        return None if self.script.differs_at is None else self.script.at("t_sched", self.script.differs_at)

    @property
    def ready(self) -> int | None:
        """When it goes on; None when it is done."""
        if self._loop.done:
            return None
        return self._inbox.next(self._loop.wake_at) if self._waiting else self._clock.now()

    def push(self, instant: int, message: ToWorker, output_tokens: int | None = None) -> None:
        """Let a message go out at `instant`; `output_tokens` is the length that only the executor knows."""
        if isinstance(message, Submit) and output_tokens is not None:
            self._lengths[message.rid] = output_tokens
        self._inbox.push(instant + self._ingress_ns, message)

    def drain(self, instant: int) -> None:
        """Nothing comes after `instant`."""
        self._inbox.push(instant + self._ingress_ns, Drain())

    def advance(self, until: float, *, one: bool = False) -> None:
        """Live through every pass that begins before `until`, or through one alone."""
        while (ready := self.ready) is not None and ready < until:
            if self._waiting:
                self._clock.wait_until(ready)
                self._inbox.woke()
                self._waiting = False
            else:
                self._waiting = self._loop.begin()
            if not self._waiting:
                self._loop.end()
                if one:
                    return
