"""From the figures of all levels to what a sweep says: plain data for JSON, and what its text is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from console.figures import NS_A_MS, NS_A_S, Figures, ratio, values_of
from console.guards import Guard, Values
from console.measures import REPORTED, WINDOW_FORMULA
from console.slo import Slo
from console.statistics import Paired, paired
from console.sweep import reference
from console.sweep.knee import KNEE_FORMULA, SATURATION_FORMULA, Knee, Point, find_knee, saturated
from console.sweep.plan import LOAD, Level, Plan

PAIRED_FORMULA: Final = (
    "E2E minus that of the same request at the first level; low to high: 95 % bootstrap of the median"
)
_CENSORED: Final = ("open", "expired", "cancelled", "failed")


@dataclass(frozen=True)
class Question:
    """What the levels are judged by. `hourly` is the price of a device for an hour; None: count device-seconds."""

    plan: Plan
    slo: Slo
    guards: Sequence[Guard]
    hourly: Fraction | None
    about: Mapping[str, Any]
    """The workload's account of itself."""


@dataclass(frozen=True)
class Sweep:
    """The answer. `values` are per level, exact; `knee` exists for sweeps of the load alone."""

    question: Question
    figures: Sequence[Figures]
    values: Sequence[Values]
    knee: Knee | None
    saturated: Sequence[bool]

    @property
    def failures(self) -> list[tuple[Level, Guard]]:
        """Where a guard rail did not hold."""
        pairs = zip(self.question.plan.levels, self.values, strict=True)
        return [(level, guard) for level, values in pairs for guard in self.broken(values)]

    def broken(self, values: Values) -> list[Guard]:
        """The guard rails that a level breaks; relative ones look at the first level."""
        return [guard for guard in self.question.guards if not guard.holds(values, self.values[0])]

    @cached_property
    def paired(self) -> list[Paired | None]:
        """E2E of each level minus that of the first, request by request, in ms; None for the first (SPEC D7)."""
        first, *others = (found.answered for found in self.figures)
        return [None, *(_differences(first, other) for other in others)]

    @property
    def knee_level(self) -> Level | None:
        """The level at the knee."""
        if self.knee is None or self.knee.place is None:
            return None
        return self.question.plan.levels[self.knee.place]

    def meets_slo(self, place: int) -> bool | None:
        """Whether that level meets the SLO; None where there is none."""
        return _meets(self.question.slo, self.figures[place]) if self.question.slo else None

    def mm1_ns(self, place: int) -> Fraction | None:
        """The reference line at that level (SPEC D8); None where it says nothing."""
        if not reference.applies(self.question.plan, self.question.about):
            return None
        found = self.figures[place]
        counts = found.counts
        return reference.mean_ns(found.total, counts["arrivals_ns"], counts["ok"], counts["service_ns"])


def answer(question: Question, figures: Sequence[Figures]) -> Sweep:
    """Judge the figures, one for each level of the plan."""
    plan = question.plan
    values = [
        values_of(found, level.workers, question.hourly) for found, level in zip(figures, plan.levels, strict=True)
    ]
    points = [
        Point(level.load, some["throughput"] or Fraction(0), not question.slo or _meets(question.slo, found))
        for level, some, found in zip(plan.levels, values, figures, strict=True)
    ]
    is_load = plan.variable == LOAD
    full = saturated(points) if is_load else [False] * len(points)
    return Sweep(question, figures, values, find_knee(points) if is_load else None, full)


def _differences(first: pa.Table | None, other: pa.Table | None) -> Paired | None:
    if first is None or other is None:
        return None
    both = first.join(other, "request_id", join_type="inner", right_suffix="_other")
    return paired(pc.subtract(both["e2e_ns_other"], both["e2e_ns"]).to_numpy() / NS_A_MS)


def document(sweep: Sweep, runs: Sequence[str | None]) -> dict[str, Any]:
    """What `tailtrace sweep --json` prints; `runs` are the folders of the levels' runs."""
    question = sweep.question
    knee = None
    if sweep.knee is not None:
        level = sweep.knee_level
        knee = {"level": None if level is None else level.label, "why": sweep.knee.why}
    return {
        "variable": question.plan.variable,
        "workload": dict(question.about),
        "slo": question.slo.document() if question.slo else None,
        "levels": [_level(sweep, place, run) for place, run in enumerate(runs)],
        "knee": knee,
        "guards": [guard.text for guard in question.guards],
        "failed": [{"level": level.label, "guard": guard.text} for level, guard in sweep.failures],
        "formulas": formulas(question.hourly is not None),
    }


def formulas(priced: bool) -> dict[str, str]:
    """What each number is."""
    spent = "workers * window" + (" * price of a device-hour" if priced else ", in device-seconds")
    return {
        **{f"{measure.name}_ms": measure.formula for measure in REPORTED},
        "throughput": "ok requests / window",
        "goodput": "ok requests inside the SLO / window",
        "cost_per_success": f"{spent} / ok requests inside the SLO",
        "window": WINDOW_FORMULA,
        "offered": "(requests - 1) / (last arrival - first arrival)",
        "saturated": SATURATION_FORMULA,
        "knee": KNEE_FORMULA,
        "mm1_ms": reference.LABEL,
        "paired_e2e_ms": PAIRED_FORMULA,
    }


def offered(found: Figures) -> Fraction | None:
    """Requests that came per second."""
    return ratio((found.total - 1) * NS_A_S, found.counts["arrivals_ns"] or 0)


def mean_e2e_ms(found: Figures) -> Fraction | None:
    """Mean time of the answered requests, which is what the reference line is of."""
    return ratio(found.counts["e2e_ns"], found.counts["ok"] * NS_A_MS)


def censored(found: Figures) -> int:
    """Requests that make percentiles lower bounds (SPEC E5, F4)."""
    return sum(found.states.get(state, 0) for state in _CENSORED)


def _level(sweep: Sweep, place: int, run: str | None) -> dict[str, Any]:
    level, found = sweep.question.plan.levels[place], sweep.figures[place]
    values, mm1 = sweep.values[place], sweep.mm1_ns(place)
    of_load = sweep.question.plan.variable == LOAD
    return {
        "level": level.label,
        "load": float(level.load),
        "workers": level.workers,
        "requests": {"total": found.total, "inside": found.counts["inside"], **found.states},
        "censored": censored(found),
        "offered": plain(offered(found)),
        **{name: plain(value) for name, value in values.items()},
        "mean_e2e_ms": plain(mean_e2e_ms(found)),
        "mm1_ms": None if mm1 is None else float(mm1 / NS_A_MS),
        "meets_slo": sweep.meets_slo(place),
        "saturated": sweep.saturated[place] if of_load else None,
        "guards_failed": [guard.text for guard in sweep.broken(values)],
        "paired_e2e_ms": None if (changed := sweep.paired[place]) is None else asdict(changed),
        "run": run,
    }


def plain(value: Fraction | None) -> float | None:
    """The nearest float."""
    return None if value is None else float(value)


def _meets(slo: Slo, found: Figures) -> bool:
    return slo.met(found.counts["inside"], found.total)
