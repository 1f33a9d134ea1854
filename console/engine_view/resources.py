"""Utilisation, saturation and errors of each resource of an engine (Gregg's USE method), as plain rows."""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import numpy as np
import pyarrow as pa

from console.engine_view.bins import Bins
from recorder.words import EventKind, Reason, Source, StallKind

_SLOTS: Final = (Reason.SEQ_SLOTS, Reason.WORKER_BUSY)
_TOKENS: Final = (Reason.TOKEN_BUDGET, Reason.DECODE_SLACK)
_BLOCKS: Final = (Reason.KV_BLOCKS, Reason.PREEMPTION)
_REFUSED_FOR: Final = (Reason.QUEUE_FULL, Reason.OVERLOADED, Reason.RATE_LIMIT, Reason.DEADLINE)


class Resource(TypedDict):
    """One resource. Shares are 0 to 1, None where the run does not tell; `..._of` says what each number is."""

    name: str
    limit: float | None
    utilisation: float | None
    peak: float | None
    utilisation_of: str
    saturation: float | None
    saturation_of: str
    errors: int | None
    errors_of: str


Counts = Mapping[tuple[str, str], int]
"""How often each kind of event happened for each reason."""


def resources(
    bins: Bins, config: Mapping[str, Any], events: Counts, stalls: pa.Table, loop_cpu: "tuple[float, float] | None"
) -> list[Resource]:
    """The five resources of an engine. `loop_cpu` are mean and highest share of a core that the front end took."""
    scheduler = config.get("scheduler", {})
    return [
        _slots(bins, scheduler, events),
        _tokens(bins, scheduler),
        _kv(bins, events),
        _device(bins, events),
        _loop(bins, stalls, loop_cpu),
    ]


def _slots(bins: Bins, scheduler: Mapping[str, Any], events: Counts) -> Resource:
    of_one = _slot_limit(scheduler)
    limit = None if of_one is None else of_one * bins.workers
    return Resource(
        name="scheduler slots",
        limit=limit,
        utilisation=_over(bins.level(bins.running_time), limit),
        peak=_over(_float(bins.running_max), limit),
        utilisation_of="requests running / the most that may",
        saturation=_waited_for(bins, _SLOTS),
        saturation_of="time the head of the queue waited for one",
        errors=sum(events.get((EventKind.REJECTED.value, reason.value), 0) for reason in _REFUSED_FOR),
        errors_of="refused at the door",
    )


def _slot_limit(scheduler: Mapping[str, Any]) -> float | None:
    """Requests that may run at once under the policy of the run."""
    seats = scheduler.get("max_num_seqs")
    if scheduler.get("policy") == "immediate":
        return 1.0
    if scheduler.get("policy") in {"static", "dynamic"}:
        seats = scheduler.get("max_batch_size") or seats
    return None if seats is None else float(seats)


def _tokens(bins: Bins, scheduler: Mapping[str, Any]) -> Resource:
    limit = scheduler.get("max_num_batched_tokens")
    computed = bins.prefill_tokens + bins.decode_tokens
    weight = float(np.nansum(bins.busy_ns))
    mean = float(np.nansum(computed * bins.busy_ns)) / weight if weight else None
    return Resource(
        name="token budget",
        limit=None if limit is None else float(limit),
        utilisation=_over(mean, limit),
        peak=_over(float(bins.tokens_max), limit),
        utilisation_of="tokens of a step / max_num_batched_tokens, over the time of steps",
        saturation=_waited_for(bins, _TOKENS),
        saturation_of="time the head of the queue waited for some",
        errors=None,
        errors_of="",
    )


def _kv(bins: Bins, events: Counts) -> Resource:
    blocks = _float(bins.blocks_max)
    return Resource(
        name="KV blocks",
        limit=blocks,
        utilisation=_over(bins.level(bins.held_time), blocks),
        peak=_over(_float(bins.held_max), blocks),
        utilisation_of="blocks held / blocks",
        saturation=_waited_for(bins, _BLOCKS),
        saturation_of="time the head of the queue waited for some, or for who was preempted",
        errors=sum(n for (kind, _), n in events.items() if kind == EventKind.PREEMPTED.value),
        errors_of="preemptions",
    )


def _device(bins: Bins, events: Counts) -> Resource:
    whole = float(np.nansum(bins.all_ns))
    ends = (EventKind.FAILED.value, EventKind.WORKER_LOST.value)
    return Resource(
        name="device",
        limit=None,
        utilisation=float(np.nansum(bins.device_ns)) / whole if whole else None,
        peak=None,
        utilisation_of="device time of steps / time",
        saturation=bins.contended_ns / whole if whole else None,
        saturation_of="time it worked while somebody waited to be started",
        errors=sum(n for (kind, _), n in events.items() if kind in ends),
        errors_of="failures, workers lost",
    )


def _loop(bins: Bins, stalls: pa.Table, loop_cpu: "tuple[float, float] | None") -> Resource:
    loop = (Source.FRONTEND.value, StallKind.LOOP.value)
    late = [row for row in stalls.to_pylist() if (row["source"], row["kind"]) == loop]
    whole = float(np.nansum(bins.all_ns))
    return Resource(
        name="event loop",
        limit=None,
        utilisation=loop_cpu[0] if loop_cpu else None,
        peak=loop_cpu[1] if loop_cpu else None,
        utilisation_of="share of a core that the front end took",
        saturation=sum(row["ns"] for row in late) / whole if whole else None,
        saturation_of="time it did not turn",
        errors=sum(row["n"] for row in late),
        errors_of="times it did not turn",
    )


def _waited_for(bins: Bins, reasons: tuple[Reason, ...]) -> float | None:
    """The share of time that the head of a queue was kept waiting for these."""
    whole = float(np.nansum(bins.all_ns))
    return sum(float(np.nansum(bins.reasons[reason.value])) for reason in reasons) / whole if whole else None


def _over(amount: float | None, limit: float | None) -> float | None:
    return None if amount is None or not limit else amount / limit


def _float(count: int | None) -> float | None:
    return None if count is None else float(count)
