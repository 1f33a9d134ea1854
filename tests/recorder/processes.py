"""Real processes to kill: a writer that counts what it packed where a kill can't take it back, and the recorder."""

import itertools
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.producer import RingProducer

DEADLINE_S = 60.0
_names = itertools.count()


def new_name() -> str:
    """A name for a run that no other test has."""
    return f"run-{next(_names)}"


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that has to come about."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.005)


class Counter:
    """A number in a mapped file: like a ring, it survives the death of whoever writes it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._word = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    @property
    def value(self) -> int:
        return self._word[0]

    @value.setter
    def value(self, value: int) -> None:
        self._word[0] = value


def start_writer(run: Path, counter: Path, ring_mb: float) -> subprocess.Popen[bytes]:
    """A process that appends slices for ever, going on after the number in `counter`."""
    return subprocess.Popen([sys.executable, "-m", "tests.recorder.processes", str(run), str(counter), str(ring_mb)])


@contextmanager
def recorder_process(run: Path) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """The recorder, and what lets go of its parent's end of the pipe."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "recorder", str(run), "--parent-fd", str(ours)],
        pass_fds=[ours],
        stderr=subprocess.PIPE,
    )
    os.close(ours)
    open_ends = [theirs]

    def let_go() -> None:
        while open_ends:
            os.close(open_ends.pop())

    try:
        yield process, let_go
    finally:
        let_go()
        if process.poll() is None:
            process.kill()
        process.communicate()


def write_for_ever(run: Path, counter_path: Path, ring_mb: float) -> None:
    """The counter moves after the record is packed, so a kill leaves at most one record more than it says.

    It pauses where the ring is full, and between some records, or the recorder would be outrun from the start.
    """
    from tests.recorder.rows import slice_values

    counter = Counter(counter_path)
    producer = RingProducer(run, "worker0", ["slices"], ring_mb)
    append = producer.appender("slices")
    number = counter.value
    while True:
        for _ in range(20):
            while not append(*slice_values(number)):
                time.sleep(0.001)
            number += 1
            counter.value = number
        time.sleep(0.0002)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
