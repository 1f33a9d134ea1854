"""The process that makes what is kept of a run: `python -m console.keeping RUN FILE FINGERPRINT` (see `console.kept`).

It says on stdout how far it is, a number from 0 to 1 a line, and ends when its stdin does.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from console.blame.answer import blame
from console.explain.answer import explain
from console.kept import fingerprint
from console.measures import phase_column
from console.report import report
from console.session import Session
from console.summing import some_at_a_time, sums
from console.views import PHASES
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.reading import Needed, SlicesOfParts
from recorder.errors import UserError
from recorder.run import RunError

_MEMORY: Final = "1500MB"
"""What DuckDB may hold: sums over all spans should not spill. It is this process that has it, not the console."""

_AT_ONCE: Final = 1_000_000
"""Slices in memory at once."""


def make(run: Path, place: Path, wanted: str, tell: Callable[[float], None]) -> None:
    """Make the file and give it its name. Raises UserError where the run is another one by now, duckdb's errors."""
    making = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        with Session(run, _MEMORY) as session:
            if fingerprint(session.tables) != wanted:
                raise RunError(f"{run} has changed meanwhile")
            with session.making(making) as cursor:
                _fill(session, cursor, wanted, tell)
                session.show_made()
                _answer(session, cursor)
        making.replace(place)
    finally:
        making.unlink(missing_ok=True)
        making.with_name(f"{making.name}.wal").unlink(missing_ok=True)


def _fill(session: Session, cursor: duckdb.DuckDBPyConnection, wanted: str, tell: Callable[[float], None]) -> None:
    slices = SlicesOfParts(session.tables, lambda part: tell(_ATTRIBUTED * part))
    for rows, causes in attribute_in_turn(Needed(session.tables), slices, _AT_ONCE):
        _append(cursor, "causes", causes)
        _append(cursor, "sums", sums(rows, causes))
    phases = ", ".join(f'"{name}" AS "{phase_column(name)}"' for name in PHASES)
    cursor.execute(f"CREATE TABLE kept.phases AS SELECT rid, attempt, {phases} FROM phase_times").fetchall()
    tell(_SUMMED)
    _join(cursor)
    tell(_JOINED_UP)
    cursor.execute("DROP TABLE kept.sums; DROP TABLE kept.phases").fetchall()
    cursor.execute(f"CREATE TABLE kept.made_from AS SELECT '{wanted}' AS fingerprint").fetchall()


def _answer(session: Session, cursor: duckdb.DuckDBPyConnection) -> None:
    """What screens ask first, of all requests: the answers are there when somebody looks."""
    report(session)
    blame(session)
    explain(session)
    cursor.execute("CREATE TABLE kept.answers (name VARCHAR, answer BLOB)").fetchall()
    for name, answer in session.answers.of_everything():
        cursor.execute("INSERT INTO kept.answers VALUES (?, ?)", [name, answer]).fetchall()


_ATTRIBUTED: Final = 0.7
_SUMMED: Final = 0.8
_JOINED_UP: Final = 0.9
"""How much of the time has gone by then."""

_JOINED: Final = """
SELECT requests.*, phases.* EXCLUDE (rid, attempt), sums.* EXCLUDE (rid, attempt)
FROM (SELECT * FROM requests WHERE {some}) AS requests
LEFT JOIN kept.phases USING (rid, attempt)
LEFT JOIN kept.sums USING (rid, attempt)
ORDER BY arrival, rid, attempt"""


def _join(cursor: duckdb.DuckDBPyConnection) -> None:
    """One wide row an attempt, in the order of arrival."""
    cursor.execute(f"CREATE TABLE kept.attempts AS {_JOINED.format(some='false')}").fetchall()
    for some in some_at_a_time(cursor):
        cursor.execute(f"INSERT INTO kept.attempts {_JOINED.format(some=some)}").fetchall()


def _append(cursor: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    cursor.register("arriving", rows)
    cursor.execute(f"CREATE TABLE IF NOT EXISTS kept.{table} AS FROM arriving LIMIT 0").fetchall()
    cursor.execute(f"INSERT INTO kept.{table} FROM arriving").fetchall()
    cursor.unregister("arriving")


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def _tell(progress: float) -> None:
    sys.stdout.write(f"{progress:.3f}\n")
    sys.stdout.flush()


def main() -> int:
    """Make it, at a priority that disturbs nobody."""
    run, place, wanted = sys.argv[1:]
    os.nice(5)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        make(Path(run), Path(place), wanted, _tell)
    except (UserError, duckdb.Error, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
