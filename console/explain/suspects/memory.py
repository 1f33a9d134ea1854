"""A KV cache that holds less than was let in: waits for blocks, preemptions, work done twice (SPEC C13)."""

from dataclasses import replace
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence
from console.explain.finding import Change, Finding, Kind, Steps, Suggestion
from console.explain.suspects.base import Suspect, blame, is_queue, named, whatever
from console.text.report import counted

_ROOTS: Final = frozenset({"KV_BLOCKS", "PREEMPTION"})


def _claims(cell: Cell) -> bool:
    if cell.cause == "RECOMPUTE" or cell.cause.startswith("PREEMPTED/"):
        return True
    return is_queue(cell) and cell.root in _ROOTS


def _tell(claim: Claim) -> Finding | None:
    evidence, lost = claim.evidence, claim.evidence.preemptions
    sentences = [f"{claim.opening(claim.named_causes())}: the KV cache had no room."]
    steps = None
    if lost.n:
        sentences.append(
            f"{counted(lost.victims, 'request')} lost their blocks in {counted(lost.n, 'preemption')}, with"
            f" {counted(lost.lost_tokens, 'computed token')} thrown away{_taker(evidence)}."
        )
        if lost.worker is not None and lost.first_step is not None and lost.last_step is not None:
            steps = Steps(lost.worker, lost.first_step, lost.last_step)
    sentences += [_room(evidence), blame(claim)]
    figures = {"preemptions": lost.n, "preempted": lost.victims, "lost_tokens": lost.lost_tokens}
    made = claim.finding(Kind.KV_EXHAUSTED, sentences)
    return replace(made, steps=steps, suggestion=_suggestion(evidence), figures=figures)


def _taker(evidence: Evidence) -> str:
    lost = evidence.preemptions
    if lost.taker is None or not lost.taken:
        return ""
    person = evidence.people.get(lost.taker)
    who = named(lost.taker, person.request_id if person else "")
    return f"; {who} took them most often, {lost.taken:,} times"


def _room(evidence: Evidence) -> str:
    tight = [worker for worker in evidence.workers if worker.kv_total and worker.kv_free_min is not None]
    if not tight:
        return ""
    worst = min(tight, key=lambda worker: (worker.kv_free_min or 0) / (worker.kv_total or 1))
    return (
        f"Worker {worst.worker} was down to {counted(worst.kv_free_min or 0, 'free block')} of"
        f" {worst.kv_total:,}, with up to {worst.running_max or 0:,} running."
    )


def _suggestion(evidence: Evidence) -> Suggestion:
    """More memory, or as many at once as it holds with their whole answers: no blocks are lost, others wait."""
    total = max((worker.kv_total for worker in evidence.workers if worker.kv_total), default=None)
    size, seqs = evidence.setting("kv", "block_size"), evidence.setting("scheduler", "max_num_seqs")
    slow = evidence.slow
    changes = [] if total is None else [Change("num_blocks", 2 * total)]
    if total is not None and isinstance(size, int) and isinstance(seqs, int) and slow.n:
        each = -(-(slow.prompt_tokens + slow.output_tokens) // slow.n // size)
        fit = max(total // max(each, 1), 1)
        changes += [Change("max_num_seqs", fit)] if fit < seqs else []
    return Suggestion("give the KV cache more memory, or let less in at once", tuple(changes))


KV_EXHAUSTED: Final = Suspect(Kind.KV_EXHAUSTED, whatever(_claims), _tell)
