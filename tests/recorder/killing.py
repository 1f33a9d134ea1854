"""Processes that are killed: forked from one that has imported everything, so that hundreds of them cost seconds.

A kill point is a line of the code that packs, seals, merges and closes: `killed_at` sends SIGKILL just before the n-th
such line runs. What a process has done before is real: nothing is cleaned up, and only files and rings stay.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, Final

import recorder
from recorder.__main__ import main
from tests.recorder.processes import DEADLINE_S, Counter, write_for_ever

_FOLDER: Final = Path(recorder.__file__).parent
CODE: Final = frozenset(
    str(_FOLDER / f"{name}.py")
    for name in ("drain", "left_out", "merge", "parts", "producer", "records", "ring", "run", "thinning")
)
_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "tests.recorder.killing", "tests.recorder.rows"])


def start(work: Callable[..., object], *arguments: object) -> BaseProcess:
    """A process that does `work`, a function of a module."""
    process = _context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def kill(process: BaseProcess) -> None:
    """SIGKILL, and wait until it is gone."""
    process.kill()
    process.join(DEADLINE_S)
    assert process.exitcode == -signal.SIGKILL


def killed_at(line: int, work: Callable[..., object], *arguments: object) -> bool:
    """Do the work in a process that is killed before line number `line` of `CODE`; False when it ended before."""
    process = start(_until_line, line, work, arguments)
    process.join(DEADLINE_S)
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode != 0


def lines_of(folder: Path, work: Callable[..., object], *arguments: object) -> int:
    """How many lines of `CODE` the work runs through, done once in a process of its own."""
    counter = Counter(folder / "lines")
    process = start(_count_lines, folder / "lines", work, arguments)
    process.join(DEADLINE_S)
    assert process.exitcode == 0
    return counter.value


def _until_line(line: int, work: Callable[..., object], arguments: Sequence[object]) -> None:
    def step() -> None:
        nonlocal line
        line -= 1
        if line < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _traced(step, work, arguments)


def _count_lines(path: Path, work: Callable[..., object], arguments: Sequence[object]) -> None:
    counter = Counter(path)

    def step() -> None:
        counter.value += 1

    _traced(step, work, arguments)


def _traced(step: Callable[[], None], work: Callable[..., object], arguments: Sequence[object]) -> None:
    def lines(_frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - it returns itself
        if event == "line":
            step()
        return lines

    sys.settrace(lambda frame, _event, _: lines if frame.f_code.co_filename in CODE else None)
    work(*arguments)


def start_writer(run: Path, counter: Path, ring_mb: float) -> BaseProcess:
    """A process that appends slices for ever, going on after the number in `counter`."""
    return start(write_for_ever, run, counter, ring_mb)


def start_recorder(run: Path) -> tuple[BaseProcess, Connection]:
    """`python -m recorder` on a run; it ends when the connection is closed."""
    theirs, ours = _context.Pipe(duplex=False)
    process = start(_record, run, theirs)
    theirs.close()
    return process, ours


def _record(run: Path, parent: Connection) -> None:
    sys.exit(main([str(run), "--parent-fd", str(parent.fileno())]))
