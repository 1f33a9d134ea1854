"""Filling `kept` with what takes long of a whole run: every cause, and one wide row an attempt in order of arrival."""

from collections.abc import Callable
from typing import Final

import duckdb
import pyarrow as pa

from console.measures import phase_column
from console.summing import some_at_a_time, sums
from console.views import CAUSE_NAMES, KEPT, phase_sums, store
from recorder.attribution import SCHEMA
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.reading import Needed, SlicesOfParts
from recorder.tables import RunTables

AT_ONCE: Final = 1_000_000
"""Slices in memory at once."""

_ATTRIBUTED: Final = 0.7
_SUMMED: Final = 0.75
"""How much of the time has gone by then."""


def fill(cursor: duckdb.DuckDBPyConnection, tables: RunTables, tell: Callable[[float], None], also: str = "") -> None:
    """Make `kept.causes` and `kept.attempts`, on a cursor whose views show the run itself.

    Causes that no attempt has get no column, but where `also` names further ones, as SQL: that run goes on. `tell` is
    told how far it is, from 0 to 1.
    """
    summed = _attribute(cursor, tables, lambda part: tell(_ATTRIBUTED * part))
    cursor.register("summed", summed)
    cursor.execute(
        f"CREATE TEMP TABLE phases AS SELECT rid, attempt, {phase_sums(phase_column)} FROM spans GROUP BY rid, attempt"
    ).fetchall()
    tell(_SUMMED)
    there = [name for name in CAUSE_NAMES if also or name in summed.column_names]
    columns = "".join(
        f", {column}" for column in (*map(_sum_of(summed.column_names), there), *([also] if also else []))
    )
    cursor.execute(f"CREATE TABLE {KEPT}.attempts AS {_WIDE.format(columns=columns, some='false')}").fetchall()
    for some in some_at_a_time(cursor):
        cursor.execute(f"INSERT INTO {KEPT}.attempts {_WIDE.format(columns=columns, some=some)}").fetchall()
    cursor.execute("DROP TABLE phases").fetchall()
    cursor.unregister("summed")
    tell(1)


def _attribute(cursor: duckdb.DuckDBPyConnection, tables: RunTables, tell: Callable[[float], None]) -> pa.Table:
    """Store the causes, and return their sums: one row an attempt, and only the columns that hold something."""
    store(cursor, f"{KEPT}.causes", SCHEMA.empty_table())
    found = [pa.table({name: pa.array([], pa.int64()) for name in ("rid", "attempt")})]
    for rows, causes in attribute_in_turn(Needed(tables), SlicesOfParts(tables, tell), AT_ONCE):
        cursor.register("arriving", causes)
        cursor.execute(f"INSERT INTO {KEPT}.causes FROM arriving").fetchall()
        cursor.unregister("arriving")
        summed = sums(rows, causes)
        found.append(summed.select([name for name in summed.column_names if not _is_empty(summed[name])]))
    return pa.concat_tables(found, promote_options="default")


def _is_empty(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column) > 0)


def _sum_of(names: list[str]) -> Callable[[str], str]:
    return lambda name: f'summed."{name}"' if name in names else f'NULL::BIGINT AS "{name}"'


_WIDE: Final = """
SELECT requests.*, phases.* EXCLUDE (rid, attempt){columns}
FROM (SELECT * FROM requests WHERE {some}) AS requests
LEFT JOIN phases USING (rid, attempt)
LEFT JOIN summed USING (rid, attempt)
ORDER BY arrival, rid, attempt"""
