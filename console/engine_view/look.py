"""What is looked at of a run's workers: a stretch, one worker or all, in how many parts; and how it is asked."""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from console.filter import Alive, Filter
from console.filter_language import FilterError, parse_filter
from console.session import Session, question, rows
from console.timeline import Window
from console.widgets.ink import duration
from recorder.errors import UserError

if TYPE_CHECKING:
    import duckdb

_PARAMETER: Final = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Look:
    """`window` is the stretch `[start, end)` in ns on the run's clock; `worker` None means all; `bins` equal parts."""

    window: Window
    worker: int | None = None
    bins: int = 60

    def of_run(self, session: Session) -> "Look":
        """Itself. Raises `NoWorkerError` where the run has no such worker."""
        known = session.ask("engine_workers")["worker"].to_pylist()
        if self.worker is not None and self.worker not in known:
            there = f"its workers are {', '.join(map(str, known))}" if known else "none made a pass"
            raise NoWorkerError(f"run {session.name} has no worker {self.worker}: {there}")
        return self


class NoWorkerError(UserError):
    """The run has no worker of that number."""


@dataclass(frozen=True)
class Asking:
    """A session under a filter, and a look: `ask` fills in what a question takes of it."""

    session: Session
    cursor: "duckdb.DuckDBPyConnection"
    look: Look

    @classmethod
    def under(cls, session: Session, only: Filter, look: Look, cursor: "duckdb.DuckDBPyConnection") -> "Asking":
        """Puts the fresh `cursor` under the filter."""
        session.narrow(cursor, only)
        return cls(session, cursor, look)

    def ask(self, name: str, /, **more: object) -> pa.Table:
        """The answer to one of the engine's questions."""
        window = self.look.window
        known = {"since": window.start, "until": window.end, "worker": self.look.worker, "bins": self.look.bins, **more}
        wanted = set(_PARAMETER.findall(question(name)))
        return self.session.ask(name, cursor=self.cursor, **{key: known[key] for key in wanted})


def stretch(text: str, of: Window) -> Window:
    """The part of a run that `2s..5s` means, counted from its first instant; either side may be left out.

    Raises FilterError for what is no stretch, and for one that lies beyond the run.
    """
    term = parse_filter(f"alive:{text}").terms[0]
    start, end = (term.start, term.end) if isinstance(term, Alive) else (None, None)
    low, high = of.low + (start or 0), of.high if end is None else min(of.low + end, of.high)
    if low >= high:
        raise FilterError(f"nothing of the run lies in {text}: it takes {duration(of.high - of.low)}")
    return replace(of, start=low, end=high)


def whole(session: Session, cursor: "duckdb.DuckDBPyConnection | None" = None) -> Window:
    """All of a run."""
    ask = partial(session.ask, cursor=cursor) if cursor is not None else session.ask
    extent = rows(ask("timeline_extent"))[0]
    return Window.whole(int(str(extent["low"])), int(str(extent["high"])))
