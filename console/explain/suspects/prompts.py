"""Prompts that hold others up: decodes stalled beside them, queues that wait for the tokens they take."""

from dataclasses import replace
from typing import Final

from console.explain.cells import DECODES, Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import Change, Finding, Kind, Suggestion
from console.explain.suspects.base import Suspect, blame, is_queue, whatever

_STALLS: Final = frozenset({"STALLED_BY_PREFILL", "SKIPPED"})
_TOKENS: Final = frozenset({"TOKEN_BUDGET", "DECODE_SLACK"})
_CHUNK: Final = 512
"""Tokens of a chunk beside decodes at most (SPEC C5)."""
_PARTS: Final = 8
_LEAST: Final = 64


def _claims(cell: Cell) -> bool:
    by_tokens = cell.cause == "STEP_IN_FLIGHT" or (is_queue(cell) and cell.root in _TOKENS)
    return cell.cause in _STALLS or (by_tokens and cell.long)


def _tell(claim: Claim) -> Finding | None:
    sentences = [
        f"{claim.opening(claim.named_causes())}: prompts of others took the steps.",
        blame(claim),
    ]
    steps = claim.steps_of(claim.culprits[0].rid) if claim.culprits else None
    made = claim.finding(Kind.LONG_PROMPTS, sentences)
    return replace(made, steps=steps, suggestion=_suggestion(claim.evidence))


def _suggestion(evidence: Evidence) -> Suggestion:
    """Smaller chunks let others into the same steps; a pace bounds what decodes bear; short prompts may go first."""
    budget = evidence.setting("scheduler", "max_num_batched_tokens")
    threshold = evidence.setting("scheduler", "long_prefill_token_threshold") or budget
    if not isinstance(budget, int) or not isinstance(threshold, int):
        return Suggestion("compute long prompts in chunks, beside the decodes")
    chunk = min(max(threshold // _PARTS, _LEAST), _CHUNK)
    changes = [
        Change("long_prefill_token_threshold", size) for size in (chunk, chunk // 4) if _LEAST <= size < threshold
    ]
    if not evidence.setting("scheduler", "tpot_slo_ms") and (pace := _pace_ms(evidence)):
        changes.append(Change("tpot_slo_ms", pace))
    if evidence.setting("scheduler", "order") == "fcfs":
        changes.append(Change("order", "spf"))
    return Suggestion(
        "compute long prompts in small chunks beside the others, or give them a pool of their own", tuple(changes)
    )


def _pace_ms(evidence: Evidence) -> int:
    """Twice what a token takes a typical request."""
    typical = evidence.typical
    decoding = sum(cell.typical_ns for cell in evidence.cells if cell.cause in DECODES)
    return -(-2 * decoding // typical.decodes // 1_000_000) if typical.decodes else 0


LONG_PROMPTS: Final = Suspect(Kind.LONG_PROMPTS, whatever(_claims), _tell)
