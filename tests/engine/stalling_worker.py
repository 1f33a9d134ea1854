"""A worker that is held up from outside: the real one, whose executor is wrapped.

`python -m tests.engine.stalling_worker PLANS ...`: PLANS is a JSON list of `Stall`, the rest what a worker is told.
"""

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from engine.core import Executor, StepPlan, StepResult
from engine.messages import Sampling
from engine.worker import Parts, WorkerOptions, assemble, main
from tests.engine.served import until


class Stall(msgspec.Struct, frozen=True):
    """In the execution of the `nth` pass (from 1) that holds the request: collect for `ms`, be slow for `ms`, or make
    the file `begun` and wait until `go_on` is there. The file `left` is made as the request leaves the worker."""

    what: Literal["collect", "sleep", "wait"]
    rid: int
    nth: int
    ms: int = 0
    begun: str = ""
    go_on: str = ""
    left: str = ""

    def happen(self) -> None:
        """Here and now."""
        if self.what == "collect":
            collect_slowly(self.ms)
        elif self.what == "sleep":
            time.sleep(self.ms / 1000)
        else:
            Path(self.begun).touch()
            until("the other side goes on", Path(self.go_on).exists)


class SlowToDie:
    """Garbage in a cycle, whose collection takes so long."""

    def __init__(self, ms: int) -> None:
        self._ms = ms
        self._itself = self

    def __del__(self) -> None:
        time.sleep(self._ms / 1000)


def collect_slowly(ms: int) -> None:
    """A full collection of a heap that is large, and of garbage that takes `ms` to die."""
    heap: list[list[object]] = [[] for _ in range(100_000)]
    for item in heap:
        item.append(item)
    SlowToDie(ms)
    gc.collect()


class StallingExecutor:
    def __init__(self, inner: Executor, stalls: list[Stall]) -> None:
        self._inner = inner
        self._stalls = stalls
        self._passes: dict[int, int] = {}

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        self._inner.start(rid, prompt, sampling)

    def execute(self, plan: StepPlan) -> StepResult:
        for rid in [part.rid for part in plan.slices]:
            nth = self._passes[rid] = self._passes.get(rid, 0) + 1
            for stall in self._stalls:
                if (stall.rid, stall.nth) == (rid, nth):
                    stall.happen()
        return self._inner.execute(plan)

    def release(self, rid: int) -> None:
        for stall in self._stalls:
            if stall.rid == rid and stall.left:
                Path(stall.left).touch()
        self._inner.release(rid)


if __name__ == "__main__":
    plans = msgspec.json.decode(sys.argv[1], type=list[Stall])

    def stalling(options: WorkerOptions) -> Parts:
        parts = assemble(options)
        return replace(parts, executor=StallingExecutor(parts.executor, plans))

    sys.exit(main(WorkerOptions.parse(sys.argv[2:]), stalling))
