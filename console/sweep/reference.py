"""The M/M/1 queue as a reference line beside a load sweep: intuition, never a promise (SPEC D8). Pure."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from console.sweep.plan import LOAD, Plan

LABEL: Final = "M/M/1 W = 1/(mu - lambda): intuition only, not a promise"


def applies(plan: Plan, about: Mapping[str, Any]) -> bool:
    """One server that takes one request at a time, and Poisson arrivals at several loads; else it says nothing."""
    spec = about.get("spec")
    poisson = isinstance(spec, Mapping) and spec.get("kind") == "poisson"
    first = plan.levels[0]
    scheduler = first.config.scheduler
    alone = first.workers == 1 and (scheduler.policy == "immediate" or scheduler.max_num_seqs == 1)
    return plan.variable == LOAD and poisson and alone


def mean_ns(arrivals: int, arrivals_ns: int, served: int, service_ns: int) -> Fraction | None:
    """Mean time in the system in ns: lambda from arrivals over their span, mu from requests over their service.

    None where the queue would grow without end, or where nothing tells a rate.
    """
    if arrivals < 2 or not arrivals_ns or not served or not service_ns:
        return None
    spare = Fraction(served, service_ns) - Fraction(arrivals - 1, arrivals_ns)
    return 1 / spare if spare > 0 else None
