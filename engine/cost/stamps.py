"""A cost model from request stamps alone: the coefficients under which a simulation gives the recorded stamps.

First guess: between the first and the last token of a request lie as many steps as it has tokens in between, and what
those steps computed for others follows roughly from the others' stamps. That is one linear equation a request. Then
Levenberg-Marquardt, with one simulation a coefficient in each round, brings simulated and recorded stamps together.
Preemptions make many valleys, so it sets out from several places, and the lowest end wins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.cost.model import COEFFICIENTS, CostError, linear
from engine.cost.solve import Array, non_negative
from engine.simulate.cost import LinearCost

_MATCHED: Final = ("first_scheduled", "first_token", "last_token")
"""The stamps that a cost has to give."""
_ENOUGH: Final = 20
"""Requests below which no model is learnt from their stamps."""
_NUDGES: Final = (0.03, 0.01, 0.003)
"""Relative changes of a coefficient that show what it does. Large ones first: far off, small ones drown in changed
plans; at the end only small ones are straight enough."""
_ROUNDS: Final = 20
_TRIES: Final = 6
_SETTLED: Final = 0.002
"""Relative gain of a round below which the next is not worth its simulations."""
_FLOORS: Final = (0.005, 0.05)
"""Shares of the mean step that the coefficients of the first guess are lifted to: zero has no relative change."""
_SPLIT: Final = (0.3, 0.05, 0.4, 0.2, 0.02)
"""Another place to set out from: the mean step split over the coefficients without a look at the guess."""


@dataclass(frozen=True)
class Stamps:
    """Stamps of requests in ns, NaN where one did not happen, and their sizes in tokens. All of shape (n,)."""

    arrival: Array
    queued: Array
    first_scheduled: Array
    first_token: Array
    last_token: Array
    returned: Array
    prompt_tokens: Array
    output_tokens: Array

    def __len__(self) -> int:
        return len(self.arrival)


Simulate = Callable[[LinearCost], Stamps]
"""All requests in virtual time at a cost; the stamps in the order of the recorded ones."""
Chosen = npt.NDArray[np.bool_]


def fit_stamps(recorded: Stamps, chosen: Chosen, simulate: Simulate) -> LinearCost:
    """The cost under which the `chosen` requests get their recorded stamps. CostError if too few.

    Only the stamps of those are looked at; arrivals and lengths of the others are load, as in any what-if.
    """
    chosen = chosen & np.all([np.isfinite(getattr(recorded, name)) for name in _MATCHED], axis=0)
    if chosen.sum() < _ENOUGH:
        raise CostError(f"{chosen.sum()} answered requests are too few to learn from: record at least {_ENOUGH}")

    def misses(values: Array) -> Array:
        return stamps_missed(recorded, chosen, simulate(linear(values)))

    ends = [_descend(start, misses) for start in _starts(recorded, chosen)]
    return linear(min(ends, key=lambda end: end.missed).values)


def stamps_missed(recorded: Stamps, chosen: Chosen, got: Stamps) -> Array:
    """Simulated minus recorded stamps of `_MATCHED` of the chosen requests, in ns, shape (3 x chosen,)."""
    return np.concatenate([(getattr(got, name) - getattr(recorded, name))[chosen] for name in _MATCHED])


def first_guess(recorded: Stamps, chosen: Chosen) -> Array:
    """Shape (5,), in ns: least squares over the decode stretches of the chosen requests.

    The work of others in a stretch is interpolated evenly between their stamps.
    """
    rows = np.array([_work_between(recorded, a, b) for a, b in _stretches(recorded, chosen)])
    steps = recorded.output_tokens[chosen] - 1
    time = recorded.last_token[chosen] - recorded.first_token[chosen]
    usable = (steps > 0) & (time > 0)
    if not usable.any():
        raise CostError("no request has more than one output token: its stamps say nothing of a step")
    columns = np.column_stack([steps, rows])[usable]
    return non_negative(columns / time[usable][:, None], np.ones(usable.sum()))


def _stretches(recorded: Stamps, chosen: Chosen) -> list[tuple[float, float]]:
    return list(zip(recorded.first_token[chosen].tolist(), recorded.last_token[chosen].tolist(), strict=True))


def _work_between(stamps: Stamps, start: float, end: float) -> Array:
    """Shape (4,): decodes, their cached tokens, prefill tokens, prefill pairs of all requests between two instants."""
    prompt, output = stamps.prompt_tokens, stamps.output_tokens
    begun, ended = _shares(stamps.first_token, stamps.last_token, start, end)
    decodes = (ended - begun) * (output - 1)
    context = prompt + (begun + ended) / 2 * (output - 1)
    begun, ended = _shares(stamps.first_scheduled, stamps.first_token, start, end)
    prefill = (ended - begun) * prompt
    pairs = (ended**2 - begun**2) * prompt * (prompt - 1) / 2
    return np.array([np.nansum(each) for each in (decodes, decodes * context, prefill, pairs)])


def _shares(since: Array, until: Array, start: float, end: float) -> tuple[Array, Array]:
    """How much of each stretch from `since` to `until` has passed at `start`, and at `end`: 0 to 1."""
    length = np.maximum(until - since, 1.0)
    return np.clip((start - since) / length, 0, 1), np.clip((end - since) / length, 0, 1)


def _starts(recorded: Stamps, chosen: Chosen) -> list[Array]:
    """Places to set out from, each (5,) in ns, none with a coefficient at zero."""
    steps = np.nansum(recorded.output_tokens[chosen] - 1)
    totals = np.sum([_work_between(recorded, a, b) for a, b in _stretches(recorded, chosen)], axis=0)
    per_step = np.concatenate([[1.0], np.maximum(totals / steps, 1e-9)])
    whole = np.nansum(recorded.last_token[chosen] - recorded.first_token[chosen]) / steps / per_step
    guess = first_guess(recorded, chosen)
    return [*(np.maximum(guess, floor * whole) for floor in _FLOORS), np.array(_SPLIT) * whole]


@dataclass(frozen=True)
class _End:
    """Where a descent came out, and its mean absolute miss in ns."""

    values: Array
    missed: float


def _descend(values: Array, misses: Callable[[Array], Array]) -> _End:
    """Levenberg-Marquardt on the logarithms of the coefficients, for the mean absolute miss."""
    missed, damping, nudges = misses(values), 1e-2, list(_NUDGES)
    for _ in range(_ROUNDS):
        slopes = _slopes(values, missed, misses, nudges[0])
        before = np.abs(missed).mean()
        for _ in range(_TRIES):
            trial = values * np.exp(np.clip(_step(slopes, missed, damping), -0.7, 0.7))
            then = misses(trial)
            if np.abs(then).mean() < before:
                values, missed, damping = trial, then, max(damping / 5, 1e-4)
                break
            damping *= 5
        if np.abs(missed).mean() > (1 - _SETTLED) * before:
            damping = 1e-2
            nudges.pop(0)
            if not nudges:
                break
    return _End(values, float(np.abs(missed).mean()))


def _slopes(values: Array, missed: Array, misses: Callable[[Array], Array], nudge: float) -> Array:
    """Shape (misses, 5): how the misses change with the logarithm of each coefficient."""
    nudged = values * (1 + nudge * np.eye(len(COEFFICIENTS)))
    return np.column_stack([(misses(each) - missed) / nudge for each in nudged])


def _step(slopes: Array, missed: Array, damping: float) -> Array:
    """Weighted so that a miss counts about by its size, not by its square: plans that differ make outliers."""
    size = np.abs(missed)
    weights = 1 / np.sqrt(size + np.median(size) / 2 + 1e3)
    weighted = slopes * weights[:, None]
    normal = weighted.T @ weighted
    step: Array = np.linalg.solve(
        normal + damping * np.diag(np.maximum(np.diag(normal), 1e-12)), -weighted.T @ (missed * weights)
    )
    return step
