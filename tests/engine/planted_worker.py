"""A worker with delays planted from outside: the real one, whose scheduler and executor are wrapped.

`python -m tests.engine.planted_worker DELAYS ...`: DELAYS is a JSON list of `Delay`, the rest what a worker is told.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from engine.core import Admission, Commit, Executor, Occupancy, Request, Scheduler, StepPlan, StepResult
from engine.messages import Outlook, Sampling
from engine.worker import Parts, WorkerOptions, assemble, main


class Delay(msgspec.Struct, frozen=True):
    """Sleep once `ms` in this part of the `nth` pass (from 1) that holds the request."""

    where: Literal["plan", "execute", "commit"]
    rid: int
    nth: int
    ms: int


class Delays:
    """Which delays are due in a pass."""

    def __init__(self, delays: list[Delay]) -> None:
        self._delays = delays
        self._passes: dict[tuple[str, int], int] = {}

    def sleep(self, where: str, plan: StepPlan) -> None:
        for rid in [part.rid for part in plan.slices]:
            nth = self._passes[where, rid] = self._passes.get((where, rid), 0) + 1
            due = [delay.ms for delay in self._delays if (delay.where, delay.rid, delay.nth) == (where, rid, nth)]
            time.sleep(sum(due) / 1000)


class LateScheduler:
    def __init__(self, inner: Scheduler, delays: Delays) -> None:
        self._inner = inner
        self._delays = delays

    def add(self, request: Request, now: int) -> Admission:
        return self._inner.add(request, now)

    def cancel(self, rid: int, now: int) -> Commit:
        return self._inner.cancel(rid, now)

    def expire(self, now: int) -> Commit:
        return self._inner.expire(now)

    def occupancy(self) -> Occupancy:
        return self._inner.occupancy()

    def outlook(self) -> Outlook | None:
        return self._inner.outlook()

    def plan(self, now: int) -> StepPlan:
        plan = self._inner.plan(now)
        self._delays.sleep("plan", plan)
        return plan

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        self._delays.sleep("commit", plan)
        return self._inner.commit(plan, result, t_exec, t_done)


class LateExecutor:
    def __init__(self, inner: Executor, delays: Delays) -> None:
        self._inner = inner
        self._delays = delays

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        self._inner.start(rid, prompt, sampling)

    def execute(self, plan: StepPlan) -> StepResult:
        self._delays.sleep("execute", plan)
        return self._inner.execute(plan)

    def release(self, rid: int) -> None:
        self._inner.release(rid)


def planted(options: WorkerOptions, delays: Delays) -> Parts:
    parts = assemble(options)
    return replace(
        parts,
        scheduler=LateScheduler(parts.scheduler, delays),
        executor=LateExecutor(parts.executor, delays),
    )


if __name__ == "__main__":
    delays = Delays(msgspec.json.decode(sys.argv[1], type=list[Delay]))
    sys.exit(main(WorkerOptions.parse(sys.argv[2:]), lambda options: planted(options, delays)))
