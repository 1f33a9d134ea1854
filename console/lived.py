"""What the requests that were alive in a stretch of a run went through: how many, and how long in each phase.

It is the run under one more term of the filter, `alive:a..b`, so what is said here of a stretch is what every screen
says once the stretch has become a part of the filter. Plain data; `console.text.lived` makes lines of it.
"""

from functools import partial
from typing import TYPE_CHECKING, Final, TypedDict, cast

from console.filter import Alive, Filter
from console.session import Session, rows
from recorder.words import Phase, Status

if TYPE_CHECKING:
    import duckdb

_MEASURES: Final = ("ttft", "e2e")


class Times(TypedDict):
    """Nearest-rank percentiles over the `n` attempts that have the time, in ns; null where there is none."""

    n: int
    p50: int | None
    p99: int | None


class Lived(TypedDict):
    """Attempts alive in a stretch: by state, and their times over their whole lives.

    `censored` of them are not answered (yet): every percentile is then a lower bound (SPEC E5, F4).
    """

    filter: str
    requests: dict[str, int]
    censored: int
    phases_ns: dict[str, Times]
    ttft_ns: Times
    e2e_ns: Times


def lived(session: Session, only: Filter, alive: Alive, cursor: "duckdb.DuckDBPyConnection") -> Lived:
    """What the attempts of a stretch that the filter lets through went through. Takes a fresh cursor."""
    wanted = only & Filter((alive,))
    session.narrow(cursor, wanted)
    ask = partial(session.ask, cursor=cursor)
    states = {str(row["status"]): cast("int", row["n"]) for row in rows(ask("states"))}
    phases = {phase.value: _times(rows(ask("lived_phase", phase=phase.value))[0]) for phase in Phase}
    measures = {str(row["measure"]): _times(row) for row in rows(ask("percentiles"))}
    nothing = Times(n=0, p50=None, p99=None)
    return Lived(
        filter=str(wanted),
        requests={status.value: states[status.value] for status in Status if status.value in states},
        censored=cast("int", rows(ask("censored"))[0]["n"]),
        phases_ns={name: times for name, times in phases.items() if times["n"]},
        ttft_ns=measures.get("ttft", nothing),
        e2e_ns=measures.get("e2e", nothing),
    )


def _times(row: dict[str, object]) -> Times:
    n, p50, p99 = row["n"], row["p50"], row["p99"]
    return Times(n=int(str(n)), p50=_whole(p50), p99=_whole(p99))


def _whole(ns: object) -> int | None:
    return None if ns is None else round(cast("float", ns))
