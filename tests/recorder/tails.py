"""What the tests of the tail share: recorders that serve it, viewers that collect, and what they must have seen."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from recorder.records import SEQ
from recorder.run import is_locked, lock_path
from recorder.schema import SLICES
from recorder.tail.access import door_path
from recorder.tail.client import Event, TailClient
from recorder.tail.server import TailServer
from recorder.tail.wire import Batch
from tests.recorder.processes import DEADLINE_S, until
from tests.recorder.rows import expected_slices

RING = "worker0.slices"


@contextmanager
def tail_recorder(run: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """A recorder process that serves the tail at a loopback port, and what lets go of it."""
    theirs, ours = os.pipe()
    door_before = door_path(run).stat().st_ino if door_path(run).exists() else None
    command = [sys.executable, "-m", "recorder", str(run), "--parent-fd", str(theirs)]
    process = subprocess.Popen([*command, "--tail-host", "127.0.0.1", *options], pass_fds=[theirs])
    os.close(theirs)
    open_ends = [ours]

    def let_go() -> None:
        while open_ends:
            os.close(open_ends.pop())

    def serves() -> bool:
        assert process.poll() is None, "the recorder could not start"
        return is_locked(lock_path(run)) and door_path(run).exists() and door_path(run).stat().st_ino != door_before

    try:
        until(serves, "the recorder serves the tail")
        yield process, let_go
    finally:
        let_go()
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def served(run: Path, host: str = "127.0.0.1", **options: int) -> Iterator[TailServer]:
    """The tail of a run that this process writes, served by a thread of this process."""
    server = TailServer(run, host, None, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop("recording")


@dataclass
class Seen:
    """What a viewer has been told. `events` are all of them but the batches."""

    batches: list[Batch] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def take(self, event: Event) -> None:
        if isinstance(event, Batch):
            self.batches.append(event)
        else:
            self.events.append(event)

    def slices(self) -> list[int]:
        """Numbers of the slices that came, in the order in which they came; fails where a column is not as written."""
        mine = [batch.rows for batch in self.batches if batch.ring == RING]
        rows = pa.concat_tables([SLICES.arrow.append(pa.field(SEQ, pa.int64())).empty_table(), *mine])
        numbers: list[int] = rows["rid"].to_pylist()
        assert rows[SEQ].to_pylist() == numbers
        assert rows.drop_columns(SEQ).to_pylist() == expected_slices(numbers).to_pylist()
        return numbers


async def watch(client: TailClient, seen: Seen, enough: Callable[[Seen], bool]) -> Seen:
    """Collect until there is enough, or the stream ends."""
    async with asyncio.timeout(DEADLINE_S), aclosing(client.events()) as events:
        async for event in events:
            seen.take(event)
            if enough(seen):
                break
    return seen


def up_to(number: int) -> Callable[[Seen], bool]:
    """Enough: all slices before `number` have come."""
    return lambda seen: any(batch.ring == RING and batch.last >= number for batch in seen.batches)


def gathered(batches: Iterable[Batch]) -> list[int]:
    """Numbers of all rows, in the order of the batches."""
    return [number for batch in batches for number in batch.rows[SEQ].to_pylist()]
