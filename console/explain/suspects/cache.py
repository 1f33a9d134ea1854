"""A prefix cache that stopped to hit: prompts computed that used to be found (SPEC C4)."""

from dataclasses import replace
from typing import Final

from console.explain.cells import MISSES, PACE, PREFILLS, Asked, Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import Finding, Kind, Suggestion
from console.explain.suspects.base import Claims, Suspect, is_queue, nothing
from console.explain.suspects.fleet import began_to_wait
from console.widgets.ink import percent

_BY_PROMPTS: Final = frozenset({"STALLED_BY_PREFILL", "SKIPPED", "STEP_IN_FLIGHT"})
_ADVICE: Final = Suggestion(
    "find what changed in front of the prompts then (a date, an id, an order of documents), and put it at their end"
)


def _claims(evidence: Evidence) -> Claims:
    """Own work through misses, and what prompts that missed did to others."""
    shift = evidence.shift
    if shift is None or evidence.slow.hit_share > evidence.typical.hit_share / 2:
        return nothing
    waits = began_to_wait(evidence, shift.t)

    def mine(cell: Cell) -> bool:
        if cell.cause in PREFILLS:
            return cell.root in {MISSES, PACE}
        if is_queue(cell):
            return waits or cell.missed
        return cell.cause in _BY_PROMPTS and cell.missed

    return mine


def _tell(claim: Claim) -> Finding | None:
    shift, evidence = claim.evidence.shift, claim.evidence
    if shift is None:
        return None
    slow, typical = evidence.slow, evidence.typical
    sentences = [
        f"{claim.opening(claim.named_causes())}: prompts that were found in the prefix cache before are computed now.",
        f"From req:{shift.rid} on the cache gave {percent(shift.after)} of the prompt tokens, {percent(shift.before)}"
        " before.",
        f"Slow requests computed {_computed(slow)}, typical ones {_computed(typical)}.",
    ]
    return replace(
        claim.finding(Kind.CACHE_MISSES, sentences),
        culprits=(),
        at=evidence.place(shift.rid),
        measured=False,
        suggestion=_ADVICE,
        figures={"hits_before": shift.before, "hits_after": shift.after, "since_rid": shift.rid},
    )


def _computed(asked: Asked) -> str:
    computed, prompt = asked.mean(asked.prompt_tokens - asked.cached_tokens), asked.mean(asked.prompt_tokens)
    return f"{computed:,.0f} of {prompt:,.0f} prompt tokens each"


CACHE_MISSES: Final = Suspect(Kind.CACHE_MISSES, _claims, _tell)
