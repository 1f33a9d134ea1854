"""What a suspect is, and the words that several of them need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import Culprit, Finding, Kind, Steps
from console.widgets.ink import percent

_CHIEF: Final = 0.2
"""Whoever is behind less of it is one of many."""
_NOTABLE: Final = 0.1

Claims = Callable[[Cell], bool]
Tell = Callable[[Claim], Finding | None]


@dataclass(frozen=True, slots=True)
class Suspect:
    """One explanation. `claims` gives, for a run, the predicate of the cells that are its own; `tell` says what they
    come of, or None where there is nothing to say. Who claims nothing is not asked, unless `untimed`."""

    kind: Kind
    claims: Callable[[Evidence], Claims]
    tell: Tell
    untimed: bool = False
    """It may have something to say that is about no time."""


def nothing(cell: Cell) -> bool:
    """What a suspect claims that is not about time, or has no case."""
    return False


def whatever(claims: Claims) -> Callable[[Evidence], Claims]:
    """The same predicate for every run."""
    return lambda _evidence: claims


def is_queue(cell: Cell) -> bool:
    """Whether it is a wait in the queue."""
    return cell.cause.startswith("QUEUE/")


def named(culprit: Culprit) -> str:
    """`request chat-7 (req:812)`, or by its number alone."""
    known = culprit.request_id and culprit.request_id != str(culprit.rid)
    return f"request {culprit.request_id} (req:{culprit.rid})" if known else f"request req:{culprit.rid}"


def counted(n: int, noun: str) -> str:
    """`1 step`, `4,410 steps`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def in_steps(steps: Steps | None) -> str:
    """`, steps 4,410 to 4,498 of worker 0`, where that is known."""
    if steps is None:
        return ""
    which = f"step {steps.first:,}" if steps.first == steps.last else f"steps {steps.first:,} to {steps.last:,}"
    return f", {which} of worker {steps.worker}"


def blame(claim: Claim, what: str = "caused") -> str:
    """Who is behind it: one request, a few, or many."""
    if not claim.culprits:
        return ""
    first = claim.culprits[0]
    if first.share < _CHIEF:
        many = counted(claim.blamed, "request")
        return f"No single request: {many} are behind it, the largest, {named(first)}, with {percent(first.share)}."
    tokens = f" with {counted(first.prompt_tokens, 'prompt token')}" if first.prompt_tokens else ""
    where = in_steps(claim.steps_of(first.rid))
    others = [f"{named(one)} {percent(one.share)}" for one in claim.culprits[1:] if one.share >= _NOTABLE]
    more = f"; {' and '.join(others)}" if others else ""
    return f"{_capital(named(first))}{tokens} {what} {percent(first.share)} of it{where}{more}."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
