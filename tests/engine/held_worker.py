"""A worker that can be held in the middle of a batch: the real one, whose executor is wrapped.

`python -m tests.engine.held_worker FOLDER ...`: while the file FOLDER/hold-NUMBER is there, the worker runs as many
steps as it says, makes FOLDER/held-NUMBER, and stays in the next one until the file is gone.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.core import Executor, StepPlan, StepResult
from engine.messages import Sampling
from engine.worker import Parts, WorkerOptions, assemble, main
from tests.engine.served import until


class HeldExecutor:
    def __init__(self, inner: Executor, hold: Path, held: Path) -> None:
        self._inner = inner
        self._hold, self._held = hold, held
        self._ran = 0

    def start(self, rid: int, prompt: Sequence[int], sampling: Sampling) -> None:
        self._inner.start(rid, prompt, sampling)

    def execute(self, plan: StepPlan) -> StepResult:
        if self._hold.exists():
            self._ran += 1
            if self._ran > int(self._hold.read_text()):
                self._held.touch()
                until("it may go on", lambda: not self._hold.exists())
        return self._inner.execute(plan)

    def release(self, rid: int) -> None:
        self._inner.release(rid)


if __name__ == "__main__":
    folder = Path(sys.argv[1])

    def holding(options: WorkerOptions) -> Parts:
        parts = assemble(options)
        hold, held = (folder / f"{what}-{options.number}" for what in ("hold", "held"))
        return replace(parts, executor=HeldExecutor(parts.executor, hold, held))

    sys.exit(main(WorkerOptions.parse(sys.argv[2:]), holding))
