"""Stages and latencies of requests, and how far one set of stamps is from another. Percentiles are nearest rank."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from engine.cost.solve import Array
from engine.cost.stamps import Chosen, Stamps

LATENCIES: Final = ("ttft", "tpot", "e2e")
STAGES: Final = ("ingress", "queue", "prefill", "decode", "return")
"""They tile the time from arrival to return; time preempted lies in prefill or decode."""

Summary = dict[str, float | None]
"""Statistic -> value; None where no request has the measure."""


def measured(stamps: Stamps) -> dict[str, Array]:
    """Every stage and latency by name, in ns, shape (n,); NaN where a request lacks a stamp (SPEC D1)."""
    gaps = np.where(stamps.output_tokens > 1, stamps.output_tokens - 1, np.nan)
    return {
        "ingress": stamps.queued - stamps.arrival,
        "queue": stamps.first_scheduled - stamps.queued,
        "prefill": stamps.first_token - stamps.first_scheduled,
        "decode": stamps.last_token - stamps.first_token,
        "return": stamps.returned - stamps.last_token,
        "ttft": stamps.first_token - stamps.arrival,
        "tpot": (stamps.last_token - stamps.first_token) / gaps,
        "e2e": stamps.returned - stamps.arrival,
    }


def summary(values: Array, statistics: Sequence[str]) -> Summary:
    """`mean` and percentiles such as `p99` of the values that are known."""
    known = np.sort(values[np.isfinite(values)])
    return {name: _statistic(known, name) if len(known) else None for name in statistics}


def summaries(stamps: Stamps, chosen: Chosen, names: Sequence[str], statistics: Sequence[str]) -> dict[str, Summary]:
    """The summary of each named measure over the chosen requests."""
    values = measured(stamps)
    return {name: summary(values[name][chosen], statistics) for name in names}


def relative_errors(recorded: Mapping[str, Summary], simulated: Mapping[str, Summary]) -> dict[str, Summary]:
    """(simulated - recorded) / recorded as fractions; None where there is nothing to divide by."""
    return {
        name: {statistic: _relative(value, simulated[name][statistic]) for statistic, value in values.items()}
        for name, values in recorded.items()
    }


def worst(errors: Mapping[str, Summary]) -> float:
    """The largest of the errors, without its sign."""
    return max((abs(error) for values in errors.values() for error in values.values() if error is not None), default=0)


def _statistic(ordered: Array, name: str) -> float:
    if name == "mean":
        return float(ordered.mean())
    return float(ordered[max(math.ceil(float(name[1:]) / 100 * len(ordered)), 1) - 1])


def _relative(recorded: float | None, simulated: float | None) -> float | None:
    if recorded is None or simulated is None:
        return None
    if recorded == simulated:
        return 0.0
    return simulated / recorded - 1 if recorded else None
