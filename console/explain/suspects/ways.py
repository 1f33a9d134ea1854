"""The ways in and out: clients that read slowly, a front end that hands out slowly, messages that wait for a step."""

from dataclasses import replace
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim
from console.explain.evidence import Evidence, Late
from console.explain.finding import Culprit, Finding, Kind, Suggestion
from console.explain.suspects.base import Claims, Suspect, nothing, whatever
from console.filter import Filter, Part
from console.text.report import counted
from console.widgets.ink import duration

_PROMPT: Final = 5
"""Who waits for a slow client takes so many times longer than others who are answered meanwhile."""
_OTHERS: Final = 3


def slow_clients(evidence: Evidence) -> list[Late]:
    """Slow requests whose answers were ready, in a time in which others got theirs at once: it is not the front end."""
    return [
        late
        for late in evidence.late
        if late.others >= _OTHERS and late.others_p50 is not None and late.others_p50 * _PROMPT <= late.ns
    ]


def _is_return(cell: Cell) -> bool:
    return cell.cause in {"RETURN", "RETURN/PHASE"}


def _claims_clients(evidence: Evidence) -> Claims:
    """Where most of what lay ready lay there for slow clients."""
    slow = sum(late.ns for late in slow_clients(evidence))
    return _is_return if 2 * slow > sum(late.ns for late in evidence.late) else nothing


def _tell_clients(claim: Claim) -> Finding | None:
    late = slow_clients(claim.evidence)
    if not late:
        return None
    first = late[0]
    meanwhile = f"{counted(first.others, 'other')} got theirs in {duration(first.others_p50)} meanwhile"
    tenants = {one.tenant for one in late}
    whose = f" All are of tenant {first.tenant}." if len(tenants) == 1 and first.tenant else ""
    sentences = [
        f"{claim.opening(claim.named_causes())}: the answers were ready, and their own clients did not take them.",
        f"{counted(len(late), 'slow request')} waited so; request {first.request_id} (req:{first.rid})"
        f" for {duration(first.ns)}, while {meanwhile}.{whose}",
    ]
    people, whole = claim.evidence.people, sum(one.ns for one in late)
    culprits = tuple(
        Culprit(one.rid, one.request_id, people[one.rid].prompt_tokens if one.rid in people else 0, one.ns / whole)
        for one in late[:3]
    )
    only = claim.evidence.cohorts.slow_filter & Filter(
        (Part("cause", "RETURN", ">", min(one.ns for one in late) // 2),)
    )
    advice = Suggestion(
        "nothing in the engine: look at these clients and their network; a buffer bounds what they hold"
    )
    return replace(
        claim.finding(Kind.SLOW_CLIENTS, sentences),
        culprits=culprits,
        at=claim.evidence.place(first.rid),
        only=str(only),
        suggestion=advice,
        figures={"late": len(late)},
    )


def _tell_out(claim: Claim) -> Finding | None:
    said = [f"{claim.opening(claim.named_causes())}: tokens on their way from the worker to the client's socket."]
    advice = Suggestion("look at the front end: its CPU, its event loop, the number of streams in each step")
    return replace(claim.finding(Kind.WAY_OUT, said), suggestion=advice)


def _tell_in(claim: Claim) -> Finding | None:
    words = "the way to the worker, which looks for messages between its steps"
    advice = Suggestion("shorter steps: fewer tokens in each")
    said = [f"{claim.opening(claim.named_causes())}: {words}."]
    return replace(claim.finding(Kind.WAY_IN, said), suggestion=advice)


SLOW_CLIENTS: Final = Suspect(Kind.SLOW_CLIENTS, _claims_clients, _tell_clients)
WAY_OUT: Final = Suspect(Kind.WAY_OUT, whatever(_is_return), _tell_out)
WAY_IN: Final = Suspect(
    Kind.WAY_IN, whatever(lambda cell: cell.cause in {"INGRESS", "INGRESS/PHASE", "STEP_IN_FLIGHT"}), _tell_in
)
