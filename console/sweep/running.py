"""All levels of a sweep at once, each in a process of its own; what breaks one off leaves no half-written run."""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from console.figures import Figures
from console.sweep.level import Task, run_level
from console.sweep.plan import SweepError
from recorder.run import RunError, run_state

_INTERRUPTED: Final = 130

Progress = Callable[[Task, Figures, int], None]
"""Told of each level that is done, with how many are."""


def run_all(tasks: Sequence[Task], jobs: int, progress: Progress) -> list[Figures]:
    """The figures of all levels, in their order. A level's own UserError comes through; SweepError when one is killed.

    Processes are spawned: nothing of this one is copied into them.
    """
    outs = [task.out for task in tasks if task.out is not None]
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _quiet) as pool:
            with _interrupts_held():
                futures = {pool.submit(_run_level, task): task for task in tasks}
            try:
                return _collected(futures, progress)
            except BaseException:
                _interrupt_levels()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except BaseException:
        _remove_unfinished(outs)
        raise


def default_jobs(levels: int) -> int:
    """As many processes as there are levels and cores."""
    return max(1, min(levels, os.cpu_count() or 1))


def _collected(futures: "dict[Future[Figures], Task]", progress: Progress) -> list[Figures]:
    try:
        for done, future in enumerate(as_completed(futures), 1):
            progress(futures[future], future.result(), done)
    except BrokenProcessPool as error:
        raise SweepError("the process of a level was killed, by want of memory perhaps: try fewer --jobs") from error
    return [future.result() for future in futures]


def _interrupt_levels() -> None:
    """End the levels that still run: nobody will read their figures."""
    for process in multiprocessing.active_children():
        if process.pid is not None:
            os.kill(process.pid, signal.SIGINT)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Interrupts come after it, here and (`_quiet`) in the processes that are started in it: not amid their imports."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _quiet() -> None:
    """In a level's process: an interrupt ends it in order, its unfinished run taken away, and without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))  # one that was held: there is nothing yet to undo
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_end, _unwind)


def _unwind(*_: object) -> None:
    """Leave in order, and only once: a second signal must not break off the clearing up after the first."""
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked_to_end, lambda *_: None)  # SIG_IGN would make Python complain of one that is pending
    sys.exit(_INTERRUPTED)


def _run_level(task: Task) -> Figures:
    """The level; an interrupt ends the process too, once all is cleared up: the pool would give it the next level."""
    try:
        return run_level(task)
    except SystemExit:
        os._exit(_INTERRUPTED)


def _remove_unfinished(outs: Sequence[Path]) -> None:
    """Take away what a killed process left; runs that were finished stay."""
    for out in outs:
        try:
            unfinished = run_state(out) != "sealed"
        except RunError:
            unfinished = out.exists()
        if unfinished:
            shutil.rmtree(out, ignore_errors=True)
