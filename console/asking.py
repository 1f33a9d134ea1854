"""Questions that run in threads, where the newest one wins. Knows DuckDB's cursors, and no widget."""

import threading
import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import duckdb

from console.patience import wanted_while
from console.session import Session

T = TypeVar("T")
Question = Callable[[Session, duckdb.DuckDBPyConnection], T]


_THREAD: Final = "ask "
"""How the names of asking threads begin."""


class Superseded(Exception):  # noqa: N818  # not an error: a newer question took its place
    """Nobody waits for this answer any more."""


class Asker:
    """One line of questions. A newer question interrupts the one that runs and makes its answer stale."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = 0
        self._running: duckdb.DuckDBPyConnection | None = None

    @property
    def generation(self) -> int:
        """The number of the newest question."""
        return self._generation

    def supersede(self) -> int:
        """Begin a new question: its number. What was running is interrupted."""
        with self._lock:
            self._generation += 1
            if self._running is not None:
                self._running.interrupt()
            return self._generation

    def ask(self, generation: int, session: Session, question: Question[T]) -> T:
        """The answer to question number `generation`, on a cursor of its own; raises `Superseded` when it is stale.

        Blocks: call it from a thread.
        """
        wanted_while(lambda: generation == self._generation)
        with session.connect() as cursor:
            try:
                self._begin(generation, cursor)
                answer = question(session, cursor)
            except duckdb.InterruptException as error:
                raise Superseded from error
            finally:
                self._end(cursor)
        if generation != self._generation:
            raise Superseded
        return answer

    def in_thread(self, work: Callable[[], None], line: str) -> None:
        """Do the work of asking beside everything else. The thread holds up nobody who wants to leave."""
        threading.Thread(target=work, name=f"{_THREAD}{line}", daemon=True).start()

    def _begin(self, generation: int, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if generation != self._generation:
                raise Superseded
            self._running = cursor

    def _end(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if self._running is cursor:
                self._running = None


def busy(but: Collection[int] = ()) -> bool:
    """Whether any question is being answered in a thread, `but` those of these idents."""
    return any(thread.name.startswith(_THREAD) and thread.ident not in but for thread in threading.enumerate())


def wait_until_quiet(timeout_s: float) -> bool:
    """Wait until no question is being answered any more; False when one still is after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    for thread in threading.enumerate():
        if thread.name.startswith(_THREAD):
            thread.join(max(deadline - time.monotonic(), 0))
    return not busy()
