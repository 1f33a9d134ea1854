"""The sheet of fixed-time batches (SPEC A5, C11): how many workers, how loaded, how long a batch may wait."""

from fractions import Fraction
from math import ceil

from engine.capacity.inputs import CapacityError, FixedBatch
from engine.capacity.sheet import Figure, Section, figure, number


def fixed_sheet(key: str, call: FixedBatch) -> Section:
    """Workers and waiting for one kind of call; CapacityError if its budget leaves nothing to wait with (SPEC A4)."""
    needed = call.exec_ms + call.network_ms
    if needed >= call.budget_ms:
        raise CapacityError(
            f"--fixed-batch: budget_ms={float(call.budget_ms):g} can't be met: exec_ms={float(call.exec_ms):g} + "
            f"network_ms={float(call.network_ms):g} leave nothing for batching and queueing"
        )
    title = f"Fixed-time batches: up to {number(call.batch)} requests in {number(call.exec_ms)} ms ({key})"
    return Section(key, title, (*_workers(call), *_waiting(call)))


def _workers(call: FixedBatch) -> tuple[Figure, ...]:
    n, batches_s = number, 1000 / call.exec_ms
    worker_s = batches_s * call.batch
    floor = ceil(call.rate / worker_s)
    return (
        figure("batches/s", batches_s, "batches/s", f"1,000 / {n(call.exec_ms)} ms", 4),
        figure("requests/s per worker", worker_s, "requests/s", f"{n(batches_s)} batches/s x {n(call.batch)}", 4),
        figure(
            "workers", floor, "workers", f"{n(call.rate)}/s / {n(worker_s)}/s = {n(call.rate / worker_s)}, rounded up"
        ),
        *(_load(call, workers, worker_s) for workers in (floor - 1, floor, floor + 1) if workers),
        figure("requests/s half full", worker_s / 2, "requests/s", f"{n(worker_s)} / 2: batches half full", 4),
        figure(
            "workers half full",
            ceil(2 * call.rate / worker_s),
            "workers",
            f"{n(call.rate)}/s / {n(worker_s / 2)}/s = {n(2 * call.rate / worker_s)}, rounded up",
        ),
    )


def _load(call: FixedBatch, workers: int, worker_s: Fraction) -> Figure:
    capacity = workers * worker_s
    verdict = ": falls behind" if capacity < call.rate else ": no slack" if capacity == call.rate else ""
    formula = f"{number(call.rate)}/s / ({number(workers)} x {number(worker_s)} = {number(capacity)}/s){verdict}"
    return figure(f"load of {workers} workers", 100 * call.rate / capacity, "%", formula, 3)


def _waiting(call: FixedBatch) -> tuple[Figure, ...]:
    n, left = number, call.budget_ms - call.exec_ms - call.network_ms
    timer = left / 2
    return (
        figure(
            "waiting budget",
            left,
            "ms",
            f"budget - execution - network = {n(call.budget_ms)} - {n(call.exec_ms)} - {n(call.network_ms)}; "
            "batching and queueing share it",
            4,
        ),
        figure("batch timer", timer, "ms", f"{n(left)} / 2: the other half is for a busy worker", 4),
        figure("batch fills in", 1000 * call.batch / call.rate, "ms", f"{n(call.batch)} / {n(call.rate)}/s", 4),
        figure(
            "timer rules below",
            1000 * call.batch / timer,
            "requests/s",
            f"{n(call.batch)} / {n(timer)} ms: below it batches leave by the timer, not full",
            3,
        ),
    )
