"""Which attempts are compared, and how many on each side have each value of each attribute: SQL in, counts out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from console.contrast.attributes import ATTRIBUTES, part
from console.contrast.counting import Bools, Ints, Sample, count_numbers, count_words
from console.contrast.meeting import show_met
from console.filter import Filter
from console.measures import MEASURES
from console.session import Session
from recorder.attribution import CAUSES
from recorder.attribution.columns import ints
from recorder.schema import NONE

if TYPE_CHECKING:
    import duckdb

MOST: Final = 50_000
"""So many on a side are compared at most: an effect then is sure to 0.01, and a million requests are as quick."""

_PHASE: Final = "phase "
"""How the columns of `attempt_times` begin that are phases; the others are causes."""
_SAFE_NS: Final = 2**63 // 1000
"""Longer times than this (106 days) have no thousandfold in 64 bits."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """`told` are those that are compared (`contrast_requests`); `inside` and `outside` are how many there are."""

    told: pa.Table
    inside: int
    outside: int

    @property
    def drawn(self) -> tuple[int, int] | None:
        """How many of each side are compared, where there are too many for all."""
        if max(self.inside, self.outside) <= MOST:
            return None
        inside = int(_flags(self.told).sum())
        return inside, self.told.num_rows - inside


def choose(session: Session, cursor: "duckdb.DuckDBPyConnection", selection: Filter, against: Filter) -> Chosen:
    """Choose those of the selection, and those of `against` that are not in it, on a cursor under no filter.

    Whoever is left out is left out by chance, and always: not every so-manieth, which traffic may be too.
    """
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW sides AS {_sides(session, cursor, selection, against)}").fetchall()
    counted = "SELECT count(*) FILTER (inside) AS inside, count(*) FILTER (NOT inside) AS outside FROM sides"
    (n,) = session.query(counted, cursor=cursor).to_pylist()
    some = f"CASE WHEN inside THEN {_drawn(n['inside'])} ELSE {_drawn(n['outside'])} END"
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW drawn AS SELECT * FROM sides WHERE {some}").fetchall()
    return Chosen(session.ask("contrast_requests", cursor=cursor), n["inside"], n["outside"])


def show(cursor: "duckdb.DuckDBPyConnection", chosen: Chosen) -> None:
    """Let the questions on a cursor be about these: the table `chosen`, and what they `met`."""
    cursor.register("chosen", chosen.told.select(["rid", "attempt", "inside"]))
    show_met(cursor)


def samples_told(chosen: Chosen) -> Iterator[Sample]:
    """What is known of the chosen attempts themselves, and how long they took."""
    return _columns(chosen.told)


def read_lived(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Iterator[Sample]:
    """What the chosen attempts lived through: takes longer, as it asks for causes and slices."""
    there = set(session.find("SELECT DISTINCT cause FROM causes", cursor=cursor)["cause"].to_pylist())
    causes = [cause for cause in CAUSES if cause in there]
    parts = session.ask("contrast_parts", cursor=cursor, causes=causes)
    yield from _parts(parts)
    yield from _blame(parts, causes, session.ask("contrast_blame", cursor=cursor))
    yield from _columns(session.ask("contrast_neighbours", cursor=cursor))


def _sides(session: Session, cursor: "duckdb.DuckDBPyConnection", selection: Filter, against: Filter) -> str:
    """A SELECT of the attempts on either side, with their measures."""
    both = selection & against
    if both.of_causes:
        session.load_causes()
    if session.is_quick(both):
        inside = f"({selection.predicate(wide=True)})"
        either = f"{inside} OR ({against.predicate(wide=True)})"
        return f"SELECT *, {inside} AS inside FROM attempt_times AS lived WHERE {either}"
    cursor.register("selected", session.picked(selection, cursor=cursor))
    cursor.register("others", session.picked(against, cursor=cursor))
    return _JOINED


_JOINED: Final = f"""SELECT *
FROM requests
JOIN (SELECT rid, attempt, {", ".join(measure.column for measure in MEASURES)} FROM latency) AS measured
    USING (rid, attempt)
JOIN (
    SELECT rid, attempt, true AS inside FROM selected
    UNION ALL
    SELECT rid, attempt, false FROM others ANTI JOIN selected USING (rid, attempt)
) AS side USING (rid, attempt)"""


def _drawn(n: int) -> str:
    """A condition that lets about `MOST` of so many through, as a number: dividing by an expression is slow."""
    return "true" if n <= MOST else f"hash(rid, attempt) % {n // MOST + 1} = 0"


def _columns(found: pa.Table) -> Iterator[Sample]:
    """From columns named as attributes: text is words, of which none is the empty one; of numbers none is none."""
    inside = _flags(found)
    for name in found.column_names if len(inside) else ():
        if name not in ATTRIBUTES:
            continue
        column = found[name]
        if pa.types.is_integer(column.type):
            known = column.is_valid().to_numpy()
            if known.any():
                yield count_numbers(ATTRIBUTES[name], ints(found, name)[known], inside[known])
        else:
            yield _words(name, column, inside)


def _parts(found: pa.Table) -> Iterator[Sample]:
    """Of each phase and cause that some were in: the time in it, and its share of E2E. Others have none of it."""
    measured = found.filter(pc.greater(found["e2e_ns"], 0))
    inside, e2e = _flags(measured), ints(measured, "e2e_ns")
    for column in measured.column_names[2:]:
        if measured[column].null_count < len(inside):
            ns = np.asarray(measured[column].fill_null(0).to_numpy(), dtype=np.int64)
            kind, name = ("phase", column.removeprefix(_PHASE)) if column.startswith(_PHASE) else ("cause", column)
            yield count_numbers(part(kind, name, "us"), ns // 1000, inside)
            yield count_numbers(part(kind, name, "permille"), _permille(ns, e2e), inside)


def _permille(ns: Ints, e2e: Ints) -> Ints:
    """The share of E2E, in whole thousandths."""
    if ns.max() < _SAFE_NS:
        return ns * 1000 // e2e
    return np.asarray(ns.astype(object) * 1000 // e2e, dtype=np.int64)


def _blame(found: pa.Table, causes: Sequence[str], blamed: pa.Table) -> Iterator[Sample]:
    """The main cause of each attempt that has any, and its main culprit. Who has none is in no row of `blamed`."""
    main = _main(found, causes)
    inside, has = _flags(found), main >= 0
    if not has.any():
        return
    yield count_words(ATTRIBUTES["main_cause"], causes, main[has], inside[has])
    sides = _flags(blamed)
    without = [int((inside & has).sum() - sides.sum()), int((~inside & has).sum() - (~sides).sum())]
    everybody = np.concatenate([sides, np.repeat([True, False], without)])
    for name in blamed.column_names[1:]:
        yield _words(name, pa.chunked_array([*blamed[name].chunks, pa.repeat("", sum(without))]), everybody)


def _words(name: str, column: pa.ChunkedArray, inside: Bools) -> Sample:
    coded = column.fill_null("").combine_chunks().dictionary_encode()
    return count_words(ATTRIBUTES[name], coded.dictionary.to_pylist(), coded.indices.to_numpy(), inside)


def _main(found: pa.Table, causes: Sequence[str]) -> Ints:
    """The place among `causes` of the one that an attempt lost most to; -1 where it has none."""
    most = np.full(found.num_rows, NONE)
    main = np.full(found.num_rows, -1)
    for place, cause in enumerate(causes):
        ns = ints(found, cause)
        more = ns > most
        main[more], most[more] = place, ns[more]
    return main


def _flags(found: pa.Table) -> Bools:
    return np.asarray(found["inside"].to_numpy(), dtype=np.bool_)
