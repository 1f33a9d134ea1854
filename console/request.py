"""The life of one request: its stamps, phases, causes with their culprits, steps and events, as plain data."""

import difflib
import re
from typing import Any, Final, TypedDict

from console.session import Session, rows
from recorder.errors import UserError

STAMPS: Final = ("arrival", "admitted", "queued", "first_scheduled", "first_token", "last_token", "returned")
"""In the order they must have."""

_NUMBER: Final = re.compile(r"(?:req:)?(\d{1,18})")
_SUGGESTIONS: Final = 3


class Life(TypedDict):
    """One attempt. `request` is its row with the measures added; times are ns on the run's clock."""

    request: dict[str, Any]
    phases: list[dict[str, Any]]
    causes: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    events: list[dict[str, Any]]


class RequestNotFoundError(UserError):
    """No request of the run has that id."""


def lives(session: Session, wanted: str) -> list[Life]:
    """Every attempt of the request somebody means: by the id its client knows, else by its number (`7`, `req:7`)."""
    return [_life(session, row["rid"], row["attempt"]) for row in find(session, wanted)]


def find(session: Session, wanted: str) -> list[dict[str, Any]]:
    """The attempts that an id names, oldest first. Raises `RequestNotFoundError`."""
    number = _NUMBER.fullmatch(wanted)
    found = rows(session.ask("find_request", id=wanted, rid=int(number[1]) if number else None))
    if not found:
        raise RequestNotFoundError(f"run {session.name} has no request {wanted!r}: {_hint(session, wanted)}")
    by_id = [row for row in found if row["request_id"] == wanted]
    return by_id or found


def _life(session: Session, rid: object, attempt: object) -> Life:
    return Life(
        request=rows(session.ask("request", rid=rid, attempt=attempt))[0],
        phases=rows(session.ask("request_phases", rid=rid, attempt=attempt)),
        causes=rows(session.ask("request_causes", rid=rid, attempt=attempt)),
        steps=rows(session.ask("request_steps", rid=rid)),
        events=rows(session.ask("request_events", rid=rid)),
    )


def _hint(session: Session, wanted: str) -> str:
    known = session.ask("per_request")["request_id"].to_pylist()
    if not known:
        return "it has none at all"
    near = difflib.get_close_matches(wanted, known[:10_000], n=_SUGGESTIONS, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"its ids are like {known[0]}, and req:NUMBER names one by its number in the run"
