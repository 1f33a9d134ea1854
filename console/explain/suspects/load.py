"""What makes the figures themselves doubtful, or leaves requests without an answer: loops, losses, refusals."""

from collections import Counter
from typing import Final

from console.diagnosis import HEALTHY_REFUSALS
from console.explain.claim import Claim
from console.explain.evidence import Evidence, Refusal
from console.explain.finding import WORKERS, Change, Finding, Kind, Nature, Suggestion
from console.explain.suspects.base import Suspect, nothing, whatever
from console.filter import Filter, Words
from console.text.report import counted
from console.widgets.ink import percent

_NOTABLE: Final = 0.01
_UNANSWERED: Final = frozenset({"rejected", "expired", "failed"})
_MISTAKEN: Final = range(400, 429)
_OPEN_LOOP: Final = Suggestion("measure with arrivals that wait for nobody: tailtrace load sends at given times")


def _tell_loop(claim: Claim) -> Finding | None:
    found = claim.evidence.pinned
    if found is None:
        return None
    sentences = [
        f"Arrivals wait for answers (a closed loop): while {found.level:,} requests were in flight,"
        f" {percent(found.share)} of the time, {found.met:,} came; {found.expected:,.0f} would have, had they waited"
        " for nobody.",
        "So every percentile leaves out what waited outside (coordinated omission): users would see a longer tail.",
    ]
    figures = {"level": found.level, "share": found.share, "met": found.met, "expected": found.expected}
    return Finding(Kind.CLOSED_LOOP, Nature.MEASUREMENT, tuple(sentences), suggestion=_OPEN_LOOP, figures=figures)


def _tell_records(claim: Claim) -> Finding | None:
    evidence = claim.evidence
    total = sum(evidence.states.values())
    if not total or evidence.incomplete < _NOTABLE * total:
        return None
    sentences = [
        f"Records were lost: {counted(evidence.incomplete, 'request')} of {total:,} lived then, and may be shown"
        f" without some of what happened to them ({counted(evidence.drops, 'drop')})."
    ]
    advice = Suggestion("give the recorder larger rings ([record] ring_mb) or a disk that keeps up")
    figures = {"incomplete": evidence.incomplete, "drops": evidence.drops}
    return Finding(Kind.LOST_RECORDS, Nature.MEASUREMENT, tuple(sentences), suggestion=advice, figures=figures)


def _tell_refusals(claim: Claim) -> Finding | None:
    evidence = claim.evidence
    total = sum(evidence.states.values())
    unanswered = {"rejected", "expired"} if any(loss.t is not None for loss in evidence.losses) else _UNANSWERED
    refused = [refusal for refusal in evidence.refusals if refusal.status in unanswered]
    n = sum(refusal.n for refusal in refused)
    if not n or n <= HEALTHY_REFUSALS[1] * total:
        return None
    sentences = [
        f"{percent(n / total)} of the requests got no answer: {_states(refused)} (healthy: up to"
        f" {percent(HEALTHY_REFUSALS[1])}).",
        f"Why: {_reasons(refused)}.",
        _told(refused),
    ]
    return Finding(
        Kind.REFUSALS,
        Nature.ANSWERS,
        tuple(sentences),
        suggestion=_advice(evidence, refused),
        only=str(Filter((Words("status", tuple(dict.fromkeys(refusal.status for refusal in refused))),))),
        at=evidence.place(refused[0].example),
        figures={"refused": n, "attempts": total, "reasons": {refusal.reason: refusal.n for refusal in refused}},
    )


def _states(refused: list[Refusal]) -> str:
    counts: Counter[str] = Counter()
    for refusal in refused:
        code = f" with {refusal.http_status}" if refusal.http_status is not None else ""
        counts[f"{refusal.status}{code}"] += refusal.n
    return ", ".join(f"{n:,} {state}" for state, n in counts.most_common(4))


def _reasons(refused: list[Refusal]) -> str:
    counts: Counter[str] = Counter()
    for refusal in refused:
        counts[refusal.reason or "no reason was recorded"] += refusal.n
    more = f", and {counted(len(counts) - 3, 'other reason')}" if len(counts) > 3 else ""
    return "; ".join(f"{reason} ({n:,})" for reason, n in counts.most_common(3)) + more


def _told(refused: list[Refusal]) -> str:
    """What they were told of when to come again (SPEC B1)."""
    rejected = [refusal for refusal in refused if refusal.status == "rejected"]
    told, n = sum(refusal.told for refusal in rejected), sum(refusal.n for refusal in rejected)
    if not n:
        return ""
    if not told:
        return "Nobody was told when to come again (Retry-After)."
    waits = [refusal for refusal in rejected if refusal.told]
    least, most = min(one.retry_min or 0 for one in waits), max(one.retry_max or 0 for one in waits)
    span = f"{least:,} to {most:,} ms, {waits[0].retry_p50:,} in the middle"
    return f"{told:,} of {n:,} were told when to come again (Retry-After): {span}."


def _advice(evidence: Evidence, refused: list[Refusal]) -> Suggestion:
    """More workers help whom load turned away, and nobody who asked for what is never served."""
    mistaken = sum(refusal.n for refusal in refused if (refusal.http_status or 0) in _MISTAKEN)
    if 2 * mistaken > sum(refusal.n for refusal in refused):
        return Suggestion("most asked for what this server never serves: mend the requests, or raise the limit named")
    workers = max(len(evidence.workers), 1) + 1
    advice = "serve with more workers, or bound the load before it comes here"
    return Suggestion(advice, (Change(WORKERS, workers),))


CLOSED_LOOP: Final = Suspect(Kind.CLOSED_LOOP, whatever(nothing), _tell_loop, untimed=True)
LOST_RECORDS: Final = Suspect(Kind.LOST_RECORDS, whatever(nothing), _tell_records, untimed=True)
REFUSALS: Final = Suspect(Kind.REFUSALS, whatever(nothing), _tell_refusals, untimed=True)
