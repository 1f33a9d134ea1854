"""A worker that was lost: attempts that went with it, and the queue before those that were left (SPEC A7, C9)."""

from dataclasses import replace
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence, Loss
from console.explain.finding import Finding, Kind, Nature, Suggestion
from console.explain.suspects.base import Claims, Suspect, is_queue, nothing
from console.text.report import counted
from console.widgets.ink import duration, percent

_LONGER: Final = 3
_NOTABLE_NS: Final = 1_000_000
_MOST: Final = 0.8


def began_to_wait(evidence: Evidence, t: int) -> bool:
    """Whether the queue grew at that instant: those after it wait far longer, and nearly all slow ones came later."""
    around = evidence.around.get(t)
    if around is None or not around.before or not around.after:
        return False
    before, after = around.wait_before or 0, around.wait_after or 0
    slow = around.slow_before + around.slow_after
    return after >= _LONGER * max(before, _NOTABLE_NS) and around.slow_after >= _MOST * slow


def _lost(evidence: Evidence) -> list[Loss]:
    return [loss for loss in evidence.losses if loss.t is not None]


def _claims(evidence: Evidence) -> Claims:
    lost = _lost(evidence)
    if not lost:
        return nothing
    waits = any(began_to_wait(evidence, loss.t) for loss in lost if loss.t is not None)

    def mine(cell: Cell) -> bool:
        return cell.cause == "EARLIER_ATTEMPT" or (waits and is_queue(cell))

    return mine


def _tell(claim: Claim) -> Finding | None:
    lost = _lost(claim.evidence)
    if not lost:
        return None
    hit, again, spent = (sum(each) for each in zip(*((one.hit, one.again, one.spent_ns) for one in lost), strict=True))
    who = ", ".join(str(loss.worker) for loss in lost)
    left = len(claim.evidence.losses) - len(lost)
    sentences = [
        f"{'Worker' if len(lost) == 1 else 'Workers'} {who} of {len(claim.evidence.losses)} was lost: "
        f"{_became(hit, again, spent)}; {counted(left, 'worker')} served on."
    ]
    if claim.cells and claim.ns > 0:
        sentences.append(f"{claim.opening(claim.named_causes())}: time with it, and the queue that began to grow then.")
    sentences += [_queue(claim.evidence, loss) for loss in lost]
    example = next((loss.example for loss in lost if loss.example is not None), None)
    made = claim.finding(Kind.WORKER_LOST, sentences, Nature.ANSWERS)
    return replace(
        made,
        measured=False,
        culprits=(),
        at=claim.evidence.place(example),
        only=made.only if claim.cells else "status:failed",
        suggestion=Suggestion("see why it died (its stderr, the kernel's log); keep room for the loss of one worker"),
        figures={"workers": [loss.worker for loss in lost], "attempts": hit, "answered_again": again},
    )


def _became(hit: int, again: int, spent_ns: int) -> str:
    """What became of those who were on it."""
    if not hit:
        return "nobody was on it"
    went = f"{counted(hit, 'attempt')} went with it, {duration(spent_ns // hit)} old on average"
    if again == hit:
        return f"{went}, and all were answered by another"
    return f"{went}, of which {again:,} were answered by another and {hit - again:,} by none"


def _queue(evidence: Evidence, loss: Loss) -> str:
    around = evidence.around.get(loss.t or 0)
    if around is None or around.wait_before is None or around.wait_after is None:
        return ""
    slow = around.slow_before + around.slow_after
    part = f"; {percent(around.slow_after / slow)} of the slow requests came after it" if slow else ""
    return (
        f"The wait in the queue went from {duration(around.wait_before)} in the middle to"
        f" {duration(around.wait_after)}{part}."
    )


WORKER_LOST: Final = Suspect(Kind.WORKER_LOST, _claims, _tell, untimed=True)
