"""A request's own work: that it asked for more than others, and that the steps it was in were slower."""

from dataclasses import replace
from typing import Final

from console.explain.cells import DECODES, LENGTH, PREFILLS, Asked
from console.explain.claim import Claim
from console.explain.finding import Finding, Kind, Nature, Suggestion
from console.explain.suspects.base import Suspect, whatever

_WORK: Final = DECODES | PREFILLS
_UNSEEN: Final = "Steps were not recorded: what held them up in their own phases is in it."


def _tell_more(claim: Claim) -> Finding | None:
    slow, typical = claim.evidence.slow, claim.evidence.typical
    if claim.view == "everyone":
        said = [f"{claim.opening('its own work')}: {_each(typical)}.", _unseen(claim)]
        return claim.finding(Kind.ASKED_FOR_MORE, said, Nature.WORK)
    sentences = [
        f"{claim.opening('their own work')}: slow requests asked for more.",
        f"Slow ones had {_each(slow)}, typical ones {_each(typical)}.",
        _unseen(claim),
    ]
    return replace(claim.finding(Kind.ASKED_FOR_MORE, sentences, Nature.WORK), measured=False)


def _unseen(claim: Claim) -> str:
    return _UNSEEN if any(cell.cause.endswith("/PHASE") for cell in claim.cells) else ""


def _each(asked: Asked) -> str:
    prompt, output = asked.mean(asked.prompt_tokens), asked.mean(asked.output_tokens)
    return f"prompts of {prompt:,.0f} and answers of {output:,.0f} tokens on average"


def _tell_pace(claim: Claim) -> Finding | None:
    slow, typical = claim.evidence.slow, claim.evidence.typical
    sentences = [f"{claim.opening('slower steps')}: the same tokens took longer.", _unseen(claim)]
    if slow.running is not None and typical.running is not None:
        sentences.append(
            f"{slow.running:,.1f} others ran when slow requests came, {typical.running:,.1f} when typical ones did."
        )
    advice = Suggestion("keep a pace: tpot_slo_ms bounds the prompts beside decodes, max_num_seqs the decodes")
    return replace(claim.finding(Kind.SLOWER_STEPS, sentences), measured=False, suggestion=advice)


ASKED_FOR_MORE: Final = Suspect(
    Kind.ASKED_FOR_MORE, whatever(lambda cell: cell.cause in _WORK and cell.root == LENGTH), _tell_more
)
SLOWER_STEPS: Final = Suspect(Kind.SLOWER_STEPS, whatever(lambda cell: cell.cause in _WORK), _tell_pace)
