"""SIGKILL at any instant: what was packed is read exactly once, by every later reader, without repair (DESIGN 5)."""

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from recorder.run import is_locked, lock_path, run_state
from recorder.tables import open_tables
from tests.recorder.processes import Counter, recorder_process, start_writer, until
from tests.recorder.rows import new_run, shown

KILLS = 12
RING_MB = 0.05
"""About 700 slices: the ring wraps and fills many times in a second."""


class Scene:
    """One run, its writer and its recorder, each started again after it was killed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.run = new_run(folder, seal_interval_s=0.05, sample_interval_s=0.05)
        self.counter_path = folder / "counter"
        self.counter = Counter(self.counter_path)
        self.stack = stack
        self.chance = random.Random(20)

    def start_writer(self) -> subprocess.Popen[bytes]:
        self.sync_counter()
        before = self.counter.value
        writer = start_writer(self.run, self.counter_path, RING_MB)
        self.stack.callback(writer.wait)
        self.stack.callback(writer.kill)
        until(lambda: self.counter.value > before or writer.poll() is not None, "the writer writes")
        assert writer.poll() is None
        return writer

    def start_recorder(self) -> subprocess.Popen[bytes]:
        process, _ = self.stack.enter_context(recorder_process(self.run))
        until(lambda: is_locked(lock_path(self.run)), "the recorder holds the lock")
        return process

    def sync_counter(self) -> None:
        """A record may have been packed just before the kill that kept the counter from moving."""
        numbers = shown(open_tables(self.run))
        assert self.counter.value <= len(numbers) <= self.counter.value + 1
        self.counter.value = len(numbers)

    def wait_a_little(self) -> None:
        time.sleep(self.chance.uniform(0, 0.2))

    def check(self) -> None:
        """Everything packed is there, once, in the right numbers, and nothing else."""
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


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def close(scene: Scene) -> None:
    """A last recorder finds what the dead have left, and closes the run in order."""
    process, let_go = scene.stack.enter_context(recorder_process(scene.run))
    let_go()
    assert process.wait(60) == 0
    assert run_state(scene.run) == "sealed"
    assert list((scene.run / "rings").iterdir()) == []
    scene.check()


def test_writer_killed(scene: Scene) -> None:
    scene.start_recorder()
    for _ in range(KILLS):
        writer = scene.start_writer()
        scene.wait_a_little()
        scene.check()
        kill(writer)
        scene.check()
    assert run_state(scene.run) == "recording"


def test_recorder_killed(scene: Scene) -> None:
    writer = scene.start_writer()
    for _ in range(KILLS):
        recorder = scene.start_recorder()
        before = scene.counter.value
        until(lambda before=before: scene.counter.value > before, "a full ring is drained again")  # type: ignore[misc]
        scene.wait_a_little()
        kill(recorder)
        scene.check()
        assert run_state(scene.run) == "killed"
    kill(writer)
    close(scene)


def test_both_killed_at_once(scene: Scene) -> None:
    for _ in range(KILLS):
        recorder, writer = scene.start_recorder(), scene.start_writer()
        scene.wait_a_little()
        for process in scene.chance.sample([recorder, writer], 2):
            process.kill()
        recorder.wait()
        writer.wait()
        scene.check()
    close(scene)
