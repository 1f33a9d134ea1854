"""Percentiles of the answered requests under a filter: by sorting, or of a large run by what is kept in order of each.

The kept file holds, for each measure and phase, the places of all answered attempts in the order of their value. To
find the nth of those that a filter picks, they are walked through in that order: no value is read but the one that is
found. That takes a fifth of the time of looking for it among them all, unless they are few.
"""

from functools import partial
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt

from console.filter import Filter
from console.measures import REPORTED, phase_column
from console.session import Session, rows
from console.views import KEPT, PHASES, placed

_VALUES: Final = {
    **{measure.name: measure.column for measure in REPORTED},
    **{phase: f'coalesce("{phase_column(phase)}", 0)' for phase in PHASES},
}
"""What is ranked, by the name of its column in `ranks`."""

_FEW: Final = 8
"""Where less than one of so many attempts is picked, sorting them is quicker."""

_RANKS: Final = {"p50": (1, 2), "p95": (19, 20), "p99": (99, 100), "max": (1, 1)}

Row = dict[str, object]


def fill_ranks(cursor: duckdb.DuckDBPyConnection) -> None:
    """Make `kept.ranks`, of what is shown of `kept.attempts`."""
    orders = " POSITIONAL JOIN ".join(
        f"""(SELECT place::INTEGER AS "{name}" FROM (SELECT place, {value} AS it FROM ({placed()}) WHERE status = 'ok')
        WHERE it IS NOT NULL ORDER BY it, place)"""
        for name, value in _VALUES.items()
    )
    cursor.execute(f"CREATE TABLE {KEPT}.ranks AS SELECT * FROM {orders}").fetchall()


def measures_and_phases(
    session: Session, only: Filter, cursor: duckdb.DuckDBPyConnection
) -> tuple[list[Row], list[Row]]:
    """The rows of the questions `percentiles` and `phases`; the cursor is under the filter."""
    ask = partial(session.ask, cursor=cursor)
    if not _are_many(session, only):
        return rows(ask("percentiles")), rows(ask("phases"))
    totals = {str(row["name"]): row for row in rows(ask("phase_totals"))}
    measures = [measure.name for measure in REPORTED]
    found = _ranked(session, only, cursor, [*measures, *totals])
    told = [{"measure": name, **found[name]} for name in measures if found[name]["n"]]
    return told, [{**found[name], **row} for name, row in totals.items()]


def _are_many(session: Session, only: Filter) -> bool:
    return bool(only) and session.is_in_order and session.count(only) * _FEW > session.count()


def _ranked(session: Session, only: Filter, cursor: duckdb.DuckDBPyConnection, names: list[str]) -> dict[str, Row]:
    """How many of the answered ones have a value of this name, and some of these, by nearest rank (SPEC E4)."""
    picked = np.zeros(session.count(), bool)
    picked[session.places(only, cursor=cursor)] = True
    counts, wanted = {}, {}
    for name in names:
        order = _order(session, cursor, name)
        order = order[picked[order]]
        counts[name] = len(order)
        if len(order):
            wanted[name] = {rank: int(order[-(-len(order) * of // all_) - 1]) for rank, (of, all_) in _RANKS.items()}
    values = _values(session, cursor, {place for ranks in wanted.values() for place in ranks.values()}, names)
    return {
        name: {"n": counts[name], **{rank: values[place][name] for rank, place in wanted.get(name, {}).items()}}
        for name in names
    }


def _order(session: Session, cursor: duckdb.DuckDBPyConnection, name: str) -> npt.NDArray[np.int32]:
    found = session.query(f'SELECT "{name}" AS it FROM {KEPT}.ranks WHERE it IS NOT NULL', cursor=cursor)
    order: npt.NDArray[np.int32] = found["it"].to_numpy()
    return order


def _values(session: Session, cursor: duckdb.DuckDBPyConnection, places: set[int], names: list[str]) -> dict[int, Row]:
    columns = ", ".join(f'{_VALUES[name]} AS "{name}"' for name in names)
    sql = f"SELECT place, {columns} FROM ({placed()}) WHERE place IN (SELECT unnest($places))"
    return {row["place"]: row for row in session.query(sql, cursor=cursor, places=sorted(places)).to_pylist()}
