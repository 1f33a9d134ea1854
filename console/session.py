"""A run, open for questions: DuckDB views over its sealed parts and the tails of its rings.

Every question goes through here, from screens and from the command line alike. The database is in memory, holds no
copy of the sealed parts, reads no file outside the run and never writes one.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import duckdb
import pyarrow as pa

from console.filter import EVERYTHING, Filter
from console.measures import latency_view
from recorder.errors import UserError
from recorder.losses import Damage
from recorder.schema import TABLES, Table
from recorder.tables import RunTables, open_tables

if TYPE_CHECKING:
    from types import TracebackType

_THREADS: Final = 2
"""An engine may be serving on the same machine; a question must not take its cores."""

NARROWED: Final = ("requests", "latency", "spans")
"""The views that a filter narrows. Questions about causes join requests."""

_KEPT: Final = 4
"""Filters whose answer is kept: going back to the one before is common."""

_COMMENT: Final = re.compile(r"--[^\n]*")
_CAUSES: Final = re.compile(r"\bcauses\b", re.IGNORECASE)


class QueryError(UserError):
    """A question that DuckDB could not answer, or that was none: it would have changed something."""


class Session:
    """One run and the database that answers questions about it.

    Views: `requests` (no open row that a final one supersedes), `spans`, `steps`, `slices`, `deliveries`, `events`,
    `samples`, `recorder` (columns of `recorder.schema`; coded words are VARCHAR), `latency` (`console.measures`),
    `gaps` (where records are missing, and when: `recorder.losses.Gap`), and
    `causes` (`recorder.attribution.attribute`), which exists once `load_causes` has run; `ask` and `query` see to that.

    Safe to share between threads, as every call and every `connect` works on a cursor of its own.
    Raises `RunError` where there is no run or one of a newer schema; damage inside is in `damages` instead.
    """

    def __init__(self, run: Path) -> None:
        self.path = run
        self._lock = threading.RLock()
        self._has_causes = False
        self._picked: dict[Filter, pa.Table] = {}
        self.tables = open_tables(run)
        self._db = _database(run)
        self._build_views()

    @property
    def name(self) -> str:
        """The run's id."""
        return self.tables.info.run_id

    @property
    def damages(self) -> list[Damage]:
        """What could not be read; all the rest is in the views."""
        return self.tables.damages

    def connect(self, only: Filter = EVERYTHING) -> duckdb.DuckDBPyConnection:
        """A new cursor, for one thread; `interrupt()` on it ends its query and no other's.

        On one with a filter, requests and what is told of them (`NARROWED`) are those that it lets through; what is
        told of workers and of the recorder is as it was.
        """
        cursor = self._db.cursor()
        self.narrow(cursor, only)
        return cursor

    def narrow(self, cursor: duckdb.DuckDBPyConnection, only: Filter) -> None:
        """Put a cursor under a filter, once."""
        if not only:
            return
        cursor.register("picked", self.picked(only, cursor=cursor))
        for view in NARROWED:
            of_whole = f"SELECT * FROM memory.main.{view} SEMI JOIN picked USING (rid, attempt)"
            cursor.execute(f"CREATE TEMP VIEW {view} AS {of_whole}").fetchall()

    def picked(self, only: Filter, *, cursor: duckdb.DuckDBPyConnection | None = None) -> pa.Table:
        """`rid, attempt` of what a filter lets through; kept for the last few of this look at the run."""
        found = self._picked.get(only)
        if found is None:
            tables, found = self.tables, self.query(only.sql(), cursor=cursor)
            with self._lock:
                if tables is self.tables:
                    self._picked = dict([*self._picked.items(), (only, found)][-_KEPT:])
        return found

    def ask(self, name: str, /, *, cursor: duckdb.DuckDBPyConnection | None = None, **params: object) -> pa.Table:
        """The answer to `console/sql/<name>.sql`; `params` fill its `$name`s. A cursor lets the caller interrupt."""
        return self.query(question(name), cursor=cursor, **params)

    def query(
        self,
        sql: str,
        /,
        *,
        cursor: duckdb.DuckDBPyConnection | None = None,
        up_to: int | None = None,
        **params: object,
    ) -> pa.Table:
        """The answer to one SELECT. Raises `QueryError` with DuckDB's words, or duckdb's own error when interrupted."""
        if _CAUSES.search(_COMMENT.sub("", sql)):
            self.load_causes()
        cursor = cursor or self.connect()
        try:
            return _run(cursor, sql, params, up_to)
        except duckdb.IOException:
            if all(file.exists() for file in self._files):
                raise
        # The recorder merged the parts that the views name and deleted them: look again, once.
        self.refresh()
        return _run(cursor, sql, params, up_to)

    def user_query(
        self, sql: str, *, cursor: duckdb.DuckDBPyConnection | None = None, up_to: int | None = None
    ) -> pa.Table:
        """The answer to SQL somebody typed: one statement that only reads, or `QueryError`; `up_to` so many rows."""
        check_reads_only(sql)
        return self.query(sql, cursor=cursor, up_to=up_to)

    def refresh(self) -> None:
        """Look at the run again: rows and parts that came since, and damages."""
        with self._lock:
            self.tables = open_tables(self.path)
            self._has_causes = False
            self._picked = {}
            self._build_views()

    def load_causes(self) -> None:
        """Attribute the time of every request (once per look at the run) and show it as `causes`."""
        with self._lock:
            if self._has_causes:
                return
            from recorder.attribution import attribute  # reads every slice: nothing that a screen without causes pays

            with self._db.cursor() as cursor:
                _store(cursor, "causes", attribute(self.tables))
            self._has_causes = True

    def close(self) -> None:
        """Free the database. The run is untouched."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: "TracebackType | None"
    ) -> None:
        self.close()

    def _build_views(self) -> None:
        """Replace all views in one transaction, so that no query sees half of an old look and half of a new one."""
        self._files = [file for name in TABLES for file in self.tables.part_files(name)]
        with self._db.cursor() as cursor:
            cursor.begin()
            cursor.execute("DROP TABLE IF EXISTS causes").fetchall()
            for table in TABLES.values():
                _create_view(cursor, table, self.tables)
            lossy = _create_gaps(cursor, self.tables)
            cursor.execute(f"CREATE OR REPLACE VIEW latency AS {latency_view(lossy=lossy)}").fetchall()
            cursor.commit()


def check_reads_only(sql: str) -> None:
    """Raise `QueryError` unless `sql` is one statement that only reads."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    if len(statements) != 1:
        raise QueryError(f"expected one SQL statement, got {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError(f"a run is read only: expected a SELECT, got {statements[0].type.name}")


@cache
def question(name: str) -> str:
    """The text of `console/sql/<name>.sql`."""
    return resources.files("console.sql").joinpath(f"{name}.sql").read_text("utf-8")


def rows(answer: pa.Table) -> list[dict[str, object]]:
    """An answer as plain dictionaries, for what is small enough to be shown."""
    found: list[dict[str, object]] = answer.to_pylist()
    return found


def _database(run: Path) -> duckdb.DuckDBPyConnection:
    """An empty database that can read the run's folder and nothing else: no network, no extensions, no other files."""
    spill = Path(tempfile.gettempdir()) / f"tailtrace-{os.getpid()}"
    db = duckdb.connect(
        ":memory:",
        config={
            "threads": _THREADS,
            "temp_directory": str(spill),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        },
    )
    for statement in (
        "SET enable_progress_bar = false",  # cursors inherit it; DuckDB would draw one over a report or a screen
        f"SET allowed_directories = [{_quoted(str(run.resolve()))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        db.execute(statement).fetchall()
    return db


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, params: dict[str, object], up_to: int | None) -> pa.Table:
    try:
        found = cursor.sql(sql, params=params or None)
        return (found if up_to is None else found.limit(up_to)).to_arrow_table()
    except (duckdb.InterruptException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        raise QueryError(str(error)) from error


def _create_view(cursor: duckdb.DuckDBPyConnection, table: Table, tables: RunTables) -> None:
    name = f"tail_{table.name}"
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    files, tail = tables.part_files(table.name), tables.tail(table.name)
    sources = [f"SELECT {_in_parts(table, tables.info.schema_version)} FROM {_parquet(files)}"] if files else []
    cursor.execute(f"DROP TABLE IF EXISTS {name}").fetchall()
    if tail.num_rows or not files:  # a sealed run has no tails: its empty tables would double the time to open it
        _store(cursor, name, tail)
        sources.append(f"SELECT {columns} FROM {name}")
    body = _SETTLED.get(table.name, "{rows}").format(rows=" UNION ALL ".join(sources))
    cursor.execute(f"CREATE OR REPLACE VIEW {table.name} AS {body}").fetchall()


def _create_gaps(cursor: duckdb.DuckDBPyConnection, tables: RunTables) -> bool:
    """The table `gaps`, and `lossy`, the times in which requests may have lost something; False where there is none."""
    gaps = [
        {"producer": gap.producer, "table_name": gap.table, "lost": gap.lost, "since": gap.since, "until": gap.until}
        for gap in tables.gaps
    ]
    _store(cursor, "gaps", pa.Table.from_pylist(gaps, _GAPS))
    windows = [{"began": began, "ended": ended} for began, ended in tables.lossy_windows()]
    if windows:
        _store(cursor, "lossy", pa.Table.from_pylist(windows))
    return bool(windows)


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


def _store(cursor: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Copy an Arrow table into the database: what is registered instead would exist for one cursor only."""
    columns = ", ".join(
        f'"{field.name}"{"::VARCHAR" if pa.types.is_dictionary(field.type) else ""} AS "{field.name}"'
        for field in rows.schema
    )
    cursor.register("arriving", rows)
    cursor.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM arriving").fetchall()
    cursor.unregister("arriving")


def _in_parts(table: Table, version: int) -> str:
    """The columns of a table as parts of that schema version hold them; those that came later are NULL."""
    return ", ".join(
        f'"{column.name}"'
        if column.since <= version
        else f'NULL::{_SQL_TYPES.get(column.arrow, "VARCHAR")} AS "{column.name}"'
        for column in table.columns
    )


_SQL_TYPES: Final = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}


def _parquet(files: Iterable[Path]) -> str:
    """A scan of exactly these files; folders above them that are named `a=b` are no columns."""
    names = ", ".join(_quoted(str(file.resolve())) for file in files)
    return f"read_parquet([{names}], hive_partitioning = false)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
