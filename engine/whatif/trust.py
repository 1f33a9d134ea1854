"""Whether an answer can be believed: the error of re-running what was recorded, and what it probably comes from."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow.compute as pc

from engine.cost.model import CostFit
from engine.whatif.changes import pool_is_known
from engine.whatif.measures import Summary, measured, worst
from engine.whatif.recorded import Recorded
from engine.whatif.rerun import Rerun
from recorder.tables import RunTables

LIMIT: Final = 0.10
"""Relative error of the re-run beyond which an answer is marked."""
_SATURATED: Final = 0.25
_FEW_STEPS: Final = 200
_FEW_REQUESTS: Final = 50
_NOISY: Final = 0.10
_BEYOND: Final = 0.10
_SIZES: Final = {
    "num_decode_requests": "decodes",
    "sum_decode_kv_tokens": "cached tokens of decodes",
    "sum_prefill_tokens": "prompt tokens",
}


def distrust(
    recorded: Recorded, fit: CostFit, again: Rerun, errors: Mapping[str, Summary], limit: float
) -> tuple[str, ...]:
    """Why the answer is not to be trusted: the finding, then the suspected reasons; empty within `limit`."""
    if worst(errors) <= limit:
        return ()
    finding = f"re-running the recorded configuration misses by up to {worst(errors):.1%}, more than {limit:.0%}"
    suspects = tuple(_suspects(recorded, fit, again))
    return (finding, *(suspects or ("no reason is known: compare the phases of the recording and of its re-run",)))


def beyond(again: RunTables, other: RunTables) -> Iterator[str]:
    """Where the what-if's steps are larger than any that the cost model can have learnt from, by its re-run."""
    for column, what in _SIZES.items():
        before, after = (_largest(tables, column) for tables in (again, other))
        if after > before * (1 + _BEYOND):
            yield (
                f"extrapolated: steps reach {after:,} {what}, {before:,} when the recorded configuration is re-run;"
                " what larger ones cost is not recorded"
            )


def _largest(tables: RunTables, column: str) -> int:
    return int(pc.max(tables.columns("steps", column)[column]).as_py() or 0)


def _suspects(recorded: Recorded, fit: CostFit, again: Rerun) -> Iterator[str]:
    yield from _load(recorded, again)
    yield from _fit_faults(fit)
    info = recorded.info
    if info.clock.kind == "virtual":
        yield "clock: the recording is itself simulated, and was made by another version or another cost"
    elif "vllm" in info.software:
        yield "clock and scheduler: recorded by another engine, whose scheduler differs in detail"
    if not pool_is_known(recorded):
        yield "KV pool: its size is not recorded, and it was taken as large enough for all"


def _load(recorded: Recorded, again: Rerun) -> Iterator[str]:
    stages = measured(recorded.stamps)
    queued = float(np.nansum(stages["queue"][recorded.answered]) / np.nansum(stages["e2e"][recorded.answered]))
    if queued > _SATURATED:
        yield f"saturated: {queued:.0%} of all time was spent in the queue, where errors of the step time add up"
    if again.preemptions:
        yield f"KV pressure: the re-run preempted {again.preemptions} times, and whom it hits depends on every detail"


def _fit_faults(fit: CostFit) -> Iterator[str]:
    noise = fit.held_out.get("step_p50", 0.0)
    if noise > _NOISY:
        yield f"noise: a typical step took {noise:.0%} more or less than what it computed explains (a busy machine?)"
    drift = fit.held_out.get("total", 0.0)
    if abs(drift) > _NOISY:
        yield f"drift: a fit on the first half is {drift:+.0%} off in the second (clocks, heat, neighbours?)"
    few = {"steps": _FEW_STEPS, "stamps": _FEW_REQUESTS}.get(fit.source, 0)
    if fit.trained_on < few:
        yield f"too few: the cost model was learnt from {fit.trained_on} {_THINGS[fit.source]}"


_THINGS: Final = {"steps": "steps", "stamps": "requests", "configuration": ""}
