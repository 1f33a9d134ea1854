"""Waits in the queue: for a batch to fill, or because more comes than can be served."""

from dataclasses import replace
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import WORKERS, Change, Finding, Kind, Suggestion
from console.explain.suspects.base import Suspect, blame, is_queue, whatever
from console.text.report import counted
from console.widgets.ink import duration, percent

_ROOMY: Final = 0.3
"""With so much of the KV cache free at its fullest, more could run at once."""
_WORDS: Final = {
    "SEQ_SLOTS": "for a seat (max_num_seqs)",
    "TOKEN_BUDGET": "for tokens of a step (max_num_batched_tokens)",
    "WORKER_BUSY": "for those before to be done",
    "KV_BLOCKS": "for KV blocks",
    "DECODE_SLACK": "for decodes to be in time",
    "QUEUE/PHASE": "for a reason that was not recorded",
}


def _claims_timer(cell: Cell) -> bool:
    return is_queue(cell) and cell.root == "BATCH_TIMER"


def _tell_timer(claim: Claim) -> Finding | None:
    evidence = claim.evidence
    idle = [worker.idle_share for worker in evidence.workers if worker.idle_share is not None]
    limit = _limit_ms(evidence)
    allowed = f" of up to {limit:g} ms" if limit is not None else ""
    sentences = [
        f"{claim.opening(claim.named_causes())}: a timer{allowed} that holds requests back for a fuller batch."
    ]
    if idle:
        sentences.append(f"The workers had nothing to do for {percent(min(idle))} of the time or more.")
    changes = (Change("max_queue_delay_ms", 0), Change("policy", "continuous"))
    advice = Suggestion("wait less for a batch to fill: little comes", changes)
    made = claim.finding(Kind.BATCH_TIMER, sentences)
    return replace(made, suggestion=advice, figures={"max_queue_delay_ms": limit})


def _limit_ms(evidence: Evidence) -> float | None:
    micros = evidence.setting("scheduler", "max_queue_delay_microseconds")
    if isinstance(micros, int) and micros >= 0:
        return micros / 1000
    millis = evidence.setting("scheduler", "max_queue_delay_ms")
    return float(millis) if isinstance(millis, int | float) else None


def _tell_saturated(claim: Claim) -> Finding | None:
    evidence = claim.evidence
    sentences = [f"{claim.opening('waiting in the queue')}: {_roots(claim)}.", _fullest(evidence)]
    if (plateau := evidence.pulse.plateau) is not None:
        low, high = duration(plateau.low_ns), duration(plateau.high_ns)
        sentences.append(
            f"The tail is level from {low} to {high}, with {percent(plateau.share)} of the requests: a saturated queue."
        )
    sentences.append(blame(claim, "held up"))
    made = claim.finding(Kind.QUEUE_SATURATED, sentences)
    return replace(made, suggestion=_more(evidence), figures={"roots": claim.by_root()})


def _roots(claim: Claim) -> str:
    """What the heads of the queue waited for."""
    parts = [(share, _WORDS.get(root, root)) for root, share in claim.by_root().items()][:3]
    if len(parts) == 1:
        return f"all of it {parts[0][1]}"
    return ", ".join(f"{percent(share)} {words}" for share, words in parts)


def _fullest(evidence: Evidence) -> str:
    busy = [worker for worker in evidence.workers if worker.waiting_max]
    if not busy:
        return ""
    worst = max(busy, key=lambda worker: worker.waiting_max or 0)
    return (
        f"Up to {counted(worst.waiting_max or 0, 'request')} waited for worker {worst.worker} while"
        f" {worst.running_max or 0:,} ran; somebody waited {percent(worst.waiting_share)} of the time."
    )


def _more(evidence: Evidence) -> Suggestion:
    """Requests that join at every step; more seats where memory has room; more workers."""
    policy, workers = evidence.setting("scheduler", "policy"), max(len(evidence.workers), 1) + 1
    if policy in {"immediate", "static", "dynamic"}:
        advice = "let requests join at every step, not when others are done"
        return Suggestion(advice, (Change("policy", "continuous"), Change(WORKERS, workers)))
    seqs, budget = (evidence.setting("scheduler", key) for key in ("max_num_seqs", "max_num_batched_tokens"))
    free = [worker.kv_free_min / worker.kv_total for worker in evidence.workers
            if worker.kv_total and worker.kv_free_min is not None]  # fmt: skip
    seats = isinstance(seqs, int) and isinstance(budget, int) and 2 * seqs <= budget
    if seats and free and min(free) >= _ROOMY:
        advice = "let more run at once: the KV cache has room; or refuse early (max_estimated_wait_ms)"
        return Suggestion(advice, (Change("max_num_seqs", 2 * seqs), Change(WORKERS, workers)))
    advice = f"serve with {workers} workers, or refuse early what can't be served in time (max_estimated_wait_ms)"
    return Suggestion(advice, (Change(WORKERS, workers),))


BATCH_TIMER: Final = Suspect(Kind.BATCH_TIMER, whatever(_claims_timer), _tell_timer)
QUEUE_SATURATED: Final = Suspect(Kind.QUEUE_SATURATED, whatever(is_queue), _tell_saturated)
