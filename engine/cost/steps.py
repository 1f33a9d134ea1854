"""A cost model from a run's own steps: execution by what was computed, host time between steps by its mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.calls import Attention
from engine.cost.model import PS_PER_NS, CostError, CostFit, linear
from engine.cost.solve import Array, passed, robust, slopes
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost, Shape, TwoRegimes
from recorder.run import RunInfo
from recorder.tables import RunTables
from recorder.words import Role

_ENOUGH: Final = 20
"""Steps below which no model is learnt from them."""
_PER_COEFFICIENT: Final = 4
"""Steps a coefficient needs before a regime of its own is considered."""
_BETTER: Final = 0.95
"""A form that can tell more must bring the held-out error below this part of a simpler one's."""
_MOST_SIZES: Final = 1024
_INERTIA: Final = 4
"""Steps of a size that have to be seen to believe half of what they miss."""
_DECODES: Final = (0, 1, 2)
"""Columns that mean something in a step without prompts."""


@dataclass(frozen=True)
class Steps:
    """Executed steps of a run in order of time. `columns` (n, 5) as `model.COEFFICIENTS`; times in ns, shape (n,)."""

    columns: Array
    execution: Array
    plan: Array
    commit: Array
    device: Array
    ended: Array
    """When each pass was over, on the run's clock."""
    calls: Array
    """Calls of attention that each step made."""
    attention: Attention | None = None
    """What those were counted by; None: it is not known of this engine, and there are none."""

    def __len__(self) -> int:
        return len(self.execution)

    @property
    def mixed(self) -> "np.typing.NDArray[np.bool_]":
        """Which computed prompts."""
        found: np.typing.NDArray[np.bool_] = self.columns[:, 3] > 0
        return found

    def part(self, chosen: "slice | np.typing.NDArray[np.bool_]") -> "Steps":
        """Some of them."""
        arrays = {field.name: getattr(self, field.name)[chosen] for field in fields(self) if field.name != "attention"}
        return Steps(**arrays, attention=self.attention)


Form = Callable[[Steps], TwoRegimes]
"""A way to learn a cost from steps."""


def read_steps(tables: RunTables) -> Steps:
    """The steps of a run that executed something; idle passes and those without stamps are left out."""
    steps, slices = tables.table("steps"), tables.table("slices")
    stamps = {name: _floats(steps, name) for name in ("t_sched", "t_exec", "t_done", "t_end", "device_ns")}
    columns = _columns(steps, slices)
    execution = stamps["t_done"] - stamps["t_exec"]
    kept = (columns[:, 1] + columns[:, 3] > 0) & (execution > 0)
    attention = _attention(tables.info)
    every = Steps(
        columns=columns,
        calls=_calls(steps, slices, attention),
        attention=attention,
        execution=execution,
        plan=stamps["t_exec"] - stamps["t_sched"],
        commit=stamps["t_end"] - stamps["t_done"],
        device=stamps["device_ns"],
        ended=stamps["t_end"],
    )
    return every.part(kept)


def fit_steps(steps: Steps, delays: Delays) -> CostFit:
    """Learn from all steps; the held-out error is that of a fit on the first half, asked about the second.

    `delays` has the ways in and out; the host time of a pass comes from the steps. CostError for too few steps.
    """
    if len(steps) < _ENOUGH:
        raise CostError(f"{len(steps)} executed steps are too few to learn from: record at least {_ENOUGH}")
    form, held_out = _best_form(steps)
    cost = form(steps)
    known = steps.device > 0
    return CostFit(
        source="steps",
        decode=cost.decode,
        mixed=cost.mixed,
        shape=cost.shape,
        delays=replace(delays, plan_ns=round(steps.plan.mean()), commit_ns=round(steps.commit.mean())),
        trained_on=len(steps),
        device_share=float(steps.device[known].sum() / steps.execution[known].sum()) if known.any() else None,
        held_out=held_out,
    )


def _best_form(steps: Steps) -> tuple[Form, dict[str, float]]:
    """Of a fit to the first half of the steps, the form that tells the second half best, the simpler ones preferred."""
    half = len(steps) // 2
    first, second = steps.part(slice(None, half)), steps.part(slice(half, None))
    best: Form = _one_regime
    told = _errors(second, best(first))
    for form in (_two_regimes, _by_size) if _can_be_two(first) else ():
        errors = _errors(second, form(first))
        if errors["mean"] < _BETTER * told["mean"]:
            best, told = form, errors
    return best, told


def matches(steps: Steps, cost: LinearCost) -> bool:
    """Whether every step took what `cost` says, to the ns of rounding: then they were simulated by it."""
    return bool((np.abs(_predicted(steps, cost.regimes) - steps.execution) <= 1).all())


def _can_be_two(steps: Steps) -> bool:
    mixed = int(steps.mixed.sum())
    return min(mixed / 5, (len(steps) - mixed) / 3) >= _PER_COEFFICIENT


def _one_regime(steps: Steps) -> TwoRegimes:
    return linear(robust(steps.columns, steps.execution)).regimes


def _two_regimes(steps: Steps) -> TwoRegimes:
    alone, mixed = steps.part(~steps.mixed), steps.part(steps.mixed)
    decode = np.zeros(5)
    decode[list(_DECODES)] = robust(alone.columns[:, _DECODES], alone.execution)
    return TwoRegimes(linear(decode), linear(robust(mixed.columns, mixed.execution)))


def _by_size(steps: Steps) -> TwoRegimes:
    """As two regimes, but every number of decodes alone takes what it typically takes, and every call of attention.

    What contexts and calls take is learnt among decodes alone of one number; numbers seen seldom lean on the trend of
    all. All is scaled to the time that the steps took together, as `robust` does.
    """
    alone, mixed = steps.part(~steps.mixed), steps.part(steps.mixed)
    size, columns = alone.columns[:, 1], np.column_stack([alone.columns[:, 2], alone.calls])
    found = slopes(columns, alone.execution, size)
    rest = np.maximum(alone.execution - columns @ found, 1.0)
    step, decode = robust(np.column_stack([np.ones(len(rest)), size]), rest)
    missed = rest - step - decode * size
    sizes = [_leaning(missed[size == each]) for each in range(1, int(min(size.max(), _MOST_SIZES)) + 1)]
    by = passed(rest, rest - missed + np.array([0.0, *sizes, 0.0])[_place(size, sizes)])
    beside = robust(mixed.columns, np.maximum(mixed.execution - found[1] * mixed.calls, 1.0))
    sizes_ps = tuple(round(each * by * PS_PER_NS) for each in sizes)
    shape = Shape(sizes_ps, round(found[1] * PS_PER_NS), steps.attention or Attention())
    return TwoRegimes(linear([step * by, decode * by, found[0], 0, 0]), linear(beside), shape)


def _leaning(missed: Array) -> float:
    """The typical miss of the steps of one size; few of them count for little."""
    return float(np.median(missed)) * len(missed) / (len(missed) + _INERTIA) if len(missed) else 0.0


def _place(size: Array, sizes: Sequence[float]) -> "np.typing.NDArray[np.int64]":
    """Of each size in a list that has 0 before its first entry and after its last."""
    return np.minimum(size, len(sizes) + 1).astype(np.int64)


def _predicted(steps: Steps, cost: TwoRegimes) -> Array:
    """In ns, shape (n,)."""
    sizes = np.array([0, *cost.shape.sizes, 0]) / PS_PER_NS
    beyond = sizes[_place(steps.columns[:, 1], cost.shape.sizes)]
    alone, beside = (_times(steps.columns, each) for each in (cost.decode, cost.mixed))
    chosen: Array = np.where(steps.mixed, beside, alone + beyond) + steps.calls * cost.shape.call / PS_PER_NS
    return chosen


def _times(columns: Array, cost: LinearCost) -> Array:
    ps = np.array([cost.step, cost.decode, cost.decode_kv, cost.prefill, cost.prefill_pair], np.float64)
    times: Array = columns @ ps / 1000
    return times


def _errors(steps: Steps, cost: TwoRegimes) -> dict[str, float]:
    """`mean` is weighted by time, so that few long steps count as much as many short ones."""
    predicted = _predicted(steps, cost)
    relative = np.abs(predicted / steps.execution - 1)
    return {
        "steps": float(len(steps)),
        "total": float(predicted.sum() / steps.execution.sum() - 1),
        "mean": float(np.abs(predicted - steps.execution).sum() / steps.execution.sum()),
        "step_p50": float(np.median(relative)),
        "step_p95": float(np.quantile(relative, 0.95)),
    }


def _columns(steps: pa.Table, slices: pa.Table) -> Array:
    """Shape (n, 5): what each step computed, in the order of `steps`."""
    keys, place = _places(steps, slices)
    size = steps.num_rows
    tokens, before = _floats(slices, "tokens")[keys], _floats(slices, "computed_before")[keys]
    decode = _decodes(slices)[keys]
    pairs = tokens * before + tokens * (tokens - 1) / 2
    return np.column_stack(
        [
            np.ones(size),
            np.bincount(place[decode], minlength=size),
            np.bincount(place[decode], before[decode], size),
            np.bincount(place[~decode], tokens[~decode], size),
            np.bincount(place[~decode], pairs[~decode], size),
        ]
    )


def _attention(info: RunInfo) -> Attention | None:
    return Attention.on(str(info.model.get("device", "")), int(info.config.get("kv", {}).get("block_size", 16)))


def _calls(steps: pa.Table, slices: pa.Table, attention: Attention | None) -> Array:
    """Shape (n,): calls of attention that each step made."""
    found = np.zeros(steps.num_rows)
    if attention is None or not steps.num_rows:
        return found
    keys, place = _places(steps, slices)
    tokens, before = (_floats(slices, name)[keys].astype(np.int64) for name in ("tokens", "computed_before"))
    order = np.argsort(place, kind="stable")
    parts = list(zip(tokens[order].tolist(), before[order].tolist(), strict=True))
    starts = np.flatnonzero(np.diff(place[order], prepend=-1)).tolist()
    for first, end in pairwise([*starts, len(parts)]):
        found[place[order[first]]] = attention.calls(parts[first:end])
    return found


def _decodes(slices: pa.Table) -> "np.typing.NDArray[np.bool_]":
    """Which slices are decodes."""
    found: np.typing.NDArray[np.bool_] = pc.equal(slices["role"].cast(pa.string()), Role.DECODE.value).to_numpy()
    return found


def _places(steps: pa.Table, slices: pa.Table) -> "tuple[np.typing.NDArray[np.intp], np.typing.NDArray[np.intp]]":
    """Which slices have a step, and where each of those steps stands in `steps`."""
    known, wanted = _keys(steps), _keys(slices)
    order = np.argsort(known)
    at = np.searchsorted(known, wanted, sorter=order)
    place = order[np.minimum(at, len(order) - 1)] if len(order) else at
    found = np.flatnonzero(known[place] == wanted) if len(order) else np.zeros(0, np.intp)
    return found, place[found]


def _keys(table: pa.Table) -> "np.typing.NDArray[np.int64]":
    """One number for worker and step."""
    keys: np.typing.NDArray[np.int64] = table["worker"].to_numpy() * 2**40 + table["step"].to_numpy()
    return keys


def _floats(table: pa.Table, name: str) -> Array:
    values: Array = table[name].fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    return values
