"""The process that makes what is kept of a run: `python -m console.keeping RUN FILE FINGERPRINT` (see `console.kept`).
Of a run that is recorded, to be followed (`console.growing`): `python -m console.keeping --history RUN FOLDER`.

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
from console.contrast.meeting import fill_met
from console.engine_view.answer import engine
from console.engine_view.look import Look, whole
from console.explain.answer import explain
from console.filling import fill
from console.filter import EVERYTHING
from console.growing import fill_history
from console.kept import NAME, fingerprint
from console.ranks import fill_ranks
from console.report import report
from console.session import Session
from console.views import fill_blames
from recorder.errors import UserError
from recorder.run import RunError
from recorder.tables import open_pinned

_MEMORY: Final = "1500MB"
"""What DuckDB may hold: sums over all spans should not spill. It is this process that has it, not the console."""


def make(run: Path, place: Path, wanted: str, tell: Callable[[float], None]) -> None:
    """Make the file and give it its name. Raises UserError where the run is another one by now, duckdb's errors."""
    making = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        with Session(run, _MEMORY) as session:
            if fingerprint(session.tables) != wanted:
                raise RunError(f"{run} has changed meanwhile")
            with session.making(making) as cursor:
                fill(cursor, session.tables, lambda part: tell(_FILLED * part))
                fill_blames(cursor)
                fill_met(cursor)
                cursor.execute(f"CREATE TABLE kept.made_from AS SELECT '{wanted}' AS fingerprint").fetchall()
                session.show_made()
                fill_ranks(cursor)
                _answer(session, cursor)
        making.replace(place)
    finally:
        making.unlink(missing_ok=True)
        making.with_name(f"{making.name}.wal").unlink(missing_ok=True)


def make_history(run: Path, folder: Path, tell: Callable[[float], None]) -> None:
    """Make the file in a folder with what there is of a run that is recorded. Raises UserError, OSError, duckdb's."""
    tables = open_pinned(run, folder)
    with Session(run, _MEMORY, tables) as session, session.making(folder / NAME) as cursor:
        fill_history(cursor, tables, tell)


def _answer(session: Session, cursor: duckdb.DuckDBPyConnection) -> None:
    """What screens ask first, of all requests: the answers are there when somebody looks."""
    report(session)
    blame(session)
    explain(session)
    with session.connect() as asking:
        engine(session, EVERYTHING, Look(whole(session)), asking)
    cursor.execute("CREATE TABLE kept.answers (name VARCHAR, answer BLOB)").fetchall()
    for name, answer in session.answers.of_everything():
        cursor.execute("INSERT INTO kept.answers VALUES (?, ?)", [name, answer]).fetchall()


_FILLED: Final = 0.9
"""How much of the time has gone by then."""


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


def _tell(progress: float) -> None:
    sys.stdout.write(f"{progress:.3f}\n")
    sys.stdout.flush()


def main() -> int:
    """Make it, at a priority that disturbs nobody."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        if sys.argv[1] == "--history":
            os.nice(10)  # an engine is serving
            pa.set_cpu_count(1)
            run, folder = sys.argv[2:]
            make_history(Path(run), Path(folder), _tell)
        else:
            os.nice(5)
            run, place, wanted = sys.argv[1:]
            make(Path(run), Path(place), wanted, _tell)
    except (UserError, duckdb.Error, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
