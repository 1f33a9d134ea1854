"""The empty database of a session, and one SELECT asked of it: what neither may ever do is settled here."""

import os
import tempfile
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from console.kept import cache_folder
from console.views import quoted
from recorder.errors import UserError

_THREADS: Final = 2
"""An engine may be serving on the same machine; a question must not take its cores."""


_PROMPT_CLASS: Final = """CREATE MACRO prompt_class(tokens) AS CASE
    WHEN tokens < 128 THEN '0-127'
    WHEN tokens < 512 THEN '128-511'
    WHEN tokens < 2048 THEN '512-2047'
    WHEN tokens < 8192 THEN '2048-8191'
    WHEN tokens < 32768 THEN '8192-32767'
    WHEN tokens IS NOT NULL THEN '32768-'
END"""
"""What requests of about so many prompt tokens are called, where they are told by class."""


class QueryError(UserError):
    """A question that DuckDB could not answer, or that was none: it would have changed something."""


def open_database(run: Path, memory: str) -> duckdb.DuckDBPyConnection:
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
        _PROMPT_CLASS,
        "SET enable_progress_bar = false",  # cursors inherit it; DuckDB would draw one over a report or a screen
        f"SET memory_limit = '{memory}'",
        f"SET allowed_directories = [{', '.join(quoted(str(place)) for place in (run.resolve(), cache_folder()))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        db.execute(statement).fetchall()
    return db


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


def select(cursor: duckdb.DuckDBPyConnection, sql: str, params: dict[str, object], up_to: int | None) -> pa.Table:
    """The answer to a SELECT, or `up_to` rows of it.

    Raises QueryError, and duckdb's own errors where it was interrupted or files have gone.
    """
    try:
        found = cursor.sql(sql, params=params or None)
        return (found if up_to is None else found.limit(up_to)).to_arrow_table()
    except (duckdb.InterruptException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
