"""What a suspect is, and the words that several of them need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import Finding, Kind, Steps
from console.text.report import counted
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


def named(rid: int, request_id: str) -> str:
    """`request chat-7 (req:812)`, or by its number alone."""
    known = request_id and request_id != str(rid)
    return f"request {request_id} (req:{rid})" if known else f"request req:{rid}"


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
    who = named(first.rid, first.request_id)
    if first.share < _CHIEF:
        many = counted(claim.blamed, "request")
        return f"No single request: {many} are behind it, the largest, {who}, with {percent(first.share)}."
    tokens = f" with {counted(first.prompt_tokens, 'prompt token')}" if first.prompt_tokens else ""
    where = in_steps(claim.steps_of(first.rid))
    others = [
        f"{named(one.rid, one.request_id)} {percent(one.share)}" for one in claim.culprits[1:] if one.share >= _NOTABLE
    ]
    more = f"; {' and '.join(others)}" if others else ""
    return f"{who[0].upper()}{who[1:]}{tokens} {what} {percent(first.share)} of it{where}{more}."
