"""A service class that waits while others pass it (SPEC D6)."""

from dataclasses import replace
from typing import Final

from console.explain.claim import Claim
from console.explain.evidence import Evidence, Tier
from console.explain.finding import Change, Finding, Kind, Suggestion
from console.explain.suspects.base import Claims, Suspect, is_queue, nothing
from console.filter import Filter, Words
from console.widgets.ink import duration, percent

_LIFT: Final = 1.5
"""So many times its share of all requests is its share of the slow ones."""
_LONGER: Final = 3
_MOST: Final = 0.5
_AGEING_MS: Final = 2_000
_SHARE: Final = 0.3


def starved(evidence: Evidence) -> Tier | None:
    """The class that is passed: most slow requests are its, and it waits far longer than others do."""
    if len(evidence.tiers) < 2 or not evidence.slow.n:
        return None
    total = sum(tier.n for tier in evidence.tiers)
    worst = max(evidence.tiers, key=lambda tier: tier.slow / max(tier.n, 1))
    others = [tier.queue_p50 or 0 for tier in evidence.tiers if tier is not worst]
    lifted = worst.slow / evidence.slow.n >= max(_MOST, _LIFT * worst.n / total)
    waits = (worst.queue_p50 or 0) >= _LONGER * min(others)
    return worst if lifted and waits and _passed(evidence) else None


def _passed(evidence: Evidence) -> bool:
    """Most of the queue of the slow ones was behind other classes."""
    queue = [cell for cell in evidence.cells if is_queue(cell)]
    behind = sum(cell.slow_ns for cell in queue if cell.cause == "QUEUE/BEHIND_TIER")
    return behind > _MOST * sum(cell.slow_ns for cell in queue)


def _claims(evidence: Evidence) -> Claims:
    return nothing if starved(evidence) is None else is_queue


def _tell(claim: Claim) -> Finding | None:
    tier = starved(claim.evidence)
    if tier is None:
        return None
    evidence, total = claim.evidence, sum(other.n for other in claim.evidence.tiers)
    name = tier.tier or "without a name"
    others = ", ".join(
        f"{other.tier or 'without a name'} {duration(other.queue_p50)}" for other in evidence.tiers if other is not tier
    )
    sentences = [
        f"{claim.opening(claim.named_causes())}: tier {name} waits while others pass it.",
        f"It is {percent(tier.n / total)} of the answered requests and {percent(tier.slow / evidence.slow.n)} of the"
        f" slow ones; it waits {duration(tier.queue_p50)} in the middle ({others}).",
    ]
    only = str(evidence.cohorts.slow_filter & Filter((Words("tier", (tier.tier,)),)))
    made = claim.finding(Kind.STARVED_TIER, sentences)
    return replace(made, suggestion=_suggestion(evidence), only=only, figures={"tier": tier.tier})


def _suggestion(evidence: Evidence) -> Suggestion:
    ageing, share = evidence.setting("scheduler", "ageing_ms"), evidence.setting("scheduler", "min_share")
    changes = [Change("ageing_ms", _AGEING_MS)] if isinstance(ageing, int | float) and ageing > _AGEING_MS else []
    changes += [Change("min_share", _SHARE)] if isinstance(share, int | float) and share < _SHARE else []
    advice = f"let {_AGEING_MS:,} ms of waiting lift a request by a level, or give every class a share of the starts"
    return Suggestion(advice, tuple(changes))


STARVED_TIER: Final = Suspect(Kind.STARVED_TIER, _claims, _tell)
