"""A run, open for questions: DuckDB views over its sealed parts and the tails of its rings.

Every question goes through here, from screens and from the command line alike. The database is in memory, reads no file
outside the run and the cache of what is kept of runs (`console.kept`), and a question never writes one.
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakKeyDictionary

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from console.answers import Answers, asked_as
from console.database import check_reads_only, open_database, select
from console.filter import EVERYTHING, Filter
from console.growing import Growing, has_long_history, worth_growing
from console.kept import Keeper
from console.patience import is_wanted
from console.views import (
    KEPT,
    PLACES_OF_PICKED,
    create_views,
    narrow,
    narrow_kept,
    picks_of_kept,
    places_of_kept,
    quoted,
    show_causes,
)
from recorder.losses import Damage
from recorder.schema import TABLES
from recorder.tables import RunTables, open_tables

if TYPE_CHECKING:
    from types import TracebackType

_MEMORY: Final = "300MB"
"""What DuckDB may hold; beyond that it spills, and the console stays under a gigabyte."""

_PATIENCE_S: Final = 0.5
"""How long a question waits for causes before it looks whether it is still wanted."""

_REMEMBERED: Final = 4
"""Filters whose answer is remembered: going back to the one before is common."""

_COMMENT: Final = re.compile(r"--[^\n]*")
_CAUSES: Final = re.compile(r"\b(causes|cause_times|attempt_times|blames)\b", re.IGNORECASE)


class Session:
    """One run and the database that answers questions about it.

    Views: `requests` (no open row that a final one supersedes), `spans`, `steps`, `slices`, `deliveries`, `events`,
    `samples`, `stalls`, `recorder` (columns of `recorder.schema`; coded words are VARCHAR), `latency`
    (`console.measures`), `gaps` (where records are missing, and when: `recorder.losses.Gap`), `phase_times` (one row an
    attempt, ns in each phase), `handed_on` (`rid, arrival` of attempts that another worker went on with), `causes`
    (`recorder.attribution.attribute`), `blames` (`views.blames_of`), `cause_times` (one row an attempt, ns of each
    cause) and `attempt_times` (all of it in one row: request, measures, `"phase prefill"`, `"PREFILL"`). What is of
    causes is empty until `load_causes` has run; `ask` and `query` see to that.

    Of a large run what takes long is worked out once and kept (`console.kept`).

    Safe to share between threads, as every call and every `connect` works on a cursor of its own.
    `memory` is what DuckDB may hold of it at once; beyond that it spills.
    Raises `RunError` where there is no run or one of a newer schema; damage inside is in `damages` instead.
    """

    def __init__(self, run: Path, memory: str = _MEMORY, tables: RunTables | None = None) -> None:
        """`tables` are a look at the run, where somebody has taken one."""
        self.path = run
        self._lock = threading.RLock()
        self._attributing = threading.Lock()
        self._waiting: set[int] = set()
        self._has_causes = False
        self._picked: dict[Filter, pa.Table] = {}
        self._places: dict[Filter, npt.NDArray[np.int32]] = {}
        self._placing = threading.Lock()
        self._under: WeakKeyDictionary[duckdb.DuckDBPyConnection, Filter] = WeakKeyDictionary()
        self.tables = tables or open_tables(run)
        self._keeper = Keeper(run)
        self._kept: Path | None = None
        self._growing: Growing | None = None
        self._db = open_database(run, memory)
        self._build_views()
        self.answers = Answers(self._answered)

    @property
    def name(self) -> str:
        """The run's id."""
        return self.tables.info.run_id

    @property
    def damages(self) -> list[Damage]:
        """What could not be read; all the rest is in the views."""
        return self.tables.damages

    @property
    def progress(self) -> float | None:
        """How far the causes of a large run are worked out, 0 to 1; None while nobody works on them."""
        return self._keeper.progress

    @property
    def has_causes(self) -> bool:
        """Whether the causes of this look are worked out."""
        return self._has_causes

    @property
    def is_in_order(self) -> bool:
        """Whether `requests` come in the order of arrival by themselves, and a column of them costs next to nothing."""
        return self._shows_kept and self._growing is None

    @property
    def is_followed(self) -> bool:
        """Whether what is kept of the run is brought up to date at each look, and comes nearly in order of arrival."""
        return self._shows_kept and self._growing is not None

    def connect(self, only: Filter = EVERYTHING) -> duckdb.DuckDBPyConnection:
        """A new cursor, for one thread; `interrupt()` on it ends its query and no other's.

        On one with a filter, requests and what is told of them (`views.NARROWED`) are those that it lets through; what
        is told of workers and of the recorder is as it was.
        """
        cursor = self._db.cursor()
        self._under[cursor] = EVERYTHING
        self.narrow(cursor, only)
        return cursor

    def narrow(self, cursor: duckdb.DuckDBPyConnection, only: Filter, *, causes: bool = False) -> None:
        """Put a cursor under a filter, once; with `causes` also those, for SQL that joins no requests."""
        if not only:
            return
        if only.of_causes:
            self.load_causes()
        if self.is_quick(only):
            narrow_kept(cursor, only, lossy=self._lossy, causes=causes)
        else:
            narrow(cursor, self.picked(only, cursor=cursor), causes=causes)
        self._under[cursor] = only

    def picked(self, only: Filter, *, cursor: duckdb.DuckDBPyConnection | None = None) -> pa.Table:
        """`rid, attempt` of what a filter lets through; kept for the last few of this look at the run."""
        found = self._picked.get(only)
        if found is None:
            tables, found = self.tables, self.query(self.picks(only), cursor=cursor)
            with self._lock:
                if tables is self.tables:
                    self._picked = dict([*self._picked.items(), (only, found)][-_REMEMBERED:])
        return found

    def places(self, only: Filter, *, cursor: duckdb.DuckDBPyConnection | None = None) -> npt.NDArray[np.int32]:
        """Where what a filter lets through stands in the order of arrival, of a run that `is_in_order`; ascending.

        Several ask for that at once: who comes later waits for the first.
        """
        with self._placing:
            found = self._places.get(only)
            if found is None:
                tables, found = self.tables, self._look_up_places(only, cursor or self.connect())
                with self._lock:
                    if tables is self.tables:
                        self._places = dict([*self._places.items(), (only, found)][-_REMEMBERED:])
        return found

    def _look_up_places(self, only: Filter, cursor: duckdb.DuckDBPyConnection) -> npt.NDArray[np.int32]:
        if self.is_quick(only):
            found = self.query(places_of_kept(only), cursor=cursor)
        else:
            cursor.register("picks", self.picked(only, cursor=cursor))
            found = self.query(PLACES_OF_PICKED, cursor=cursor)
        places: npt.NDArray[np.int32] = found["place"].to_numpy()
        return places if self.is_quick(only) else np.sort(places)

    def picks(self, only: Filter) -> str:
        """What a filter lets through, as a SELECT of `rid, attempt` for a cursor under none."""
        if only.of_causes:
            self.load_causes()
        return picks_of_kept(only) if self.is_quick(only) else only.sql()

    def is_quick(self, only: Filter) -> bool:
        """Whether each row tells by itself if a filter picks it, so that to ask again is quicker than to look it up."""
        return self._shows_kept and only.of_rows

    def count(self, only: Filter = EVERYTHING) -> int:
        """How many attempts a filter lets through."""
        if only and self.is_in_order:
            return len(self.places(only))
        if only in self._picked:
            return int(self._picked[only].num_rows)
        with self.connect(only) as cursor:
            found = self.find("SELECT count(*) AS n FROM requests", cursor=cursor)
        (row,) = found.to_pylist()
        return int(row["n"])

    def ask(self, name: str, /, *, cursor: duckdb.DuckDBPyConnection | None = None, **params: object) -> pa.Table:
        """The answer to `console/sql/<name>.sql`; `params` fill its `$name`s. A cursor lets the caller interrupt."""
        return self.find(question(name), cursor=cursor, **params)

    def find(self, sql: str, /, *, cursor: duckdb.DuckDBPyConnection | None = None, **params: object) -> pa.Table:
        """As `query`; but what was asked before in this look at the run is found again (`console.answers`)."""
        answers, cursor = self.answers, cursor or self.connect()
        asked = asked_as(sql, params, self._under.get(cursor))
        found = answers.find(asked)
        if found is None:
            found = self.query(sql, cursor=cursor, up_to=None, **params)
            answers.keep(asked, found)
        return found

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
            return select(cursor, sql, params, up_to)
        except duckdb.IOException:
            if all(file.exists() for file in self._files):
                raise
        # The recorder merged the parts that the views name and deleted them: look again, once.
        self.refresh()
        return select(cursor, sql, params, up_to)

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
            self._picked, self._places = {}, {}
            self._build_views()
            self.answers = Answers(self._answered)

    def load_causes(self) -> None:
        """Attribute the time of every request (once per look at the run) and show it as `causes`.

        Raises `KeepError` where that of a large run can't be worked out.
        """
        with self._turn_to_attribute():
            while not self._has_causes:
                tables = self.tables
                if self._growing is not None:
                    self._attribute(self._growing, tables)
                elif has_long_history(tables):
                    self._go_on_from_history()
                elif self._keeper.is_worth_it(tables):
                    self._keeper.keep(tables)
                    self._show(tables)
                else:
                    from recorder.attribution import attribute  # reads every slice: nothing that others pay for

                    self._show(tables, attribute(tables))

    @property
    def waiting(self) -> frozenset[int]:
        """The threads that wait for causes which a process works out; nothing else of a look at the run waits."""
        return frozenset(self._waiting) if self.progress is not None else frozenset()

    @contextmanager
    def _turn_to_attribute(self) -> Iterator[None]:
        """One thread at a time. A question that a newer one has superseded does not queue up."""
        self._waiting.add(threading.get_ident())
        try:
            while not self._attributing.acquire(timeout=_PATIENCE_S):
                if not is_wanted():
                    raise duckdb.InterruptException("nobody waits for this answer any more")
            try:
                yield
            finally:
                self._attributing.release()
        finally:
            self._waiting.discard(threading.get_ident())

    def _attribute(self, growing: Growing, tables: RunTables) -> None:
        """Bring the causes of a run that is recorded up to date."""
        try:
            with self._db.cursor() as cursor:
                growing.attribute(cursor, tables)
            self._has_causes = tables is self.tables
        except (FileNotFoundError, duckdb.IOException):
            if all(file.exists() for file in self._files):
                raise
            self.refresh()  # the recorder merged parts that this look names

    def _go_on_from_history(self) -> None:
        """From now on follow a run whose long history has been worked out."""
        began_s = time.monotonic()
        with self._keeper.history() as file, self._lock, self._db.cursor() as cursor:
            # Nobody else has the file, and it goes when it is closed: nothing has to survive a crash.
            attached = f"ATTACH OR REPLACE {quoted(str(file))} AS {KEPT} (RECOVERY_MODE no_wal_writes)"
            cursor.execute(attached).fetchall()
            self._kept, self._growing = None, Growing.of_history(cursor, time.monotonic() - began_s)
            self._build_views()

    def settle(self) -> None:
        """Have a large run at rest worked out before all of it is read: to sort it as it lies takes too much memory."""
        if not (self._shows_kept or self._has_causes) and self._keeper.is_worth_it(self.tables):
            self.load_causes()

    def _show(self, tables: RunTables, causes: pa.Table | None = None) -> None:
        """Show causes that were found; those of an earlier look at the run come too late."""
        with self._lock, self._db.cursor() as cursor:
            if tables is not self.tables:
                return
            if causes is None:
                self._build_views()
            else:
                show_causes(cursor, causes)
            self._has_causes = True

    @contextmanager
    def making(self, file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor on which `KEPT` can be filled: that file, in a folder of this run or its cache."""
        with self._db.cursor() as cursor:
            cursor.execute(f"ATTACH {quoted(str(file))} AS {KEPT}").fetchall()
            try:
                yield cursor
            finally:
                cursor.execute(f"DETACH {KEPT}").fetchall()

    def show_made(self) -> None:
        """Ask what was filled from now on."""
        with self._db.cursor() as cursor:
            self._lossy = create_views(cursor, self.tables, kept=True)
        self._shows_kept = self._has_causes = True

    def close(self) -> None:
        """Free the database. The run is untouched."""
        self._keeper.stop()
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
            shown = self._follow(cursor) or self._attach(cursor)
            cursor.begin()
            self._lossy = create_views(cursor, self.tables, kept=shown)
            cursor.commit()
        self._shows_kept = shown
        self._has_causes = self.is_in_order

    def _follow(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """Of a large run that is recorded, take what came since the last look, also when it has come to rest since."""
        if self._growing is not None and not self._growing.follow(cursor, self.tables):
            self._growing = None
        if self._growing is None and worth_growing(self.tables):
            cursor.execute(f"ATTACH OR REPLACE ':memory:' AS {KEPT} (COMPRESS)").fetchall()
            self._growing = Growing.of_all(cursor, self.tables)
        return self._growing is not None

    def _answered(self) -> Mapping[str, bytes]:
        """What was answered beforehand of a run of which something is kept."""
        if self._kept is None or not self.is_in_order:
            return {}
        with self._db.cursor() as cursor:
            return dict(cursor.execute(f"SELECT name, answer FROM {KEPT}.answers").fetchall())

    def _attach(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """What is kept of a run at rest, where that is of the run as it is."""
        kept = self._keeper.find(self.tables)
        if kept is not None and kept != self._kept:
            cursor.execute(f"ATTACH OR REPLACE {quoted(str(kept))} AS {KEPT} (READ_ONLY)").fetchall()
            self._kept = kept
        return kept is not None


@cache
def question(name: str) -> str:
    """The text of `console/sql/<name>.sql`."""
    return resources.files("console.sql").joinpath(f"{name}.sql").read_text("utf-8")


def rows(answer: pa.Table) -> list[dict[str, object]]:
    """An answer as plain dictionaries, for what is small enough to be shown."""
    found: list[dict[str, object]] = answer.to_pylist()
    return found
