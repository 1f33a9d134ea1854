"""The recorder as the process it is: signals, the end of its parent, what it refuses."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.__main__ import main
from recorder.parts import all_parts
from recorder.producer import PartProducer, RingProducer
from recorder.run import RunError, finish, is_locked, lock_path, run_state
from recorder.tables import open_tables
from tests.recorder.processes import Counter, recorder_process, start_writer, until
from tests.recorder.rows import append_slices, new_run, shown

Started = tuple[subprocess.Popen[bytes], Callable[[], None]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return new_run(tmp_path, seal_interval_s=0.05, sample_interval_s=0.05)


@pytest.fixture
def recorder(run: Path) -> Iterator[Started]:
    with recorder_process(run) as started:
        until(lambda: is_locked(lock_path(run)), "the recorder holds the lock")
        yield started


def ends_of(files: list[Path]) -> int:
    """How many records these parts hold, if there is no gap: where the last one ends."""
    return max((int(path.stem.split("-")[-1]) for path in files), default=0)


def packed(run: Path, count: int) -> None:
    producer = RingProducer(run, "worker0", ["slices"], 0.1)
    append_slices(producer, range(count))
    producer.close()


def is_sealed_up_to(run: Path, last: int) -> bool:
    return any(part.last == last for part in all_parts(run, "slices"))


def test_end_of_the_parent_closes_the_run(run: Path, recorder: Started) -> None:
    process, let_go = recorder
    assert run_state(run) == "recording"
    packed(run, 100)
    let_go()
    assert process.wait(60) == 0
    assert run_state(run) == "sealed"
    assert shown(open_tables(run)) == list(range(100))


def test_sigterm_closes_the_run_and_a_second_one_does_no_harm(run: Path, recorder: Started) -> None:
    process, _ = recorder
    packed(run, 100)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert run_state(run) == "sealed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_of_the_terminal_are_left_to_the_parent(run: Path, recorder: Started, number: int) -> None:
    process, let_go = recorder
    until((run / "rings" / "recorder.samples.ring").exists, "the recorder is at work")
    process.send_signal(number)
    packed(run, 100)
    until(lambda: is_sealed_up_to(run, 100), "records are sealed")
    assert process.poll() is None
    let_go()
    assert process.wait(60) == 0


def test_host_is_sampled_and_the_writers_too(run: Path, recorder: Started) -> None:
    producer = RingProducer(run, "worker0", ["slices"], 0.1)

    def seen() -> set[tuple[str, str]]:
        samples = open_tables(run).table("samples")
        return set(zip(samples["source"].to_pylist(), samples["name"].to_pylist(), strict=True))

    until(lambda: ("worker", "cpu_percent") in seen(), "the writer is sampled")
    assert {("host", "cpu_percent"), ("host", "memory_used_bytes"), ("recorder", "memory_bytes")} <= seen()
    producer.close()


def test_a_run_has_one_recorder(run: Path, recorder: Started) -> None:
    until((run / "rings" / "recorder.samples.ring").exists, "the recorder is at work")
    second = subprocess.run([sys.executable, "-m", "recorder", str(run)], capture_output=True, check=False)
    assert second.returncode == 2
    assert b"is being written by another process" in second.stderr
    assert b"Traceback" not in second.stderr
    with pytest.raises(RunError, match="is being written by a recorder process"):
        PartProducer(run, "worker0", ["slices"])


def test_live_reader_sees_everything_once_all_the_time(run: Path, recorder: Started, tmp_path: Path) -> None:
    """Ring of 700 slots: while the reader looks, slots are sealed, freed and overwritten (SPEC F8)."""
    counter = Counter(tmp_path / "counter")
    writer = start_writer(run, tmp_path / "counter", 0.05)
    try:
        until(lambda: counter.value > 0, "the writer writes")
        for _ in range(150):
            before = counter.value
            tables = open_tables(run)
            assert tables.damages == []
            assert tables.tail("slices").num_rows + ends_of(tables.part_files("slices")) >= before
        numbers = shown(open_tables(run))
        assert numbers == list(range(len(numbers)))
    finally:
        writer.kill()
        writer.wait()


def test_without_a_parent_a_dead_run_is_closed(run: Path) -> None:
    packed(run, 100)
    result = subprocess.run([sys.executable, "-m", "recorder", str(run)], check=False, timeout=60)
    assert result.returncode == 0
    assert run_state(run) == "sealed"
    assert shown(open_tables(run)) == list(range(100))


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "is no run" in capsys.readouterr().err


def test_sealed_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(run)
    assert main([str(run)]) == 2
    assert "is sealed already: nothing is left to do" in capsys.readouterr().err
