"""A stretch of a run in equal parts: what the workers did in each, as one number a part for each strip.

Where no pass was recorded a number is NaN. Amounts of several workers are summed, what is told of a step is the mean
over the time of all steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from console.timeline import Floats, Ints
from recorder.words import Reason, StepKind

IDLE: Final = StepKind.IDLE.value
_SUMS: Final = (
    "ns", "exec_ns", "sched_ns", "post_ns", "device_ns", "batch_time", "prefill_time", "decode_time",
    "running_time", "waiting_time", "held_time",
)  # fmt: skip
_PEAKS: Final = ("batch_max", "tokens_max", "waiting_max", "running_max", "held_max", "free_max", "kv_total")


@dataclass(frozen=True)
class Bins:
    """`kinds` and `reasons` are ns in each part; `..._time` amounts times ns; the rest is named as it is shown."""

    count: int
    workers: int
    kinds: Mapping[str, Floats]
    reasons: Mapping[str, Floats]
    busy_ns: Floats
    exec_ns: Floats
    host_ns: Floats
    idle_ns: Floats
    device_ns: Floats
    all_ns: Floats
    batch: Floats
    prefill_tokens: Floats
    decode_tokens: Floats
    running: Floats
    waiting: Floats
    held: Floats
    free: Floats
    blocks: Floats
    batch_time: Floats
    running_time: Floats
    waiting_time: Floats
    held_time: Floats
    sched_ns: Floats
    post_ns: Floats
    batch_max: int
    tokens_max: int
    running_max: int | None
    held_max: int | None
    free_max: int | None
    blocks_max: int | None
    """The highest of each worker over the whole stretch, summed over the workers; None without a pass."""
    contended_ns: float
    """Time in passes that computed while the head of the queue was kept waiting."""

    def share(self, amount: Floats) -> Floats:
        """An amount of ns as a share of the time recorded in each part."""
        shares: Floats = np.divide(amount, self.all_ns, out=np.full(self.count, np.nan), where=self.all_ns > 0)
        return shares

    def level(self, amount_time: Floats) -> float | None:
        """The mean over time of an amount times ns, summed over the workers; the same for any number of parts."""
        whole = float(self.all_ns.sum())
        return float(amount_time.sum()) / whole * self.workers if whole else None

    def in_thirds(self, amounts: Floats) -> Floats:
        """The sums of three equal parts of the stretch, exact where `count` is a multiple of three."""
        return np.array([part.sum() for part in np.array_split(amounts, 3)])


def binned(answer: pa.Table, count: int) -> Bins:
    """The answer to `engine_bins` in `count` parts."""
    cells = _Cells(answer, count)
    computing = cells.kinds != IDLE
    kinds, reasons = StepKind, (reason for reason in Reason if reason is not Reason.NONE)
    covered = cells.total("ns")
    seen = covered > 0
    # A pass without duration leaves no time, but it was there.
    seen[np.unique(cells.bins)] = True
    busy = cells.total("ns", computing)
    hosts = cells.total("sched_ns", computing), cells.total("post_ns", computing)
    return Bins(
        count,
        cells.workers,
        {kind.value: cells.total("ns", cells.kinds == kind.value) for kind in kinds},
        {reason.value: cells.total("ns", cells.reasons == reason.value) for reason in reasons},
        busy_ns=_known(busy, seen),
        exec_ns=_known(cells.total("exec_ns", computing), seen),
        host_ns=_known(hosts[0] + hosts[1], seen),
        idle_ns=_known(covered - busy, seen),
        device_ns=_known(cells.total("device_ns", computing), seen),
        all_ns=covered,
        batch=_known(_of_steps(cells.total("batch_time", computing), busy), seen),
        prefill_tokens=_known(_of_steps(cells.total("prefill_time", computing), busy), seen),
        decode_tokens=_known(_of_steps(cells.total("decode_time", computing), busy), seen),
        running=_known(cells.peak("running_max"), seen),
        waiting=_known(cells.peak("waiting_max"), seen),
        held=_known(cells.peak("held_max"), seen),
        free=_known(cells.peak("free_max"), seen),
        blocks=_known(cells.peak("kv_total"), seen),
        batch_time=cells.total("batch_time", computing),
        running_time=cells.total("running_time"),
        waiting_time=cells.total("waiting_time"),
        held_time=cells.total("held_time"),
        sched_ns=_known(hosts[0], seen),
        post_ns=_known(hosts[1], seen),
        batch_max=int(cells.column("batch_max").max(initial=0)),
        tokens_max=int(cells.column("tokens_max").max(initial=0)),
        running_max=cells.highest("running_max"),
        held_max=cells.highest("held_max"),
        free_max=cells.highest("free_max"),
        blocks_max=cells.highest("kv_total"),
        contended_ns=float(cells.column("ns")[computing & (cells.reasons != Reason.NONE.value)].sum()),
    )


class _Cells:
    """The rows of the answer, by worker and part."""

    def __init__(self, answer: pa.Table, count: int) -> None:
        self._count = count
        self._columns = {name: np.nan_to_num(answer[name].cast(pa.float64()).to_numpy()) for name in (*_SUMS, *_PEAKS)}
        self.bins: Ints = answer["bin"].to_numpy()
        self.kinds, self.reasons = (np.asarray(answer[name].to_pylist(), dtype=object) for name in ("kind", "reason"))
        self._workers, self._worker = np.unique(answer["worker"].to_numpy(), return_inverse=True)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    def column(self, name: str) -> Floats:
        column: Floats = self._columns[name]
        return column

    def total(self, name: str, where: object = True) -> Floats:
        """The sum in each part over the rows that count."""
        amounts = self._columns[name] * np.asarray(where, np.float64)
        return np.bincount(self.bins, amounts, self._count).astype(np.float64)

    def peak(self, name: str) -> Floats:
        """The highest of each worker in each part, summed over the workers."""
        highest = np.zeros((len(self._workers), self._count))
        np.maximum.at(highest, (self._worker, self.bins), self._columns[name])
        summed: Floats = highest.sum(axis=0)
        return summed

    def highest(self, name: str) -> int | None:
        """The highest of each worker, summed over the workers; None without a row."""
        found = [self._columns[name][self._worker == worker].max() for worker in range(len(self._workers))]
        return int(sum(found)) if found else None


def _ratio(amount: Floats, time: Floats) -> Floats:
    ratio: Floats = np.divide(amount, time, out=np.full(amount.shape, np.nan), where=time > 0)
    return ratio


def _of_steps(amount: Floats, time: Floats) -> Floats:
    """The mean over the time of steps; 0 where there was none."""
    return np.nan_to_num(_ratio(amount, time))


def _known(values: Floats, seen: object) -> Floats:
    known: Floats = np.where(np.asarray(seen), values, np.nan)
    return known
