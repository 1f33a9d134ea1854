"""The whole of a what-if: fit, re-run what was recorded, say how wrong that was, then run what might have been."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.cost.model import CostFit
from engine.simulate.cost import LinearCost
from engine.whatif.changes import Changes, engine_of
from engine.whatif.fitting import fit_recording
from engine.whatif.measures import LATENCIES, Summary, relative_errors, summaries
from engine.whatif.recorded import Recorded
from engine.whatif.recorded_steps import Replayed, replay_steps
from engine.whatif.rerun import Engine, Rerun, rerun
from engine.whatif.self_check import in_ms
from engine.whatif.trust import beyond, distrust
from recorder.run import RunError, load_info, save_info
from recorder.tables import open_tables

STATISTICS: Final = ("p50", "p95", "p99")


@dataclass(frozen=True)
class Answer:
    """What a what-if says. Summaries in ns by latency; `reasons` is empty where the re-run was close enough."""

    fit: CostFit
    recorded: dict[str, Summary]
    again: dict[str, Summary]
    errors: dict[str, Summary]
    what_if: dict[str, Summary]
    limit: float
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    preemptions: tuple[int, int]
    """Of the re-run, and of the what-if."""
    unserved: int
    """Requests that the recording answered and the what-if did not."""
    replayed: Replayed | None = None
    """How far the recorded steps could be followed, where that was asked."""

    @property
    def trusted(self) -> bool:
        """Whether the re-run came within the limit."""
        return not self.reasons

    def stored(self) -> dict[str, Any]:
        """What the what-if's run keeps of it."""
        return {
            "fit": self.fit.to_dict(),
            "error": self.errors,
            "limit": self.limit,
            "trusted": self.trusted,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
        }

    def document(self) -> dict[str, Any]:
        """For other programs."""
        return {
            **self.stored(),
            "recorded_ms": in_ms(self.recorded),
            "rerun_ms": in_ms(self.again),
            "whatif_ms": in_ms(self.what_if),
            "preemptions": {"rerun": self.preemptions[0], "whatif": self.preemptions[1]},
            "unserved": self.unserved,
            "recorded_steps": self.replayed.document() if self.replayed else None,
        }


@dataclass(frozen=True)
class Question:
    """What is asked: changes, workers (None: as recorded), where the runs go, and how much error is acceptable."""

    changes: Changes
    workers: int | None
    out: Path
    limit: float
    follow_steps: bool = False
    """Take the recorded time of every step for as long as the plans are the recorded ones."""

    @property
    def rerun_out(self) -> Path:
        """Where the re-run of the recorded configuration goes."""
        return self.out.with_name(f"{self.out.name}-rerun")


def answer(recorded: Recorded, question: Question) -> Answer:
    """Write the re-run and the what-if as runs, and say what they show. When it fails, neither is left.

    RunError for runs that exist, WhatIfError or ConfigError for changes that can't be, CostError without a cost model.
    """
    outs = (question.rerun_out, question.out)
    for out in outs:
        if out.exists():
            raise RunError(f"{out} exists already: choose another --out")
    as_recorded = engine_of(recorded)
    changed = engine_of(recorded, question.changes, question.workers)
    fit = fit_recording(recorded, as_recorded)
    try:
        return _answered(recorded, question, fit, as_recorded, changed)
    except BaseException:
        for out in outs:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _answered(recorded: Recorded, question: Question, fit: CostFit, as_recorded: Engine, changed: Engine) -> Answer:
    again = rerun(recorded.arrivals, as_recorded, fit, question.rerun_out)
    other: Rerun
    if question.follow_steps:
        other = replay_steps(recorded, changed, fit, question.out)
    else:
        other = rerun(recorded.arrivals, changed, fit, question.out)
    cautions = tuple(beyond(open_tables(question.rerun_out), open_tables(question.out)))
    if fit.plans_ahead and not other.planned_ahead:
        cautions += ("the recorded engine planned one step ahead; with these changes it is re-run step by step",)
    told = _told(recorded, fit, question.limit, again, other)
    told = replace(told, notes=(*told.notes, *cautions))
    for out, engine in ((question.rerun_out, as_recorded), (question.out, changed)):
        _note(out, recorded, engine, told, question.changes if out == question.out else {})
    return told


def _told(recorded: Recorded, fit: CostFit, limit: float, again: Rerun, other: Rerun) -> Answer:
    then, simulated, what_if = (
        summaries(stamps, recorded.answered, LATENCIES, STATISTICS)
        for stamps in (recorded.stamps, again.stamps, other.stamps)
    )
    errors = relative_errors(then, simulated)
    return Answer(
        fit=fit,
        recorded=then,
        again=simulated,
        errors=errors,
        what_if=what_if,
        limit=limit,
        reasons=distrust(recorded, fit, again, errors, limit),
        notes=recorded.notes,
        preemptions=(again.preemptions, other.preemptions),
        unserved=int((recorded.answered & ~np.isfinite(other.stamps.returned)).sum()),
        replayed=other if isinstance(other, Replayed) else None,
    )


def _note(out: Path, recorded: Recorded, engine: Engine, told: Answer, changes: Changes) -> None:
    """What the run can say of where it is from, and of how far it can be trusted."""
    info = load_info(out)
    info.parent = recorded.info.run_id
    info.seed = recorded.info.seed
    info.model = {**recorded.info.model, "kv_blocks": engine.num_blocks, "max_model_len": engine.max_model_len}
    info.devices = list(recorded.info.devices)
    info.workload = {**recorded.info.workload, "workers": engine.workers}
    info.whatif = {**told.stored(), "changes": {section: dict(values) for section, values in changes.items()}}
    if isinstance(told.fit.cost, LinearCost):
        info.config["cost"] = _cost_section(told.fit, told.fit.cost)
    save_info(out, info)


def _cost_section(fit: CostFit, cost: LinearCost) -> dict[str, float]:
    """The fitted cost as `[cost]` of the configuration has it, to be read and used with `tailtrace simulate`."""
    return {
        "step_us": cost.step / 1e6,
        "decode_us": cost.decode / 1e6,
        "decode_kv_token_ns": cost.decode_kv / 1e3,
        "prefill_token_us": cost.prefill / 1e6,
        "prefill_pair_ns": cost.prefill_pair / 1e3,
        "host_us": (fit.delays.plan_ns + fit.delays.commit_ns) / 1e3,
        "ingress_us": fit.delays.ingress_ns / 1e3,
        "link_us": fit.delays.link_ns / 1e3,
        "write_us": fit.delays.write_ns / 1e3,
    }


def open_command(recorded: Recorded, question: Question) -> str:
    """The command that shows recording, re-run and what-if side by side."""
    runs: Sequence[Path] = (recorded.tables.path, question.rerun_out, question.out)
    return f"tailtrace open {' '.join(map(str, runs))}"
