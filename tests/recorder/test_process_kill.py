"""SIGKILL at any instant: what was packed is read exactly once, by every later reader, without repair (DESIGN 5).

Some 300 kills: before chosen lines of the code that packs, seals, merges and closes, and after random numbers of
records, when engine, recorder and reader run beside each other.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from recorder.drain import Drain, RecordSettings
from recorder.producer import RingProducer
from recorder.run import is_locked, load_info, lock_path, run_state
from recorder.schema import SLICES
from recorder.tables import open_tables
from tests.recorder.killing import kill, killed_at, lines_of, start_recorder, start_writer
from tests.recorder.processes import Counter, until
from tests.recorder.rows import append_slices, new_run, shown, slice_values

AT_ONCE = RecordSettings(seal_interval_s=0)
SMALL_RING_MB = 101 * SLICES.dtype.itemsize / 2**20
RING_MB = 0.05
"""About 700 slices: the ring wraps and fills many times in a second."""
RANDOM_KILLS = 12


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: a kill takes no page away, and hundreds of them sync thousands of times."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def check_whole(run: Path, packed: int, *, may_have_one_more: bool = False) -> int:
    """Everything packed is there, once, as it was; nothing else is, and nothing is damaged. Returns how much it is."""
    tables = open_tables(run)
    numbers = shown(tables)
    assert numbers == list(range(len(numbers)))
    assert packed <= len(numbers) <= packed + may_have_one_more
    assert tables.damages == []
    return len(numbers)


# Before chosen lines of the code.


def drain_once(run: Path) -> None:
    """A recorder that seals what there is, merging small parts when there are many."""
    Drain(run, AT_ONCE).tick()


def test_recorder_killed_at_a_hundred_lines_while_the_engine_lives(tmp_path: Path) -> None:
    """One run, whose writer lives on: each recorder is killed a little later in its work than the one before it."""
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], RING_MB)
    append_slices(producer, range(packed := 20))
    lines = lines_of(tmp_path, drain_once, run)
    kills = 0
    for line in range(0, lines, lines // 100):
        append_slices(producer, range(packed, packed := packed + 5))
        kills += killed_at(line, drain_once, run)
        check_whole(run, packed)
    assert kills >= 100
    assert producer.drops == 0


def live_and_close(run: Path, counter_path: Path) -> None:
    """Engine and recorder in one process: two producers, parts enough to be merged, and the run closed in order."""
    counter = Counter(counter_path)
    producers = [RingProducer(run, f"worker{number}", ["slices"], SMALL_RING_MB) for number in range(2)]
    drain = Drain(run, AT_ONCE)
    for number in range(12):
        assert producers[number % 2].append("slices", *slice_values(number))
        counter.value = number + 1
        if number % 4 == 3:
            drain.tick()
    for producer in producers:
        producer.close()
    assert drain.close()


def test_engine_and_recorder_killed_together_at_a_hundred_lines(tmp_path: Path) -> None:
    """A run each; whatever line it was, the next recorder closes the run with everything in it."""
    kills = 0
    lines = lines_of(tmp_path, live_and_close, new_run(tmp_path), tmp_path / "packed")
    for line in range(0, lines, lines // 100):
        run = new_run(tmp_path)
        counter = Counter(run / "packed")
        kills += killed_at(line, live_and_close, run, run / "packed")
        packed = check_whole(run, counter.value, may_have_one_more=True)
        if load_info(run).state == "recording":
            assert Drain(run, AT_ONCE).close()
            check_whole(run, packed)
        assert not list(run.rglob("*.tmp"))
        assert run_state(run) == "sealed"
    assert kills >= 100


def write_some(run: Path, counter_path: Path) -> None:
    """A worker that goes on after the number in the counter, through a ring that wraps."""
    counter = Counter(counter_path)
    producer = RingProducer(run, "worker0", ["slices"], SMALL_RING_MB)
    for number in range(counter.value, counter.value + 30):
        assert producer.append("slices", *slice_values(number))
        counter.value = number + 1


def test_engine_killed_at_fifty_lines_while_the_recorder_lives(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    counter = Counter(tmp_path / "packed")
    drain = Drain(run, AT_ONCE)
    lines = lines_of(tmp_path, write_some, run, tmp_path / "packed")
    kills = 0
    for line in range(0, lines, lines // 50):
        drain.tick()
        kills += killed_at(line, write_some, run, tmp_path / "packed")
        counter.value = check_whole(run, counter.value, may_have_one_more=True)
    assert kills >= 50
    assert drain.close()
    check_whole(run, counter.value)


# After random numbers of records, while all of them run.


class Scene:
    """One run, its writer and its recorder, each started again after it was killed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.run = new_run(folder, seal_interval_s=0.02, sample_interval_s=0.05)
        self.counter_path = folder / "counter"
        self.counter = Counter(self.counter_path)
        self.stack = stack
        self.chance = random.Random(20)

    def start_writer(self) -> BaseProcess:
        self.counter.value = check_whole(self.run, self.counter.value, may_have_one_more=True)
        writer = start_writer(self.run, self.counter_path, RING_MB)
        self.stack.callback(writer.kill)
        self.await_records(1)
        return writer

    def start_recorder(self) -> BaseProcess:
        process, parent = start_recorder(self.run)
        self.stack.callback(process.kill)
        self.stack.enter_context(parent)
        until(lambda: is_locked(lock_path(self.run)), "the recorder holds the lock")
        return process

    def await_records(self, count: int) -> None:
        wanted = self.counter.value + count
        until(lambda: self.counter.value >= wanted, "the writer writes")

    def live(self) -> None:
        """Let it run for a random number of records: a recorder seals and frees the ring several times in it."""
        self.await_records(self.chance.randrange(1, 900))

    def check(self) -> None:
        """Everything packed until now is there, once, in the right numbers, also while more is being written."""
        packed = self.counter.value
        tables = open_tables(self.run)
        numbers = shown(tables)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= packed
        assert tables.damages == []


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path, stack)


def close(scene: Scene) -> None:
    """A last recorder finds what the dead have left, and closes the run in order."""
    process, parent = start_recorder(scene.run)
    parent.close()
    process.join(60)
    assert process.exitcode == 0
    assert run_state(scene.run) == "sealed"
    assert list((scene.run / "rings").iterdir()) == []
    scene.check()


def test_writer_killed_at_random(scene: Scene) -> None:
    scene.start_recorder()
    for _ in range(RANDOM_KILLS):
        writer = scene.start_writer()
        scene.live()
        scene.check()
        kill(writer)
        scene.check()
    assert run_state(scene.run) == "recording"


def test_recorder_killed_at_random(scene: Scene) -> None:
    writer = scene.start_writer()
    for _ in range(RANDOM_KILLS):
        recorder = scene.start_recorder()
        scene.live()
        kill(recorder)
        scene.check()
        assert run_state(scene.run) == "killed"
    kill(writer)
    close(scene)


def test_both_killed_at_random(scene: Scene) -> None:
    for _ in range(RANDOM_KILLS):
        recorder, writer = scene.start_recorder(), scene.start_writer()
        scene.live()
        for process in scene.chance.sample([recorder, writer], 2):
            process.kill()
        recorder.join(60)
        writer.join(60)
        scene.check()
    close(scene)


def bytes_of(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def test_a_killed_run_is_read_as_it_is(scene: Scene) -> None:
    """No repair: whoever opens it changes nothing, twice in a row, and sees the same. (How fast: bench_reopen.)"""
    recorder, writer = scene.start_recorder(), scene.start_writer()
    scene.live()
    kill(recorder)
    kill(writer)
    before = bytes_of(scene.run)
    first, second = shown(open_tables(scene.run)), shown(open_tables(scene.run))
    assert first == second
    assert bytes_of(scene.run) == before
    assert run_state(scene.run) == "killed"
