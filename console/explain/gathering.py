"""The questions behind the evidence: each is SQL, and its answer is small."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from console.blame.cohorts import Cohorts, Slow, read_cohorts
from console.diagnosis import Pulse, Ranks, Refusals, pulse_of
from console.explain.arrivals import Gaps, Level, pinned
from console.explain.cells import NOBODY, Asked, Cell, split
from console.explain.evidence import (
    Around,
    Evidence,
    Late,
    Loss,
    Person,
    Preemptions,
    Refusal,
    Sizes,
    Stall,
    Tier,
    Worker,
)
from console.explain.prefixes import LEAST, Shift, Split, hits_lost
from console.session import Session, rows
from console.timeline import Floats, Ints
from recorder.run import run_state

if TYPE_CHECKING:
    import duckdb

R = TypeVar("R")

_MANY: Final = 1_000
"""Answered requests from which the slow ones are those beyond p99; with fewer that would be a handful."""
_TOLD_WHEN: Final = {429, 529}
_MOST_PROMPTS: Final = 50
"""Of so many who are blamed it is asked in which steps their prompts were computed."""


class _Ask:
    """Questions about one run, on one cursor, about its cohorts."""

    def __init__(self, session: Session, cursor: "duckdb.DuckDBPyConnection", cohorts: Cohorts) -> None:
        self._any = partial(session.ask, cursor=cursor)
        self._slow = {"measure": cohorts.slow.measure.name, "edge": cohorts.edge, "at": cohorts.at}
        self._both = {**self._slow, "low": cohorts.low, "high": cohorts.high}

    def plain(self, name: str) -> list[dict[str, Any]]:
        """The rows of a question that others ask too."""
        return rows(self._any(name))

    def table(self, name: str, **params: Any) -> pa.Table:  # noqa: ANN401  # whatever DuckDB takes
        """One of the questions that only an account asks."""
        return self._any(f"explain_{name}", **params)

    def all(self, kind: type[R], name: str, **params: object) -> tuple[R, ...]:
        """Rows as values of `kind`, whose fields are the columns."""
        return tuple(kind(**row) for row in rows(self.table(name, **params)))

    def of_slow(self, kind: type[R], name: str, **params: object) -> tuple[R, ...]:
        """About the slow ones."""
        return self.all(kind, name, **self._slow, **params)

    def of_both(self, name: str) -> list[dict[str, Any]]:
        """About the slow and the typical ones."""
        return rows(self.table(name, **self._both))

    def touched(self) -> dict[str, int]:
        """Cause -> slow requests that it took a good part of."""
        found: list[dict[str, Any]] = rows(self.table("touched", **self._slow))
        return {row["cause"]: row["n"] for row in found}

    def pulse(self, refusals: Refusals) -> Pulse:
        """What the rules of the pulse test make of E2E."""
        (found,) = self.plain("e2e_ranks")
        return pulse_of(Ranks(**found), self._below, refusals)

    def _below(self, edges: Floats) -> Ints:
        """How many took less than each of these; whole ns are less than an edge where they are less than the next."""
        whole = np.ceil(edges).astype(np.int64)
        found = self._any("e2e_below", edges=tuple(np.unique(whole).tolist()))
        below: Ints = found["below"].to_numpy()[np.searchsorted(found["edge"].to_numpy(), whole)]
        return below


def gather(session: Session, cursor: "duckdb.DuckDBPyConnection", only: str = "", slow: Slow | None = None) -> Evidence:
    """All evidence about the requests that the cursor sees. Without `slow`, it goes by how many were answered."""
    cohorts = _cohorts(session, cursor, slow)
    ask = _Ask(session, cursor, cohorts)
    asked = {row["cohort"]: Asked(**row) for row in ask.of_both("cohorts")}
    ours, theirs = asked.get("slow", NOBODY), asked.get("typical", NOBODY)
    cells = _cells(ask, ours, theirs) if ours.n and theirs.n else ()
    (preemptions,), late = ask.all(Preemptions, "preemptions"), ask.of_slow(Late, "returns")
    losses, refusals, shift = ask.all(Loss, "losses"), ask.all(Refusal, "refusals"), _shift(ask)
    named = [cell.culprit for cell in cells] + list(_examples(preemptions, late, losses, refusals, shift))
    instants = {loss.t for loss in losses if loss.t is not None} | ({shift.t} if shift else set())
    return Evidence(
        run=session.name,
        state=run_state(session.path),
        only=only,
        config=session.tables.info.config,
        states={row["status"]: row["n"] for row in ask.plain("states")},
        cohorts=cohorts,
        slow=ours,
        typical=theirs,
        cells=cells,
        touched=ask.touched(),
        people=_people(ask, named),
        prompts=_prompts(ask, cells),
        sizes=ask.all(Sizes, "sizes")[0],
        tiers=ask.of_slow(Tier, "tiers") if len(ask.table("classes")) > 1 else (),
        workers=ask.all(Worker, "engine"),
        preemptions=preemptions,
        stalls={stall.kind: stall for stall in ask.all(Stall, "stalls")},
        late=late,
        losses=losses,
        refusals=refusals,
        pulse=ask.pulse(_counted(refusals)),
        pinned=pinned(ask.all(Gaps, "gaps")[0], ask.all(Level, "levels")),
        shift=shift,
        around={t: ask.of_slow(Around, "around", t=t)[0] for t in sorted(instants)},
        began=_began(session),
        censored=ask.plain("censored")[0]["n"],
        incomplete=ask.plain("incomplete")[0]["n"],
        drops=ask.plain("recorder_health")[0]["drops"],
        damages=tuple((damage.file, damage.what) for damage in session.damages),
        left_out=session.tables.left_out.passes,
    )


def _cohorts(session: Session, cursor: "duckdb.DuckDBPyConnection", slow: Slow | None) -> Cohorts:
    found = read_cohorts(session, slow or Slow(), cursor)
    if slow is None and found.n >= _MANY:
        return read_cohorts(session, Slow(percentile=Decimal(99)), cursor)
    return found


def _cells(ask: _Ask, slow: Asked, typical: Asked) -> tuple[Cell, ...]:
    """The rows of both cohorts, joined and split."""
    found: dict[tuple[str, str, int | None], Cell] = {}
    for row in ask.of_both("cells"):
        key = row["cause"], row["root"], row["culprit"]
        cell = found.get(key, Cell(*key, 0, 0))
        if row["cohort"] == "slow":
            cell = replace(cell, slow_ns=row["ns"])
        else:
            cell = replace(cell, typical_ns=row["ns"], culprits=row["culprits"] if row["culprit"] is None else 0)
        found[key] = replace(cell, measured=cell.measured and row["measured"])
    return tuple(split(found.values(), slow, typical))


def _examples(
    preemptions: Preemptions,
    late: Iterable[Late],
    losses: Iterable[Loss],
    refusals: Iterable[Refusal],
    shift: Shift | None,
) -> Iterator[int | None]:
    """Requests that may be named beside those who are to blame."""
    yield preemptions.taker
    yield from (one.rid for one in late)
    yield from (one.example for one in losses)
    yield from (one.example for one in refusals)
    yield shift.rid if shift else None


def _people(ask: _Ask, wanted: Iterable[int | None]) -> dict[int, Person]:
    rids = sorted({rid for rid in wanted if rid is not None})
    return {person.rid: person for person in ask.all(Person, "people", rids=rids)}


def _prompts(ask: _Ask, cells: Iterable[Cell]) -> dict[int, tuple[int, int, int]]:
    blamed = sorted((cell for cell in cells if cell.culprit is not None), key=lambda cell: -cell.slow_ns)
    rids = sorted({cell.culprit for cell in blamed[:_MOST_PROMPTS] if cell.culprit is not None})
    found: list[dict[str, Any]] = rows(ask.table("steps", rids=rids))
    return {row["rid"]: (row["worker"], row["first_step"], row["last_step"]) for row in found}


def _began(session: Session) -> int:
    """The beginning of the run, whatever the filter: where the console counts time from."""
    found: list[dict[str, Any]] = rows(session.ask("timeline_extent"))
    began: int = found[0]["low"]
    return began


def _shift(ask: _Ask) -> Shift | None:
    (split,) = ask.all(Split, "splits", least=LEAST)
    return hits_lost(split)


def _counted(refusals: Sequence[Refusal]) -> Refusals:
    chosen = [refusal for refusal in refusals if refusal.http_status in _TOLD_WHEN]
    return Refusals(0, sum(refusal.n for refusal in chosen), sum(refusal.told for refusal in chosen))
