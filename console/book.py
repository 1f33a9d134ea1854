"""A run as the screens share it: opened once, its lanes and its report worked out once. Knows no widget."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from console.filter import Filter
from console.health import recorder_health
from console.marks import Marks
from console.session import Session, rows
from recorder.run import RunInfo, load_info, run_state

if TYPE_CHECKING:
    import duckdb

    from console.lanes import Lanes
    from console.report import Report


@dataclass(frozen=True, slots=True)
class Health:
    """How the run stands and how well its recorder did; what every screen says (SPEC F8).

    `durable` is the instant up to which everything is on disk, ns since the first arrival; `append_ns` the cost of
    one record. None where nothing is known.
    """

    state: str
    events: int
    drops: int
    append_ns: float | None
    durable: int | None
    damages: tuple[tuple[str, str], ...]


@dataclass(eq=False)
class Book:
    """One run of those on the command line. What it holds is filled in when a thread has answered.

    `lanes` are all there are, `seen` those under a filter. `report` says itself which filter it is under;
    `answered_ns` is the sum of the end-to-end times of its ok requests, which its causes have to add up to.
    `marks` and what is remembered of the run come and go with the application. `chosen` is the number of the request
    that the screens tell of.
    """

    path: Path
    lanes: "Lanes | None" = None
    seen: "tuple[Filter, Lanes] | None" = None
    report: "Report | None" = None
    answered_ns: int = 0
    health: Health | None = None
    revision: int = 0
    marks: Marks = ()
    chosen: int | None = None
    _session: Session | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.info.run_id

    @property
    def info(self) -> RunInfo:
        """What the run says of itself."""
        return load_info(self.path) if self._session is None else self._session.tables.info

    @property
    def progress(self) -> float | None:
        """How far the causes are worked out, 0 to 1; None while nobody works on them, or nobody has to wait."""
        return None if self._session is None else self._session.progress

    @property
    def is_at_hand(self) -> bool:
        """Whether lanes and causes are there, so that another filter costs no more than a look at each row."""
        return self.lanes is not None and self._session is not None and self._session.has_causes

    @property
    def waiting(self) -> frozenset[int]:
        """The threads that wait for causes; a look at the run does not wait for them."""
        return frozenset() if self._session is None else self._session.waiting

    def report_under(self, only: Filter) -> "Report | None":
        """The report, if it is there and under this filter."""
        return self.report if self.report is not None and self.report["filter"] == str(only) else None

    def lanes_under(self, only: Filter) -> "Lanes | None":
        """The lanes, if they are there and under this filter."""
        return self.seen[1] if self.seen is not None and self.seen[0] == only else None

    def session(self) -> Session:
        """The open run; opened by whoever asks first. Call it from a thread: it reads files."""
        with self._lock:
            if self._session is None:
                self._session = Session(self.path)
            return self._session

    def reload(self) -> None:
        """Look at the run again, and forget what was worked out. Call it from a thread."""
        session = self.session()
        session.refresh()
        self.lanes = self.seen = self.report = None
        self.revision += 1


def read_lanes(
    book: Book, only: Filter, session: Session, cursor: "duckdb.DuckDBPyConnection", *, whole: bool = True
) -> "tuple[Lanes, tuple[Filter, Lanes]]":
    """All lanes, and those under a filter; only what is not there yet is read.

    Who counts and measures lanes needs none that are `whole`: with their names, and what changed.
    """
    from console.lanes import load_lanes, whole_lanes

    lanes = book.lanes if book.lanes is not None else load_lanes(session, cursor, whole=whole)
    lanes = whole_lanes(lanes, session, cursor) if whole else lanes
    return lanes, (only, lanes.under_filter(session, only, cursor))


def read_names(session: Session, cursor: "duckdb.DuckDBPyConnection") -> dict[str, list[str]]:
    """The words that a filter can ask the run for, by field."""
    names: dict[str, list[str]] = {}
    for row in rows(session.ask("filter_names", cursor=cursor)):
        names.setdefault(str(row["field"]), []).append(str(row["name"]))
    return names


def read_health(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Health:
    """The recorder's own account."""
    account = recorder_health(session, cursor)
    low = rows(session.ask("timeline_extent", cursor=cursor))[0]["low"]
    append, durable = account["append_ns"], account["durable"]
    return Health(
        state=run_state(session.path),
        events=account["events"],
        drops=account["drops"],
        append_ns=append,
        durable=durable - int(str(low)) if durable is not None else None,
        damages=tuple((damage.file, damage.what) for damage in session.damages),
    )
