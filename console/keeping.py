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

from console.kept import fingerprint
from console.session import Session
from console.views import CAUSE_SUMS, ROOTS, names_of
from recorder.attribution import CAUSES
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.reading import Needed, SlicesOfParts
from recorder.errors import UserError
from recorder.run import RunError

_AT_ONCE: Final = 1_000_000
"""Slices in memory at once."""


def make(run: Path, place: Path, wanted: str, tell: Callable[[float], None]) -> None:
    """Make the file and give it its name. Raises UserError where the run is another one by now, duckdb's errors."""
    making = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        with Session(run) as session:
            if fingerprint(session.tables) != wanted:
                raise RunError(f"{run} has changed meanwhile")
            with session.making(making) as cursor:
                _fill(session, cursor, wanted, tell)
        making.replace(place)
    finally:
        making.unlink(missing_ok=True)
        making.with_name(f"{making.name}.wal").unlink(missing_ok=True)


def _fill(session: Session, cursor: duckdb.DuckDBPyConnection, wanted: str, tell: Callable[[float], None]) -> None:
    slices = SlicesOfParts(session.tables)
    cursor.execute("CREATE TABLE making.causes AS FROM memory.main.causes LIMIT 0").fetchall()
    cursor.execute(f"CREATE TABLE making.sums AS {CAUSE_SUMS} LIMIT 0").fetchall()
    for _, causes in attribute_in_turn(Needed(session.tables), slices, _AT_ONCE):
        cursor.register("causes", causes)
        cursor.execute("INSERT INTO making.causes FROM causes").fetchall()
        cursor.execute(f"INSERT INTO making.sums {CAUSE_SUMS}").fetchall()
        cursor.unregister("causes")
        tell(slices.progress)
    cursor.execute(_ATTEMPTS).fetchall()
    cursor.execute("DROP TABLE making.sums").fetchall()
    cursor.execute(f"CREATE TABLE making.made_from AS SELECT '{wanted}' AS fingerprint").fetchall()


_ATTEMPTS: Final = f"""
CREATE TABLE making.attempts AS
SELECT requests.*, phase_times.* EXCLUDE (rid, attempt, status, e2e_ns), {names_of((*CAUSES, *ROOTS))}
FROM requests
LEFT JOIN phase_times USING (rid, attempt)
LEFT JOIN making.sums USING (rid, attempt)
ORDER BY arrival, rid, attempt"""


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
