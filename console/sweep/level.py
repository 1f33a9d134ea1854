"""One level of a sweep, in a process of its own: simulate, write the run, and ask it for the figures."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from console.figures import Figures, measure
from console.session import Session
from console.slo import Slo
from console.sweep.plan import Level, SweepError
from engine.simulate.run import prepare, record_workload
from engine.simulate.workload import Workload

_LATEST_NS: Final = 9 * 10**15
"""Virtual time counts ps in 64 bits."""


@dataclass(frozen=True)
class Task:
    """What a process is told. Everything is read and drawn anew there, so that nothing large is sent."""

    source: str
    seed: int
    level: Level
    slo: Slo
    out: Path | None
    """Where the run is kept, with all its tables; None: it vanishes."""


def run_level(task: Task) -> Figures:
    """Simulate one level and measure it. Raises a UserError for input that can't be used."""
    begun = time.perf_counter()
    level = task.level
    setup, workload = prepare(task.source, level.config, workers=level.workers, seed=task.seed)
    workload = faster(workload, level.load)
    with _place(task.out) as folder:
        record_workload(setup, workload, folder, seed=task.seed, summary=task.out is None)
        with Session(folder) as session:
            figures = replace(measure(session, task.slo), answered=_answered(session))
    return replace(figures, took_s=time.perf_counter() - begun)


def faster(workload: Workload, load: Fraction) -> Workload:
    """The same requests with their arrivals `load` times as fast, each to the nearest ns (SPEC D3)."""
    if load == 1:
        return workload
    times, over = load.numerator, load.denominator
    arrivals = [(2 * t * over + times) // (2 * times) for t in workload.arrival.tolist()]
    if arrivals and arrivals[-1] > _LATEST_NS:
        raise SweepError(f"--load {float(load):g}: its last request would come after {_LATEST_NS // 10**9:,} s")
    about = {**workload.about, "load": float(load)}
    return replace(workload, arrival=np.array(arrivals, np.int64), about=about)


def _answered(session: Session) -> pa.Table:
    """What the requests took that were answered; of several attempts the last one."""
    found = session.ask("per_request")
    return found.filter(pc.equal(found["status"], "ok")).select(["request_id", "e2e_ns"])


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    """The folder asked for, or one that vanishes when it has been measured."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="tailtrace-") as folder:
        yield Path(folder) / "level"
