"""Held-out check: learn from the first requests of a recording, predict the others, compare every stage."""

from dataclasses import dataclass
from typing import Any, Final

from engine.cost.model import CostFit
from engine.whatif.changes import engine_of
from engine.whatif.fitting import first_share, fit_share
from engine.whatif.measures import LATENCIES, STAGES, Summary, relative_errors, summaries
from engine.whatif.recorded import Recorded, WhatIfError
from engine.whatif.rerun import rerun

STATISTICS: Final = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True)
class SelfCheck:
    """What a fit on the first requests says of the rest. Summaries in ns by measure, errors as fractions."""

    fit: CostFit
    requests: int
    recorded: dict[str, Summary]
    predicted: dict[str, Summary]
    errors: dict[str, Summary]
    preemptions: int
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For other programs."""
        latencies = {name: self.errors[name] for name in LATENCIES}
        return {
            "fit": self.fit.to_dict(),
            "held_out": {"requests": self.requests, **latencies},
            "stages": {name: self.errors[name] for name in STAGES},
            "recorded_ms": in_ms(self.recorded),
            "predicted_ms": in_ms(self.predicted),
            "preemptions": self.preemptions,
            "notes": list(self.notes),
        }


def self_check(recorded: Recorded, train_share: float) -> SelfCheck:
    """Fit on the first `train_share` of the requests, simulate all of them, compare the others.

    WhatIfError where one of the two parts is empty, CostError where the first gives no model.
    """
    train = first_share(recorded, train_share)
    rest = recorded.answered & ~train
    if not rest.any() or not (recorded.answered & train).any():
        raise WhatIfError(f"--train-share {train_share:g} leaves no answered request on one side; take one nearer 0.5")
    engine = engine_of(recorded)
    fit = fit_share(recorded, engine, train)
    again = rerun(recorded.arrivals, engine, fit)
    names = (*STAGES, *LATENCIES)
    told, predicted = (summaries(stamps, rest, names, STATISTICS) for stamps in (recorded.stamps, again.stamps))
    return SelfCheck(
        fit=fit,
        requests=int(rest.sum()),
        recorded=told,
        predicted=predicted,
        errors=relative_errors(told, predicted),
        preemptions=again.preemptions,
        notes=recorded.notes,
    )


def in_ms(values: dict[str, Summary]) -> dict[str, Summary]:
    """Summaries in ns as ms."""
    return {
        name: {key: None if value is None else value / 1e6 for key, value in each.items()}
        for name, each in values.items()
    }
