"""The questions behind the evidence: each is SQL, and its answer is small."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from console.blame.cohorts import Cohorts, Slow, read_cohorts
from console.diagnosis import Refusals
from console.explain.arrivals import Gaps, Level, pinned
from console.explain.asking import Ask
from console.explain.evidence import (
    Around,
    Evidence,
    Late,
    Loss,
    Person,
    Preemptions,
    Refusal,
    Stall,
    Tier,
    Worker,
    view_of,
)
from console.explain.prefixes import LEAST, Shift, Split, hits_lost
from console.explain.ranking import chiefs
from console.explain.spending import read_spending
from console.session import Session, rows
from recorder.run import run_state

if TYPE_CHECKING:
    import duckdb

_MANY: Final = 1_000
"""Answered requests from which the slow ones are those beyond p99; with fewer that would be a handful."""
_TOLD_WHEN: Final = {429, 529}


def gather(session: Session, cursor: "duckdb.DuckDBPyConnection", only: str = "", slow: Slow | None = None) -> Evidence:
    """All evidence about the requests that the cursor sees. Without `slow`, it goes by how many were answered."""
    cohorts = _cohorts(session, cursor, slow)
    ask = Ask(session, cursor, cohorts)
    (preemptions,), late = ask.all(Preemptions, "preemptions"), _late(ask)
    losses, refusals, shift = ask.all(Loss, "losses"), ask.all(Refusal, "refusals"), _shift(ask)
    pulse = ask.pulse(_counted(refusals))
    spent = read_spending(ask, view_of(pulse), shift)
    named = [cell.culprit for cell in spent.cells] + list(_examples(preemptions, late, losses, refusals, shift))
    instants = {loss.t for loss in losses if loss.t is not None} | ({shift.t} if shift else set())
    evidence = Evidence(
        run=session.name,
        state=run_state(session.path),
        only=only,
        config=session.tables.info.config,
        states={row["status"]: row["n"] for row in ask.plain("states")},
        cohorts=cohorts,
        slow=spent.slow,
        typical=spent.typical,
        cells=spent.cells,
        touched=spent.touched,
        people=_people(ask, named),
        prompts={},
        tiers=_tiers(ask),
        workers=ask.all(Worker, "engine"),
        preemptions=preemptions,
        stalls={stall.kind: stall for stall in ask.all(Stall, "stalls")},
        late=late,
        losses=losses,
        refusals=refusals,
        pulse=pulse,
        pinned=pinned(ask.all(Gaps, "gaps")[0], ask.all(Level, "levels")),
        shift=shift,
        around={t: Around(**row) for t in sorted(instants) for row in ask.of_slow("around", t=t)},
        began=_began(session),
        censored=ask.plain("censored")[0]["n"],
        incomplete=ask.plain("incomplete")[0]["n"],
        drops=ask.plain("recorder_health")[0]["drops"],
        damages=tuple((damage.file, damage.what) for damage in session.damages),
        left_out=session.tables.left_out.passes,
    )
    return replace(evidence, prompts=_prompts(ask, chiefs(evidence)))


def _cohorts(session: Session, cursor: "duckdb.DuckDBPyConnection", slow: Slow | None) -> Cohorts:
    """Without `slow` they are made of what is asked of E2E anyway: the bounds are the same."""
    if slow is not None:
        return read_cohorts(session, slow, cursor)
    (ranks,) = session.ask("e2e_ranks", cursor=cursor).to_pylist()
    percentile = 99 if ranks["n"] >= _MANY else 95
    bounds = (ranks[f"p{rank}_ns"] for rank in (percentile, 25, 75))
    edge, low, high = (None if bound is None else float(bound) for bound in bounds)
    return Cohorts(Slow(percentile=Decimal(percentile)), ranks["n"], edge, low, high)


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


def _people(ask: Ask, wanted: Iterable[int | None]) -> dict[int, Person]:
    rids = sorted({rid for rid in wanted if rid is not None})
    return {person.rid: person for person in ask.all(Person, "people", rids=rids)}


def _prompts(ask: Ask, rids: Iterable[int]) -> dict[int, tuple[int, int, int]]:
    wanted = tuple(sorted(rids))
    found = ask.rows("steps", rids=wanted) if wanted else []
    return {row["rid"]: (row["worker"], row["first_step"], row["last_step"]) for row in found}


def _late(ask: Ask) -> tuple[Late, ...]:
    ready = ask.of_slow("returns")
    if not ready:
        return ()
    columns = {"rids": "rid", "since": "last_token", "until": "returned"}
    lists = {param: tuple(row[column] for row in ready) for param, column in columns.items()}
    meanwhile = {row["rid"]: row for row in ask.rows("meanwhile", **lists)}
    others = ({"others": 0, "others_p50": None} | meanwhile.get(row["rid"], {}) for row in ready)
    return tuple(
        Late(row["rid"], row["request_id"], row["tenant"], row["ns"], other["others"], other["others_p50"])
        for row, other in zip(ready, others, strict=True)
    )


def _tiers(ask: Ask) -> tuple[Tier, ...]:
    several = len(ask.rows("classes")) > 1
    return tuple(Tier(**row) for row in ask.of_slow("tiers")) if several else ()


def _began(session: Session) -> int:
    """The beginning of the run, whatever the filter: where the console counts time from."""
    found: list[dict[str, Any]] = rows(session.ask("timeline_extent"))
    began: int = found[0]["low"]
    return began


def _shift(ask: Ask) -> Shift | None:
    (split,) = ask.all(Split, "splits", least=LEAST)
    return hits_lost(split)


def _counted(refusals: Sequence[Refusal]) -> Refusals:
    chosen = [refusal for refusal in refusals if refusal.http_status in _TOLD_WHEN]
    return Refusals(0, sum(refusal.n for refusal in chosen), sum(refusal.told for refusal in chosen))
