"""What is kept of a run while it is recorded: in memory, and brought up to date by what came since the last look.

The same tables as in the file of a run at rest (`console.kept`), so every question is asked of either alike. A look
costs what has come since: new rows of `requests` and `spans` are put to their attempts, and attributed are only those
that are new, that ended a moment ago, or that are open and have grown older by an eighth. What is read for that begins
with the arrival of the oldest of these, as nothing before it is part of their time.
"""

from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa

from console.kept import slices_of
from console.measures import phase_column
from console.summing import some_at_a_time, sums
from console.views import CAUSE_NAMES, KEPT, PHASES, columns_of, create_views, names_of, phase_sums, store
from recorder.attribution import SCHEMA, Tables
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.columns import Ints
from recorder.attribution.reading import COLUMNS, Needed, SlicesOfParts
from recorder.left_out import LeftOut
from recorder.run import RunInfo, run_state
from recorder.schema import TABLES
from recorder.tables import Ends, RunTables

WORTH_GROWING: Final = 200_000
"""Slices from which on a run that is recorded is not read anew at each look."""

_AT_ONCE: Final = 1_000_000
"""Slices."""
_REQUESTS: Final = 80_000
_SPANS: Final = 400_000
"""Rows that are put to their attempts at once: wide rows take memory while they are made."""
_OLDER: Final = 8
"""An open attempt is attributed again when its age has grown by one part in so many: until then its causes are those of
the last time."""
_SURE_NS: Final = 3 * 10**9
"""So long after an attempt's end has been seen, nothing more is recorded about its life."""

_REQUEST: Final = columns_of(TABLES["requests"])
_KEPT_PHASES: Final = tuple(phase_column(name) for name in PHASES)
_OF_SPANS: Final = ("rid", "attempt", "name", "start", "end")


def worth_growing(tables: RunTables) -> bool:
    """Whether a run is recorded, and large."""
    return run_state(tables.path) == "recording" and slices_of(tables) >= WORTH_GROWING


class Growing:
    """Follows one run in the database `KEPT`, which is in memory. For one thread at a time."""

    def __init__(self) -> None:
        self._ends: dict[str, Ends] = {}
        self._whole: tuple[object, ...] = ()

    def follow(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> None:
        """Bring requests and phases up to date. Where something was damaged or left out meanwhile, all begins anew."""
        whole = (tuple(damage.file for damage in tables.damages), tables.left_out)
        if whole != self._whole or not self._ends:
            cursor.execute(_BEGIN).fetchall()
            store(cursor, f"{KEPT}.causes", SCHEMA.empty_table())
            create_views(cursor, tables, kept=False)
            _take_all(cursor)
            self._whole, self._ends = whole, {name: tables.ends(name) for name in ("requests", "spans")}
            return
        requests, self._ends["requests"] = tables.since("requests", self._ends["requests"])
        spans, self._ends["spans"] = tables.since("spans", self._ends["spans"], *_OF_SPANS)
        for number in range(max(-(-requests.num_rows // _REQUESTS), -(-spans.num_rows // _SPANS))):
            some = requests.slice(number * _REQUESTS, _REQUESTS), spans.slice(number * _SPANS, _SPANS)
            _take(cursor, *some)

    def attribute(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> None:
        """Bring the causes up to date."""
        (horizon,) = _row(cursor, "SELECT coalesce(max(t_end), 0) FROM memory.main.steps")
        cursor.execute(_DUE, {"horizon": horizon, "older": _OLDER}).fetchall()
        due, oldest, every = _row(
            cursor, f"SELECT count(*), min(arrival), (SELECT count(*) FROM {KEPT}.attempts) FROM due"
        )
        if not due:
            return
        recent = Needed(tables) if due == every or oldest is None else Recent(cursor, tables, oldest)
        slices = SlicesOfParts(tables, since={} if isinstance(recent, Needed) else _first_steps(recent))
        cursor.execute(f"DELETE FROM {KEPT}.causes WHERE (rid, attempt) IN (SELECT (rid, attempt) FROM due)").fetchall()
        for rows, causes in attribute_in_turn(recent, slices, _AT_ONCE):
            _tell(cursor, rows, causes, horizon)


class Recent(Tables):
    """What is needed to attribute what arrived at `oldest` or later: all that was under way then, or came since."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables, oldest: int) -> None:
        self._cursor, self._tables, self._oldest = cursor, tables, oldest

    @property
    def info(self) -> RunInfo:
        """That of the run."""
        return self._tables.info

    @property
    def left_out(self) -> LeftOut:
        """That of the run."""
        return self._tables.left_out

    def table(self, name: str) -> pa.Table:
        """Asked anew each time."""
        asked = f"SELECT {names_of(COLUMNS[name])} FROM {_RECENT[name]}"
        return self._cursor.sql(asked, params={"oldest": self._oldest} if "$oldest" in asked else None).to_arrow_table()


_RECENT: Final = {
    # Of a worker that has done nothing since, the last pass says until when it worked.
    "steps": """memory.main.steps WHERE t_end > $oldest
        OR (worker, step) IN (SELECT (worker, max(step)) FROM memory.main.steps GROUP BY worker)""",
    "deliveries": "memory.main.deliveries WHERE t_sent > $oldest",
    "events": "memory.main.events WHERE t >= $oldest",
    "stalls": "memory.main.stalls WHERE t_end > $oldest",
    "requests": f"{KEPT}.attempts WHERE told IS NULL OR told >= $oldest OR rid IN (SELECT rid FROM due)",
}


def _first_steps(tables: Tables) -> Mapping[int, int]:
    found = tables.table("steps").group_by("worker").aggregate([("step", "min")])
    return dict(zip(found["worker"].to_pylist(), found["step_min"].to_pylist(), strict=True))


def _row(cursor: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, ...]:
    found: tuple[int, ...] = cursor.execute(sql).fetchall()[0]
    return found


def _take_all(cursor: duckdb.DuckDBPyConnection) -> None:
    """All there is at the first look; later ones take what came since."""
    columns = ", ".join(f'"{name}" AS "{phase_column(name)}"' for name in PHASES)
    cursor.execute(
        f"CREATE OR REPLACE TABLE {KEPT}.phases AS SELECT rid, attempt, {columns} FROM phase_times"
    ).fetchall()
    for some in some_at_a_time(cursor):
        cursor.execute(f"""INSERT INTO {KEPT}.attempts BY NAME
            SELECT requests.*, phases.* EXCLUDE (rid, attempt)
            FROM (SELECT * FROM requests WHERE {some}) AS requests
            LEFT JOIN {KEPT}.phases USING (rid, attempt)""").fetchall()
    cursor.execute(f"DROP TABLE {KEPT}.phases").fetchall()
    orphans = f"SELECT rid, attempt, {phase_sums(phase_column)} FROM spans ANTI JOIN requests USING (rid, attempt)"
    cursor.execute(f"INSERT INTO {KEPT}.waiting {orphans} GROUP BY rid, attempt").fetchall()


def _take(cursor: duckdb.DuckDBPyConnection, requests: pa.Table, spans: pa.Table) -> None:
    """Put new rows to their attempts. Phases of those whose own row has not come yet wait for it."""
    cursor.register("new_requests", requests)
    cursor.register("new_spans", spans)
    for statement in _WORKED_OUT:
        cursor.execute(statement).fetchall()
    _replace(cursor)
    cursor.unregister("new_requests")
    cursor.unregister("new_spans")


def _tell(cursor: duckdb.DuckDBPyConnection, rows: Ints, causes: pa.Table, horizon: int) -> None:
    """Causes of those that are due; the others of which some were found were there as part of their time."""
    cursor.register("found", causes)
    cursor.register("summed", sums(rows, causes))
    cursor.execute(f"INSERT INTO {KEPT}.causes SELECT * FROM found SEMI JOIN due USING (rid, attempt)").fetchall()
    for statement in _TOLD:
        cursor.execute(statement, {"horizon": horizon, "sure": _SURE_NS} if "$sure" in statement else None).fetchall()
    _replace(cursor)
    cursor.unregister("found")
    cursor.unregister("summed")


def _replace(cursor: duckdb.DuckDBPyConnection) -> None:
    """Put the rows `after` in the place of the rows `before`, so that nobody sees none of them or both."""
    cursor.begin()
    cursor.execute(
        f"DELETE FROM {KEPT}.attempts WHERE (rid, attempt) IN (SELECT (rid, attempt) FROM before)"
    ).fetchall()
    cursor.execute(f"INSERT INTO {KEPT}.attempts BY NAME FROM after").fetchall()
    cursor.commit()


def _typed() -> str:
    """The columns of `attempts`; what tells how far its causes are comes last."""
    requests = (f'"{column.name}" {_TYPES.get(column.arrow, "VARCHAR")}' for column in TABLES["requests"].columns)
    times = (f'"{name}" BIGINT' for name in (*_KEPT_PHASES, *CAUSE_NAMES))
    return ", ".join((*requests, *times, "told BIGINT", "settled BOOLEAN"))


_TYPES: Final = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}

_BEGIN: Final = f"""CREATE OR REPLACE TABLE {KEPT}.attempts ({_typed()});
CREATE OR REPLACE TABLE {KEPT}.waiting AS SELECT rid, attempt, {names_of(_KEPT_PHASES)} FROM {KEPT}.attempts"""

_LETTERED: Final = ", ".join(
    f'"{column.name}"::VARCHAR AS "{column.name}"' if column.words else f'"{column.name}"'
    for column in TABLES["requests"].columns
)
_ADDED: Final = ", ".join(f'sum("{name}")::BIGINT AS "{name}"' for name in _KEPT_PHASES)
_BOTH: Final = ", ".join(
    f'coalesce(before."{name}" + added."{name}", before."{name}", added."{name}") AS "{name}"' for name in _KEPT_PHASES
)

_NOW: Final = ", ".join(f'rows_now."{column.name}"' for column in TABLES["requests"].columns)
_CAUSES_BEFORE: Final = ", ".join(f'before."{name}"' for name in CAUSE_NAMES)

_WORKED_OUT: Final = (
    f"""CREATE OR REPLACE TEMP TABLE added AS SELECT rid, attempt, {_ADDED} FROM (
        SELECT rid, attempt, {phase_sums(phase_column)} FROM new_spans GROUP BY rid, attempt
        UNION ALL SELECT * FROM {KEPT}.waiting
    ) GROUP BY rid, attempt""",
    f"""CREATE OR REPLACE TEMP TABLE before AS SELECT * FROM {KEPT}.attempts
    WHERE (rid, attempt) IN (SELECT (rid, attempt) FROM new_requests UNION SELECT (rid, attempt) FROM added)""",
    # The end of a request makes its beginning void, whichever came first.
    f"""CREATE OR REPLACE TEMP TABLE rows_now AS SELECT {_REQUEST}, told, settled FROM (
        SELECT {_LETTERED}, NULL::BIGINT AS told, NULL::BOOLEAN AS settled, 0 AS old FROM new_requests
        UNION ALL SELECT {_REQUEST}, told, settled, 1 FROM before
    ) QUALIFY row_number() OVER (PARTITION BY rid, attempt ORDER BY status = 'open', old) = 1""",
    f"""CREATE OR REPLACE TEMP TABLE after AS
    SELECT {_NOW}, {_BOTH}, {_CAUSES_BEFORE}, rows_now.told, rows_now.settled
    FROM rows_now LEFT JOIN before USING (rid, attempt) LEFT JOIN added USING (rid, attempt)""",
    f"CREATE OR REPLACE TABLE {KEPT}.waiting AS SELECT * FROM added ANTI JOIN rows_now USING (rid, attempt)",
)

_DUE: Final = f"""CREATE OR REPLACE TEMP TABLE due AS SELECT rid, attempt, arrival FROM {KEPT}.attempts
WHERE NOT coalesce(settled, false)
    AND (told IS NULL OR status <> 'open' OR ($horizon - told) * $older >= $horizon - arrival)"""

_TOLD: Final = (
    f"""CREATE OR REPLACE TEMP TABLE before AS
    SELECT * FROM {KEPT}.attempts
    WHERE (rid, attempt) IN (SELECT (rid, attempt) FROM summed INTERSECT SELECT (rid, attempt) FROM due)""",
    f"""CREATE OR REPLACE TEMP TABLE after AS
    SELECT
        before.* EXCLUDE (told, settled, {names_of(CAUSE_NAMES)}),
        summed.* EXCLUDE (rid, attempt),
        CASE WHEN status <> 'open' AND $horizon - told < $sure THEN told ELSE $horizon END AS told,
        status <> 'open' AND coalesce($horizon - least(told, returned) >= $sure, false) AS settled
    FROM before JOIN summed USING (rid, attempt)""",
)
