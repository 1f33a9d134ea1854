"""All levels of a sweep at once, each in a process of its own; what breaks one off leaves no half-written run."""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from console.sweep.level import Figures, Task, run_level
from console.sweep.plan import SweepError
from recorder.run import RunError, run_state

Progress = Callable[[Task, Figures, int], None]
"""Told of each level that is done, with how many are."""


def run_all(tasks: Sequence[Task], jobs: int, progress: Progress) -> list[Figures]:
    """The figures of all levels, in their order. A level's own UserError comes through; SweepError when one is killed.

    Processes are spawned: nothing of this one is copied into them.
    """
    outs = [task.out for task in tasks if task.out is not None]
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _quiet) as pool:
            futures = {pool.submit(run_level, task): task for task in tasks}
            try:
                return _collected(futures, progress)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
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


def _quiet() -> None:
    """In a level's process: an interrupt ends it in order, its unfinished run taken away, and without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))


def _remove_unfinished(outs: Sequence[Path]) -> None:
    """Take away what a killed process left; runs that were finished stay."""
    for out in outs:
        try:
            unfinished = run_state(out) != "sealed"
        except RunError:
            unfinished = out.exists()
        if unfinished:
            shutil.rmtree(out, ignore_errors=True)
