"""The life of one request: stamps, phases, causes and culprits, token gaps, neighbours, attempts, as plain data."""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

from console.session import Session, rows
from console.tokengaps import Gap, Pass, losses_of, stalls_of, token_gaps
from recorder.attribution.stalls import Held, Stalls
from recorder.errors import UserError

if TYPE_CHECKING:
    import duckdb

STAMPS: Final = ("arrival", "admitted", "queued", "first_scheduled", "first_token", "last_token", "returned")
"""In the order they must have."""

_NUMBER: Final = re.compile(r"(?:req:)?(\d{1,18})")
_SUGGESTIONS: Final = 3
_LOOKED_THROUGH: Final = 10_000
"""Ids among which one that looks alike is looked for."""
_FOREVER: Final = 2**63 - 1


class TokenGap(TypedDict):
    """From one token to the next, number `token` of the answer, which `step` gave. `parts_ns` sum to `ns`.

    `worst` is the largest part that was not the request's own computing, `culprit` who had most of what others took.
    """

    token: int
    step: int
    since: int
    ns: int
    worst: str
    culprit: int | None
    culprit_id: str | None
    parts_ns: dict[str, int]


class Life(TypedDict):
    """One attempt. `request` is its row with the measures added; times are ns on the run's clock.

    `passes` are all of its worker's from its first to its last one, each with what the request did in it and with whom
    it shared it; `neighbours` sums that up by request. `gaps` begin with the longest. `family` are the attempts that
    belong together: of the same id, or one a retry of the other.
    """

    request: dict[str, Any]
    phases: list[dict[str, Any]]
    causes: list[dict[str, Any]]
    gaps: list[TokenGap]
    neighbours: list[dict[str, Any]]
    passes: list[dict[str, Any]]
    family: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    events: list[dict[str, Any]]


class RequestNotFoundError(UserError):
    """No request of the run has that id."""


def lives(session: Session, wanted: str) -> list[Life]:
    """Every attempt of the request somebody means: by the id its client knows, else by its number (`7`, `req:7`)."""
    found = (life_of(session, row["rid"], row["attempt"]) for row in find(session, wanted))
    return [{**life, "causes": causes_of(session, life), "family": family_of(session, life)} for life in found]


def find(session: Session, wanted: str) -> list[dict[str, Any]]:
    """The attempts that an id names, oldest first. Raises `RequestNotFoundError`."""
    number = _NUMBER.fullmatch(wanted)
    found = rows(session.ask("find_request", id=wanted, rid=int(number[1]) if number else None))
    if not found:
        raise RequestNotFoundError(f"run {session.name} has no request {wanted!r}: {_hint(session, wanted)}")
    by_id = [row for row in found if row["request_id"] == wanted]
    return by_id or found


def life_of(session: Session, rid: int, attempt: int, cursor: "duckdb.DuckDBPyConnection | None" = None) -> Life:
    """All that is known of one attempt but its causes and its family, which take longer: they are empty. A cursor lets
    the caller interrupt."""
    cursor = cursor if cursor is not None else session.connect()
    ask = partial(session.ask, cursor=cursor)
    request = rows(ask("request", rid=rid, attempt=attempt))[0]
    since, until = _lifetime(request)
    worker = request["worker"]
    reach: dict[str, Any] | None = next(
        iter(rows(ask("request_reach", rid=rid, worker=worker, since=since, until=until))), None
    )
    events = [row for row in rows(ask("request_events", rid=rid)) if since <= _int(row["t"]) <= until]
    life = Life(
        request=request,
        phases=rows(ask("request_phases", rid=rid, attempt=attempt)),
        causes=[],
        gaps=[],
        neighbours=[],
        passes=[],
        family=[],
        steps=[],
        events=events,
    )
    if reach is not None:
        with _only_passes(session, cursor, reach):
            life["passes"] = rows(ask("request_passes", rid=rid, **reach))
            life["neighbours"] = rows(ask("request_neighbours", rid=rid, **reach))
            life["steps"] = rows(ask("request_steps", rid=rid, **reach))
        stalls = ask("request_stalls", worker=reach["worker"], since=since, until=until)
        life["gaps"] = _gaps(life, Stalls.read(stalls))
    return life


@contextmanager
def _only_passes(session: Session, cursor: "duckdb.DuckDBPyConnection", reach: dict[str, Any]) -> Iterator[None]:
    """On the cursor `slices` and `steps` are those of these passes, read once: each question would read files again."""
    where = "WHERE worker = $worker AND step BETWEEN $first AND $last"
    held = {table: session.query(f"FROM {table} {where}", cursor=cursor, **reach) for table in ("slices", "steps")}
    for table, rows_of_it in held.items():
        cursor.register(table, rows_of_it)
    try:
        yield
    finally:
        for table in held:
            cursor.unregister(table)


def causes_of(session: Session, life: Life, cursor: "duckdb.DuckDBPyConnection | None" = None) -> list[dict[str, Any]]:
    """The causes of an attempt."""
    row = life["request"]
    return rows(session.ask("request_causes", cursor=cursor, rid=row["rid"], attempt=row["attempt"]))


def family_of(session: Session, life: Life, cursor: "duckdb.DuckDBPyConnection | None" = None) -> list[dict[str, Any]]:
    """The attempts that belong together with one, itself among them."""
    row = life["request"]
    return rows(session.ask("request_attempts", cursor=cursor, rid=row["rid"], id=row["request_id"] or ""))


def _lifetime(request: dict[str, Any]) -> tuple[int, int]:
    """From its arrival until it was gone; for ever where nobody knows."""
    stamps = [request[name] for name in STAMPS if request[name] is not None]
    if request["status"] == "open" or request["last_token"] is None:
        return request["arrival"], request["returned"] or _FOREVER
    return request["arrival"], max(stamps) + 1


def _gaps(life: Life, stalls: Stalls) -> list[TokenGap]:
    passes = [Pass.of(row) for row in life["passes"]]
    held = stalls_of(Held.of(stalls.blocking()))
    found = token_gaps(passes, life["request"]["prompt_tokens"], losses_of(life["events"]), held)
    names = {row["rid"]: row["request_id"] for row in life["neighbours"]}
    names |= {row["prefiller"]: row["prefiller_id"] for row in life["passes"] if row["prefiller"] is not None}
    return [_told(gap, names) for gap in sorted(found, key=lambda gap: (-gap.ns, gap.token))]


def _told(gap: Gap, names: dict[int, str | None]) -> TokenGap:
    culprit = gap.culprit
    return TokenGap(
        token=gap.token,
        step=gap.step,
        since=gap.since,
        ns=gap.ns,
        worst=gap.worst,
        culprit=culprit,
        culprit_id=None if culprit is None else names.get(culprit),
        parts_ns=dict(sorted(gap.parts.items(), key=lambda part: -part[1])),
    )


def _hint(session: Session, wanted: str) -> str:
    known: list[str] = session.ask("request_ids", most=_LOOKED_THROUGH)["request_id"].to_pylist()
    if not known:
        return "it has none at all"
    near = difflib.get_close_matches(wanted, dict.fromkeys(known), n=_SUGGESTIONS, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(near)}?"
    like = f"its ids are like {known[0]}" if known[0] else "not all have ids"
    return f"{like}, and req:NUMBER names one by its number in the run"


def _int(value: object) -> int:
    return int(str(value))
