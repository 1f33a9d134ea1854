"""Everything the engine screen and its headless twin say of a stretch of a run, in one value."""

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from console.diagnosis import Board, Finding, Pulse, Refusals, Retries, board, pressure, pulse
from console.engine_view.bins import Bins, binned
from console.engine_view.kv import CACHED, DEAD, NO_CACHE, KvLedger, kv_ledger, per_part, with_dead
from console.engine_view.look import Asking, Look
from console.engine_view.resources import Counts, Resource, resources
from console.engine_view.utilisation import find_rhythm, loop_cpu
from console.filter import Filter
from console.rhythm import Rhythm
from console.session import Session, rows
from console.timeline import Floats
from recorder.run import run_state
from recorder.words import EventKind

if TYPE_CHECKING:
    import duckdb

_MOST_EVICTIONS: Final = 12


class EngineReport(TypedDict):
    """What `tailtrace engine --json` prints. Times are ns; `window` counts from the run's first instant.

    `filter` is about requests: latencies, refusals, victims, device time. What workers did is never filtered.
    """

    run: str
    state: str
    filter: str
    worker: int | None
    workers: list[dict[str, Any]]
    window: dict[str, int]
    findings: list[dict[str, str]]
    kinds: list[dict[str, Any]]
    time: dict[str, float | None]
    batch: dict[str, float | None]
    resources: list[Resource]
    kv: dict[str, Any]
    reasons: dict[str, dict[str, float]]
    preemptions: dict[str, Any]
    refusals: dict[str, Any]
    pulse: dict[str, Any]
    rhythm: dict[str, Any]
    device: dict[str, Any]
    stalls: list[dict[str, Any]]
    series: dict[str, list[float | None]]
    formulas: dict[str, str]


@dataclass(frozen=True)
class About:
    """What is told of requests, and what all figures say: of a large run this takes longest."""

    pulse: Pulse
    board: Board
    rhythm: Rhythm
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class EngineView:
    """The numbers, and what the strips are drawn from. Without `about` the report tells of the workers alone."""

    look: Look
    report: EngineReport
    bins: Bins
    kv: KvLedger
    preempted: Floats
    about: About | None = None


def engine(session: Session, only: Filter, look: Look, cursor: "duckdb.DuckDBPyConnection") -> EngineView:
    """Ask everything. Never fails on a run that is merely odd. `cursor` is a fresh one, and is put under the filter."""
    asking = Asking.under(session, only, look, cursor)
    return explained(asking, workers(asking, only))


def workers(asking: Asking, only: Filter) -> EngineView:
    """What the workers did: passes, time, resources, KV blocks, why heads of queues waited."""
    session, look = asking.session, asking.look
    config = session.tables.info.config
    bins, changes = binned(asking.ask("engine_bins"), look.bins), asking.ask("engine_changes")
    events, stalls = rows(asking.ask("engine_events")), asking.ask("engine_stalls")
    kv = kv_ledger(bins, config.get("kv", {}), changes)
    preempted = np.where(np.isnan(bins.running), np.nan, per_part(changes, "preemptions", look.bins))
    report = EngineReport(
        run=session.name,
        state=run_state(session.path),
        filter=str(only),
        worker=look.worker,
        workers=rows(asking.ask("engine_workers")),
        window={"since_ns": look.window.start - look.window.low, "until_ns": look.window.end - look.window.low},
        findings=[],
        kinds=_kinds(asking),
        time=_time(bins),
        batch={"mean": _mean_of_steps(bins, bins.batch), "max": bins.batch_max, **_tokens(bins)},
        resources=resources(bins, config, _counts(events), stalls, loop_cpu(asking)),
        kv=kv.document(),
        reasons=_reasons(bins),
        preemptions=_preempted(events),
        refusals={},
        pulse={},
        rhythm={},
        device={},
        stalls=rows(stalls),
        series=_series(bins, kv, preempted),
        formulas=_formulas(config),
    )
    return EngineView(look, report, bins, kv, preempted)


def explained(asking: Asking, view: EngineView) -> EngineView:
    """The same with what is told of requests, and with what all of it says."""
    bins = view.bins
    kv = with_dead(asking, view.kv)
    tail, refusals = _requests(asking)
    breath = find_rhythm(asking)
    pressed = _pressed(bins, view.preempted)
    findings = (*pressed, *tail.findings, *refusals.findings, *breath.findings)
    report: EngineReport = {
        **view.report,
        "findings": [asdict(finding) for finding in findings],
        "kv": kv.document(),
        "preemptions": {**view.report["preemptions"], **_evictions(asking)},
        "refusals": {**asdict(refusals), "reasons": rows(asking.ask("engine_refusal_reasons"))},
        "pulse": asdict(tail),
        "rhythm": asdict(breath),
        "device": rows(asking.ask("engine_device"))[0],
        "series": _series(bins, kv, view.preempted),
    }
    return replace(view, report=report, kv=kv, about=About(tail, refusals, breath, findings))


def _pressed(bins: Bins, preempted: Floats) -> tuple[Finding, ...]:
    """What grows and what shrinks from third to third."""
    time, busy = bins.in_thirds(bins.all_ns), bins.in_thirds(np.nan_to_num(bins.busy_ns))
    waiting, batch = bins.in_thirds(bins.waiting_time) * bins.workers, bins.in_thirds(bins.batch_time)
    return pressure(
        np.divide(waiting, time, out=np.full(3, np.nan), where=time > 0),
        np.divide(batch, busy, out=np.full(3, np.nan), where=busy > 0),
        bins.in_thirds(np.nan_to_num(preempted)),
    )


def _requests(asking: Asking) -> tuple[Pulse, Board]:
    """Both diagnoses of requests: their latencies' tail, and those turned away."""
    row = asking.ask("engine_refusals").to_pylist()[0]
    refusals = Refusals(row["attempts"], row["refused"], row["timed"])
    retries = _retries(asking) if row["refused"] or row["again"] else Retries(0, 0, 0, 0, told=False)
    latencies = asking.ask("engine_latencies")["e2e_ns"].to_numpy()
    return pulse(latencies, refusals), board(refusals, retries)


def _retries(asking: Asking) -> Retries:
    row = asking.ask("engine_retries").to_pylist()[0]
    return Retries(row["requests"], row["retries"], row["firsts"], row["firsts_ok"], told=row["told"] > 0)


def _kinds(asking: Asking) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asking.ask("engine_kinds").to_pylist()
    whole = sum(row["ns"] for row in found)
    return [{**row, "share": row["ns"] / whole if whole else None} for row in found]


def _time(bins: Bins) -> dict[str, float | None]:
    """Where the workers' time went, ns: idle, host before and after execution, execution, and the device in it."""
    parts = {
        "idle_ns": bins.idle_ns,
        "host_before_ns": bins.sched_ns,
        "execution_ns": bins.exec_ns,
        "host_after_ns": bins.post_ns,
        "device_ns": bins.device_ns,
    }
    return {"recorded_ns": float(bins.all_ns.sum()), **{name: float(np.nansum(part)) for name, part in parts.items()}}


def _mean_of_steps(bins: Bins, levels: Floats) -> float | None:
    """The mean of something told of steps, over the time of the steps."""
    time = float(np.nansum(bins.busy_ns))
    return float(np.nansum(levels * bins.busy_ns)) / time if time else None


def _tokens(bins: Bins) -> dict[str, float | None]:
    return {
        "prefill_tokens": _mean_of_steps(bins, bins.prefill_tokens),
        "decode_tokens": _mean_of_steps(bins, bins.decode_tokens),
        "tokens_max": bins.tokens_max,
    }


def _counts(events: list[dict[str, Any]]) -> Counts:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in events:
        counts[row["kind"], row["reason"]] += row["n"]
    return counts


def _reasons(bins: Bins) -> dict[str, dict[str, float]]:
    """Why the head of the queue was kept waiting, the longest first: ns, and the share of the time recorded."""
    whole = float(bins.all_ns.sum())
    lasted = {reason: float(levels.sum()) for reason, levels in bins.reasons.items() if levels.any()}
    return {
        reason: {"ns": ns, "share": ns / whole if whole else 0.0}
        for reason, ns in sorted(lasted.items(), key=lambda item: -item[1])
    }


def _preempted(events: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in events if row["kind"] == EventKind.PREEMPTED.value]
    return {name: sum(row[name] for row in own) for name in ("n", "lost_tokens", "freed_blocks")}


def _evictions(asking: Asking) -> dict[str, Any]:
    pairs = rows(asking.ask("engine_evictions", most=_MOST_EVICTIONS))
    return {"pairs": pairs[0]["pairs"] if pairs else 0, "worst": pairs}


def _series(bins: Bins, kv: KvLedger, preempted: Floats) -> dict[str, list[float | None]]:
    """What the strips show, one number for each equal part of the window; null where no pass was recorded."""
    drawn = {
        "batch_mean": bins.batch,
        "prefill_tokens_mean": bins.prefill_tokens,
        "decode_tokens_mean": bins.decode_tokens,
        "waiting_max": bins.waiting,
        "running_max": bins.running,
        "device_share": bins.share(bins.device_ns),
        "execution_share": bins.share(bins.exec_ns),
        "host_share": bins.share(bins.host_ns),
        "kv_held_max": kv.held,
        "kv_cached_at_most": kv.cached,
        "kv_dead_max": kv.dead,
        "preemptions": preempted,
    }
    return {name: [None if np.isnan(level) else float(level) for level in levels] for name, levels in drawn.items()}


def _formulas(config: dict[str, Any]) -> dict[str, str]:
    caching = config.get("kv", {}).get("enable_prefix_caching")
    return {
        "execution": "t_done - t_exec",
        "host": "(t_exec - t_sched) + (t_end - t_done), of passes that are not idle",
        "device": "device_ns of steps (SPEC B9: a request's share is by its tokens of each step)",
        "kv_cached": CACHED if caching else NO_CACHE if caching is not None else "not known: no configuration",
        "kv_dead": DEAD,
    }
