"""The views that questions ask of: made of the parts and tails of a run, or of what is kept of it (`console.kept`)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from console.filter import Filter
from console.measures import MEASURES, latency_view, phase_column
from recorder.attribution import CAUSES, SCHEMA
from recorder.schema import TABLES, Table
from recorder.tables import RunTables
from recorder.words import Phase, Reason

KEPT: Final = "kept"
"""The name under which the database of what is kept is attached."""

_WIDE: Final = "wide"
"""The view of the wide rows that are kept, with a column also for each cause that no attempt has, which is not kept,
and with the `place` of each row in the order of arrival, from 0."""
_BLAMES: Final = f"{KEPT}.blames"

VIEWS: Final = frozenset(
    {*TABLES, "latency", "gaps", "handed_on", "phase_times", "causes", "cause_times", "attempt_times", "blames"}
)
"""All that can be asked."""

ALL_REQUESTS: Final = "all_requests"
"""The view `requests` for other views: in them even `memory.main.requests` would be what a filter lets through."""

NARROWED: Final = ("requests", "latency", "spans", "phase_times", "cause_times", "attempt_times")
"""The views that a filter narrows. Questions about causes join requests."""

PHASES: Final = tuple(phase.value for phase in Phase)
ROOTS: Final = tuple(f"root {reason.value}" for reason in Reason if reason is not Reason.NONE)
"""Columns of `cause_times`: the waits in the queue, by why its head was not started."""
ANY_ROOT: Final = ("QUEUE/BEHIND_FIFO", "QUEUE/BEHIND_TIER")
"""The causes that may have any root; that of all others follows from the cause."""
BEHIND: Final = tuple(f"{cause} {root.removeprefix('root ')}" for cause in ANY_ROOT for root in ROOTS)
"""Columns of `attempt_times`: these, by root."""

_SQL_TYPES: Final = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
_GAPS: Final = pa.schema(
    [
        ("producer", pa.string()),
        ("table_name", pa.string()),
        ("lost", pa.int64()),
        ("since", pa.int64()),
        ("until", pa.int64()),
    ]
)

_SETTLED: Final = {
    # A request is written when it arrives and again when it ends; the end makes the beginning void.
    "requests": """
WITH written AS NOT MATERIALIZED ({rows})
SELECT * FROM written WHERE status <> 'open'
UNION ALL
SELECT * FROM written AS begun WHERE status = 'open' AND NOT EXISTS (
    SELECT 1 FROM written AS ended
    WHERE ended.status <> 'open' AND ended.rid = begun.rid AND ended.attempt = begun.attempt
)""",
    # A step is written after its slices: slices beyond the last step belong to one that a killed worker never ended.
    "slices": """
SELECT slices.* FROM ({rows}) AS slices
JOIN (SELECT worker, max(step) AS last FROM steps GROUP BY worker) AS ended
ON ended.worker = slices.worker AND slices.step <= ended.last""",
}
"""What makes of the rows that were written the rows that hold; the same rules as `RunTables.table`."""


def create_views(cursor: duckdb.DuckDBPyConnection, tables: RunTables, *, kept: bool) -> bool:
    """All views of a run; where something is kept, what can be is asked of that. Whether records were lost."""
    for table in TABLES.values():
        if not (kept and table.name == "requests"):
            _create_view(cursor, table, tables)
    if kept:
        _view(cursor, _WIDE, _wide_rows(cursor))
        for name in ("requests", ALL_REQUESTS):
            _view(cursor, name, f"SELECT {columns_of(TABLES['requests'])} FROM {KEPT}.attempts")
        _view(cursor, "causes", f"SELECT {columns_of(SCHEMA)} FROM {KEPT}.causes")
    else:
        show_causes(cursor, SCHEMA.empty_table())
    lossy = _create_gaps(cursor, tables)
    _view(cursor, "handed_on", _HANDED_ON)
    _view(cursor, "latency", latency_view(ALL_REQUESTS, lossy=lossy))
    phases, causes, both = _joined(_phases_of()), _joined(_CAUSE_SUMS), _joined(_phases_of(phase_column), _CAUSE_SUMS)
    _view(
        cursor,
        "phase_times",
        _times(_phase_columns(), f"{KEPT}.attempts") if kept else _times(names_of(PHASES), phases),
    )
    _view(cursor, "cause_times", _times(_CAUSE_COLUMNS, _WIDE if kept else causes))
    _view(cursor, "attempt_times", _attempt_times(_WIDE if kept else both))
    blames = blames_of(f"{KEPT}.causes" if kept else "attributed")
    _view(cursor, "blames", f"FROM {_BLAMES}" if kept and is_kept(cursor, "blames") else blames)
    return lossy


_HANDED_ON: Final = f"SELECT retry_of AS rid, arrival FROM {ALL_REQUESTS} WHERE retry_of IS NOT NULL"
"""Attempts that are no end of their request: another worker went on with it, and whoever did came at the same instant
(SPEC A7, C9). A client that asks again itself comes later."""


def narrow(cursor: duckdb.DuckDBPyConnection, picked: pa.Table, *, causes: bool) -> None:
    """Put a cursor under a filter that lets these attempts through (`rid, attempt`)."""
    cursor.register("picked", picked)
    for view in (*NARROWED, *(["causes"] if causes else [])):
        _temp_view(cursor, view, f"SELECT * FROM memory.main.{view} SEMI JOIN picked USING (rid, attempt)")


def picks_of_kept(only: Filter) -> str:
    """What a filter `of_rows` lets through, as a SELECT of `rid, attempt`."""
    return f"SELECT rid, attempt FROM {_picked_rows(only)}"


def placed(*, causes: bool = False) -> str:
    """The rows that are kept: with measures, times by phase, those by cause where they are wanted, and the `place` of
    each in the order of arrival, from 0."""
    return lived(_WIDE if causes else _SLIM)


def places_of_kept(only: Filter) -> str:
    """What a filter `of_rows` lets through, as a SELECT of `place`."""
    return f"SELECT place::INTEGER AS place FROM {_picked_rows(only)}"


def _picked_rows(only: Filter, *, causes: bool = False) -> str:
    return f"(SELECT * FROM ({placed(causes=causes or only.of_causes)}) AS lived WHERE {only.predicate(wide=True)})"


PLACES_OF_PICKED: Final = f"SELECT rowid::INTEGER AS place FROM {KEPT}.attempts SEMI JOIN picks USING (rid, attempt)"
"""The same of `picks`, a table of `rid, attempt`."""


def narrow_kept(cursor: duckdb.DuckDBPyConnection, only: Filter, *, lossy: bool, causes: bool) -> None:
    """Put a cursor under a filter `of_rows`. Every question looks at each row itself: that is faster than any join."""
    rows, wide = _picked_rows(only), _picked_rows(only, causes=True)
    _temp_view(cursor, "requests", f"SELECT {columns_of(TABLES['requests'])} FROM {rows}")
    _temp_view(cursor, "latency", latency_view("requests", lossy=lossy))
    _temp_view(cursor, "phase_times", _times(_phase_columns(), rows))
    _temp_view(cursor, "cause_times", _times(_CAUSE_COLUMNS, wide))
    _temp_view(cursor, "attempt_times", _attempt_times(wide))
    for view in ("spans", *(["causes"] if causes else [])):
        _temp_view(cursor, view, f"SELECT * FROM memory.main.{view} SEMI JOIN requests USING (rid, attempt)")


def show_causes(cursor: duckdb.DuckDBPyConnection, causes: pa.Table) -> None:
    """The causes of a run of which nothing is kept."""
    store(cursor, "attributed", causes)
    _view(cursor, "causes", "SELECT * FROM attributed")


def columns_of(schema: Table | pa.Schema) -> str:
    """The columns of a table, for a SELECT."""
    names = schema.arrow.names if isinstance(schema, Table) else schema.names
    return names_of(names)


def names_of(names: Sequence[str]) -> str:
    """Names as columns."""
    return ", ".join(f'"{name}"' for name in names)


def lived(source: str) -> str:
    """The rows of `source`, a kind of `requests`, with the measures: what the terms of a filter are told of."""
    return f"SELECT *, {', '.join(f'{measure.sql} AS {measure.column}' for measure in MEASURES)} FROM {source}"


def store(cursor: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Copy an Arrow table into the database: what is registered instead would exist for one cursor only."""
    columns = ", ".join(
        f'"{field.name}"{"::VARCHAR" if pa.types.is_dictionary(field.type) else ""} AS "{field.name}"'
        for field in rows.schema
    )
    cursor.register("arriving", rows)
    cursor.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM arriving").fetchall()
    cursor.unregister("arriving")


def _view(cursor: duckdb.DuckDBPyConnection, name: str, body: str) -> None:
    cursor.execute(f"CREATE OR REPLACE VIEW {name} AS {body}").fetchall()


def _temp_view(cursor: duckdb.DuckDBPyConnection, name: str, body: str) -> None:
    cursor.execute(f"CREATE TEMP VIEW {name} AS {body}").fetchall()


def _sums(column: str, what: str, names: Iterable[str]) -> str:
    return ", ".join(f"(sum({what}) FILTER ({column} = '{name}'))::BIGINT AS \"{name}\"" for name in names)


_ROOT_SUMS: Final = ", ".join(
    f"(sum(ns) FILTER (starts_with(cause, 'QUEUE/') AND root = '{name.removeprefix('root ')}'))::BIGINT AS \"{name}\""
    for name in ROOTS
)


def phase_sums(called: Callable[[str], str] = str) -> str:
    """Columns with the ns in each phase, of grouped spans, and what each of them is called."""
    return ", ".join(
        f"""(sum("end" - start) FILTER (name = '{name}'))::BIGINT AS "{called(name)}" """ for name in PHASES
    )


def _phases_of(called: Callable[[str], str] = str) -> str:
    return f"SELECT rid, attempt, {phase_sums(called)} FROM spans GROUP BY rid, attempt"


_CAUSE_SUMS: Final = f"""SELECT rid, attempt, {_sums("cause", "ns", CAUSES)}, {_ROOT_SUMS},
{_sums("cause || ' ' || root", "ns", BEHIND)}
FROM causes GROUP BY rid, attempt"""


CAUSE_NAMES: Final = (*CAUSES, *ROOTS, *BEHIND)
"""The columns of `attempt_times` that are ns of causes."""

_CAUSE_COLUMNS: Final = names_of((*CAUSES, *ROOTS))

_SLIM: Final = f"""(SELECT rowid AS place, {columns_of(TABLES["requests"])}, {names_of([*map(phase_column, PHASES)])}
FROM {KEPT}.attempts)"""
"""`wide` without the causes: for each question DuckDB takes 8 ms to see what a hundred columns more are."""


def fill_blames(cursor: duckdb.DuckDBPyConnection) -> None:
    """Keep `blames` beside the causes that are kept: on large runs it takes a second."""
    cursor.execute(f"CREATE TABLE {_BLAMES} AS {blames_of(f'{KEPT}.causes')} ORDER BY rid, attempt").fetchall()


def is_kept(cursor: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Whether what is kept has that table. Of a run that is recorded most is not kept: each look would make it anew."""
    asked = f"SELECT 1 FROM duckdb_tables() WHERE database_name = '{KEPT}' AND table_name = ?"
    return bool(cursor.execute(asked, [table]).fetchall())


def blames_of(causes: str) -> str:
    """The SELECT behind the view `blames`: time that an attempt lost through another request, and who that was.

    It is the culprit of the cause, but for two: whoever waits behind the head of the queue blames whoever kept that
    head out for the same root (where one request did most of it), and whoever was on its way to a worker in the middle
    of a step blames the longest prompt in that step. `prompt_tokens` and `cached_tokens` are the culprit's, by its last
    attempt.
    """
    return _BLAMES_OF.format(causes=causes)


_BLAMES_OF: Final = f"""
WITH waits AS (
    SELECT rid, attempt, cause, coalesce(root, '') AS root, culprit, ns
    FROM {{causes}}
    WHERE culprit IS NOT NULL OR cause = 'STEP_IN_FLIGHT'
),
heads AS (
    SELECT rid AS head, root, arg_max(culprit, (ns, -culprit)) AS behind
    FROM waits
    WHERE culprit IS NOT NULL AND cause = 'QUEUE/' || root
    GROUP BY rid, root
),
prompts AS (
    SELECT worker, step, arg_max(rid, (tokens, -rid)) AS prompt
    FROM slices
    WHERE role <> 'decode'
    GROUP BY worker, step
),
in_flight AS (
    SELECT lived.rid, lived.attempt, 'STEP_IN_FLIGHT' AS cause, prompt
    FROM (SELECT rid, attempt, worker, admitted FROM {ALL_REQUESTS} WHERE admitted IS NOT NULL) AS lived
    ASOF JOIN steps ON steps.worker = lived.worker AND steps.t_sched <= lived.admitted
    JOIN prompts ON prompts.worker = steps.worker AND prompts.step = steps.step
),
people AS (
    SELECT
        rid, arg_max(coalesce(prompt_tokens, 0), attempt) AS prompt_tokens,
        arg_max(coalesce(cached_tokens, 0), attempt) AS cached_tokens
    FROM {ALL_REQUESTS}
    GROUP BY rid
),
found AS (
    SELECT waits.rid, waits.attempt, waits.cause, waits.root, coalesce(behind, waits.culprit, prompt) AS culprit, ns
    FROM waits
    LEFT JOIN heads ON head = waits.culprit AND heads.root = waits.root AND starts_with(cause, 'QUEUE/BEHIND_')
    LEFT JOIN in_flight USING (rid, attempt, cause)
),
summed AS (
    SELECT rid, attempt, cause, root, culprit, sum(ns)::BIGINT AS ns
    FROM found
    WHERE culprit IS NOT NULL
    GROUP BY ALL
)
SELECT summed.*, prompt_tokens, cached_tokens FROM summed LEFT JOIN people ON people.rid = culprit"""


def _joined(*sums: str) -> str:
    return " ".join([ALL_REQUESTS, *(f"LEFT JOIN ({one}) USING (rid, attempt)" for one in sums)])


def _wide_rows(cursor: duckdb.DuckDBPyConnection) -> str:
    told = cursor.execute(
        f"SELECT column_name FROM duckdb_columns() WHERE database_name = '{KEPT}' AND table_name = 'attempts'"
    ).fetchall()
    there = {name for (name,) in told}
    nobodys = (f', NULL::BIGINT AS "{name}"' for name in CAUSE_NAMES if name not in there)
    return f"SELECT rowid AS place, *{''.join(nobodys)} FROM {KEPT}.attempts"


def _times(columns: str, source: str) -> str:
    """One row an attempt, one column a phase or cause, in ns; NULL where the attempt never was in it."""
    return f"SELECT rid, attempt, status, arrival, returned - arrival AS e2e_ns, {columns} FROM {source}"


def _attempt_times(source: str) -> str:
    """One row an attempt: its request, its measures, and ns in each phase and of each cause, under the names kept."""
    measures = ", ".join(f"{measure.sql} AS {measure.column}" for measure in MEASURES)
    spent = names_of([*map(phase_column, PHASES), *CAUSE_NAMES])
    return f"SELECT {columns_of(TABLES['requests'])}, {measures}, {spent} FROM {source}"


def _phase_columns() -> str:
    return ", ".join(f'"{phase_column(name)}" AS "{name}"' for name in PHASES)


def _create_view(cursor: duckdb.DuckDBPyConnection, table: Table, tables: RunTables) -> None:
    name = f"tail_{table.name}"
    files, tail = tables.part_files(table.name), tables.tail(table.name)
    sources = [f"SELECT {_in_parts(table, tables.info.schema_version)} FROM {_parquet(files)}"] if files else []
    cursor.execute(f"DROP TABLE IF EXISTS {name}").fetchall()
    if tail.num_rows or not files:  # a sealed run has no tails: its empty tables would double the time to open it
        store(cursor, name, tail)
        sources.append(f"SELECT {columns_of(table)} FROM {name}")
    for view in (table.name, *([ALL_REQUESTS] if table.name == "requests" else [])):
        _view(cursor, view, _SETTLED.get(table.name, "{rows}").format(rows=" UNION ALL ".join(sources)))


def _create_gaps(cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> bool:
    """The table `gaps`, and `lossy`, the times in which requests may have lost something; False where there is none."""
    gaps = [
        {"producer": gap.producer, "table_name": gap.table, "lost": gap.lost, "since": gap.since, "until": gap.until}
        for gap in tables.gaps
    ]
    store(cursor, "gaps", pa.Table.from_pylist(gaps, _GAPS))
    windows = [{"began": began, "ended": ended} for began, ended in tables.lossy_windows()]
    if windows:
        store(cursor, "lossy", pa.Table.from_pylist(windows))
    return bool(windows)


def _in_parts(table: Table, version: int) -> str:
    """The columns of a table as parts of that schema version hold them; those that came later are NULL."""
    return ", ".join(
        f'"{column.name}"'
        if column.since <= version
        else f'NULL::{_SQL_TYPES.get(column.arrow, "VARCHAR")} AS "{column.name}"'
        for column in table.columns
    )


def _parquet(files: Iterable[Path]) -> str:
    """A scan of exactly these files; folders above them that are named `a=b` are no columns."""
    names = ", ".join(quoted(str(file.resolve())) for file in files)
    return f"read_parquet([{names}], hive_partitioning = false)"


def quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"
