"""What is kept of a run while it is recorded: a database that is brought up to date by what came since the last look.

The same tables as in the file of a run at rest (`console.kept`), so every question is asked of either alike. A look
costs what has come since: new rows of `requests` and `spans` are put to their attempts, and attributed are only those
that are new, that ended a moment ago, or that are open and have grown older by an eighth. What is read for that begins
with the arrival of the oldest of these, as nothing before it is part of their time.

Of a run that is small at the first look it is in memory. Of one with a long history a process of its own fills a file
with all that (`console.kept.Keeper.follow`), and it goes on from there.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from console.filling import AT_ONCE, fill
from console.kept import RESTS, WORTH_KEEPING, slices_of
from console.measures import phase_column
from console.summing import some_at_a_time, sums
from console.views import CAUSE_NAMES, KEPT, PHASES, columns_of, create_views, names_of, phase_sums, store
from recorder.attribution import SCHEMA, Tables
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.columns import Ints
from recorder.attribution.reading import COLUMNS, Needed, SlicesOfParts
from recorder.left_out import LeftOut, Stretch
from recorder.run import RunInfo, run_state
from recorder.schema import TABLES
from recorder.tables import Ends, RunTables

WORTH_GROWING: Final = 200_000
"""Slices from which on a run that is recorded is not read anew at each look."""

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
    """Whether a run is recorded, and large, but not so large that taking all of it holds somebody up."""
    return WORTH_GROWING <= slices_of(tables) < WORTH_KEEPING and run_state(tables.path) == "recording"


def has_long_history(tables: RunTables) -> bool:
    """Whether a run is recorded, and so large that what there is of it takes a process of its own."""
    return slices_of(tables) >= WORTH_KEEPING and run_state(tables.path) == "recording"


class Growing:
    """Follows one run in the database `KEPT`. Safe to share between threads: one waits for the other."""

    def __init__(self, taken: "Taken", took_s: float = 0.0) -> None:
        """What `taken` is of, in `KEPT`, took so long to fill."""
        self._taken = taken
        self._took_s = took_s
        self._since_s = time.monotonic()
        self._lock = threading.Lock()

    @classmethod
    def of_all(cls, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> "Growing":
        """Begin with all there is, but for the causes."""
        cursor.execute(_BEGIN).fetchall()
        store(cursor, f"{KEPT}.causes", SCHEMA.empty_table())
        create_views(cursor, tables, kept=False)
        _take_all(cursor)
        return cls(Taken.of(tables))

    @classmethod
    def of_history(cls, cursor: duckdb.DuckDBPyConnection, took_s: float) -> "Growing":
        """Go on from what `fill_history` filled."""
        ((taken,),) = cursor.execute(f"SELECT taken FROM {KEPT}.made_from").fetchall()
        return cls(msgspec.json.decode(taken, type=Taken), took_s)

    def follow(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> bool:
        """Bring requests and phases up to date. False where something was damaged meanwhile, so all has to begin anew:
        not, though, before that many times the time has gone by which it takes.
        """
        with self._lock:
            if self._taken.damaged != _damaged(tables) and self._has_rested():
                return False
            self._take_what_came(cursor, tables)
        return True

    def _has_rested(self) -> bool:
        return time.monotonic() - self._since_s >= RESTS * self._took_s

    def _take_what_came(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> None:
        taken = self._taken
        requests, taken.requests = tables.since("requests", taken.requests)
        spans, taken.spans = tables.since("spans", taken.spans, *_OF_SPANS)
        for number in range(max(-(-requests.num_rows // _REQUESTS), -(-spans.num_rows // _SPANS))):
            some = requests.slice(number * _REQUESTS, _REQUESTS), spans.slice(number * _SPANS, _SPANS)
            _take(cursor, *some)
        for stretch in _left_out_since(tables.left_out.stretches, taken.left_out):
            cursor.execute(_UNSETTLED, msgspec.structs.asdict(stretch)).fetchall()
        taken.left_out = tables.left_out.stretches

    def attribute(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> None:
        """Bring the causes up to date. Raises FileNotFoundError, or DuckDB's own error, where parts were merged away:
        what is due stays due."""
        with self._lock:
            self._attribute(cursor, tables)

    def _attribute(self, cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> None:
        (horizon,) = _row(cursor, "SELECT coalesce(max(t_end), 0) FROM memory.main.steps")
        cursor.execute(_DUE, {"horizon": horizon, "older": _OLDER}).fetchall()
        due, oldest, every = _row(
            cursor, f"SELECT count(*), min(arrival), (SELECT count(*) FROM {KEPT}.attempts) FROM due"
        )
        if not due:
            return
        recent = Needed(tables) if due == every or oldest is None else Recent(cursor, tables, oldest)
        slices = SlicesOfParts(tables, since={} if isinstance(recent, Needed) else _first_steps(recent))
        _delete(cursor, "causes", "due")
        for rows, causes in attribute_in_turn(recent, slices, AT_ONCE):
            _tell(cursor, rows, causes, horizon)


class Taken(msgspec.Struct):
    """How far a run has been taken in: where the last look ended, what was damaged, and what was left out by then."""

    requests: Ends
    spans: Ends
    damaged: tuple[str, ...]
    left_out: tuple[Stretch, ...]

    @classmethod
    def of(cls, tables: RunTables) -> "Taken":
        """All of this look at it."""
        ends = tables.ends("requests"), tables.ends("spans")
        return cls(*ends, _damaged(tables), tables.left_out.stretches)


def fill_history(cursor: duckdb.DuckDBPyConnection, tables: RunTables, tell: Callable[[float], None]) -> None:
    """Fill `KEPT` with all there is of a run, for `Growing.of_history`; the views of the cursor show the run itself."""
    (horizon,) = _row(cursor, "SELECT coalesce(max(t_end), 0) FROM steps")
    settled = f"status <> 'open' AND coalesce({horizon} - returned >= {_SURE_NS}, false)"
    told = f"CASE WHEN {settled} THEN returned + {_SURE_NS} ELSE {horizon} END"
    fill(cursor, tables, tell, f"({told})::BIGINT AS told, {settled} AS settled")
    cursor.execute(f"CREATE TABLE {KEPT}.waiting AS {_ORPHANS}").fetchall()
    taken = msgspec.json.encode(Taken.of(tables)).decode()
    cursor.execute(f"CREATE TABLE {KEPT}.made_from AS SELECT $taken::VARCHAR AS taken", {"taken": taken}).fetchall()


def _damaged(tables: RunTables) -> tuple[str, ...]:
    return tuple(damage.file for damage in tables.damages)


def _left_out_since(now: Sequence[Stretch], before: Sequence[Stretch]) -> Iterator[Stretch]:
    """What of the stretches is in none of the earlier ones; those that met have become one."""
    known = set(before)
    for stretch in (each for each in now if each not in known):
        since = stretch
        for part in (each for each in before if each.worker == stretch.worker):
            if stretch.first <= part.first and part.stop <= stretch.stop:
                if part.first > since.first:
                    yield msgspec.structs.replace(since, stop=part.first, t_end=part.t_sched)
                since = msgspec.structs.replace(since, first=part.stop, t_sched=part.t_end)
        if since.first < since.stop:
            yield since


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
        rows = self._cursor.sql(asked, params={"oldest": self._oldest} if "$oldest" in asked else None).to_arrow_table()
        return self.left_out.without(name, rows)


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
    cursor.execute(f"INSERT INTO {KEPT}.waiting {_ORPHANS}").fetchall()


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
    _delete(cursor, "attempts", "before")
    cursor.execute(f"INSERT INTO {KEPT}.attempts BY NAME FROM after").fetchall()
    cursor.commit()


def _delete(cursor: duckdb.DuckDBPyConnection, name: str, those: str) -> None:
    """What a table tells of those attempts. A join finds them by what a segment holds at most; `IN` reads all of it."""
    same = f"{name}.rid = {those}.rid AND {name}.attempt = {those}.attempt"
    cursor.execute(f"DELETE FROM {KEPT}.{name} USING {those} WHERE {same}").fetchall()


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
    f"""CREATE OR REPLACE TEMP TABLE before AS SELECT * FROM {KEPT}.attempts SEMI JOIN (
        SELECT rid, attempt FROM new_requests UNION SELECT rid, attempt FROM added
    ) USING (rid, attempt)""",
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

_ORPHANS: Final = f"""SELECT rid, attempt, {phase_sums(phase_column)}
FROM spans ANTI JOIN requests USING (rid, attempt) GROUP BY rid, attempt"""

_UNSETTLED: Final = f"""UPDATE {KEPT}.attempts SET told = NULL, settled = false
WHERE arrival < $t_end AND coalesce(returned > $t_sched, true) AND coalesce(worker = $worker, true)
    AND $first < $stop"""

_DUE: Final = f"""CREATE OR REPLACE TEMP TABLE due AS SELECT rid, attempt, arrival FROM {KEPT}.attempts
WHERE NOT coalesce(settled, false)
    AND (told IS NULL OR status <> 'open' OR ($horizon - told) * $older >= $horizon - arrival)"""

_TOLD: Final = (
    f"""CREATE OR REPLACE TEMP TABLE before AS
    SELECT * FROM {KEPT}.attempts
    SEMI JOIN (SELECT rid, attempt FROM summed INTERSECT SELECT rid, attempt FROM due) USING (rid, attempt)""",
    f"""CREATE OR REPLACE TEMP TABLE after AS
    SELECT
        before.* EXCLUDE (told, settled, {names_of(CAUSE_NAMES)}),
        summed.* EXCLUDE (rid, attempt),
        CASE WHEN status <> 'open' AND $horizon - told < $sure THEN told ELSE $horizon END AS told,
        status <> 'open' AND coalesce($horizon - least(told, returned) >= $sure, false) AS settled
    FROM before JOIN summed USING (rid, attempt)""",
)
