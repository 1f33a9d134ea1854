"""Retention: the decision on random runs, and the removal with real locks and real kills."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.catalogue import Entry, catalogue
from recorder.producer import PartProducer, RingProducer
from recorder.retention import STARTING_NS, Policy, decide, may_be_in_use, remnants, remove, sweep
from recorder.run import RunError, finish, info_path, lock_path, rings_dir
from tests.recorder.processes import new_name, recorder_process, until
from tests.recorder.rows import append_slices, new_run

NOW = 10**6 * STARTING_NS
ages = st.integers(0, 20).map(lambda tenths: tenths * STARTING_NS // 10)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """A run of few distinct ages and sizes, so that ties are common."""
    age, duration = draw(ages), draw(ages)
    return Entry(
        where="",
        name=new_name(),
        state=draw(st.sampled_from(("sealed", "recording", "killed"))),
        created_ns=NOW - age - duration,
        ended_ns=NOW - age,
        duration_ns=duration,
        size_bytes=draw(st.integers(0, 5)),
        requests={},
        drops=0,
    )


policies = st.builds(Policy, st.none() | ages, st.none() | st.integers(0, 30))
runs_of = st.lists(entries(), max_size=12)


@given(runs_of, policies)
def test_what_goes_is_what_the_policy_says(runs: list[Entry], policy: Policy) -> None:
    going = decide(runs, NOW, policy)
    gone = [one.run for one in going]
    stays = [run for run in runs if run not in gone]
    free = [run for run in stays if not may_be_in_use(run, NOW)]

    assert len({run.name for run in gone}) == len(gone)
    assert not any(may_be_in_use(run, NOW) for run in gone)
    assert [run.ended_ns for run in gone] == sorted(run.ended_ns for run in gone), "oldest first"
    assert not gone or not free or max(run.ended_ns for run in gone) <= min(run.ended_ns for run in free)
    if policy.keep_ns is not None:
        assert all(NOW - run.ended_ns <= policy.keep_ns for run in free)
    size = sum(run.size_bytes for run in stays)
    if policy.max_bytes is not None:
        assert size <= policy.max_bytes or not free, "all that may go goes before the size is exceeded"


@given(runs_of, policies)
def test_nothing_goes_without_need(runs: list[Entry], policy: Policy) -> None:
    left = sum(run.size_bytes for run in runs)
    for one in decide(runs, NOW, policy):
        if one.reason == "age":
            assert policy.keep_ns is not None
            assert NOW - one.run.ended_ns > policy.keep_ns
        else:
            assert policy.max_bytes is not None
            assert left > policy.max_bytes, "the runs before it were not enough"
        left -= one.run.size_bytes


@given(runs_of, policies, st.randoms())
def test_the_order_of_the_runs_does_not_matter(runs: list[Entry], policy: Policy, random: object) -> None:
    shuffled = list(runs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert decide(runs, NOW, policy) == decide(shuffled, NOW, policy)


@given(runs_of)
def test_no_limits_no_losses(runs: list[Entry]) -> None:
    assert decide(runs, NOW, Policy()) == []


def sealed(folder: Path) -> Path:
    run = new_run(folder)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(10))
    producer.close()
    finish(run)
    return run


def test_a_run_is_gone_after_its_removal(tmp_path: Path) -> None:
    run, other = sealed(tmp_path), sealed(tmp_path)
    remove(run)
    assert list(tmp_path.iterdir()) == [other]


def test_a_run_with_a_living_recorder_stays(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with recorder_process(run):
        until(lambda: catalogue(tmp_path).runs[0].state == "recording", "the recorder to start")
        with pytest.raises(RunError, match="in use"):
            remove(run)
    assert run.exists()


def test_a_run_whose_recorder_died_stays_while_its_writer_lives(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    writer = RingProducer(run, "worker0", ["slices"], 0.01)
    assert catalogue(tmp_path).runs[0].state == "killed"
    with pytest.raises(RunError, match="in use"):
        remove(run)
    writer.close()
    remove(run)
    assert not run.exists()


def test_parts_being_written_keep_a_run(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "import", ["slices"])
    with pytest.raises(RunError, match="in use"):
        remove(run)
    producer.close()
    remove(run)


def test_a_link_to_a_run_is_left_alone(tmp_path: Path) -> None:
    run = sealed(tmp_path / "elsewhere")
    link = tmp_path / "link"
    link.symlink_to(run)
    with pytest.raises(RunError, match="is a link"):
        remove(link)
    assert run.exists()


def test_a_recorder_that_waits_for_the_lock_of_a_run_being_removed_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read `run.json` and has the lock's file open when the run is moved aside and deleted."""
    run = new_run(tmp_path)
    waiting: list[subprocess.Popen[str]] = []

    def has_lock_open(pid: int) -> bool:
        with suppress(FileNotFoundError):  # closed since it was listed
            return any(path.readlink() == lock_path(run) for path in Path(f"/proc/{pid}/fd").iterdir())
        return False

    def once_it_waits(run: Path) -> Path:
        process = subprocess.Popen([sys.executable, "-m", "recorder", str(run)], stderr=subprocess.PIPE, text=True)
        waiting.append(process)
        until(lambda: has_lock_open(process.pid) or process.poll() is not None, "the recorder to open the lock")
        return rings_dir(run)

    monkeypatch.setattr("recorder.retention.rings_dir", once_it_waits)
    remove(run)
    _, said = waiting[0].communicate()
    assert waiting[0].returncode == 2
    assert said.count("\n") == 1, said
    assert list(tmp_path.iterdir()) == []


KILLED_AT = """
import os, shutil, signal, sys
from pathlib import Path
from recorder import retention
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
point = sys.argv[2]
if point == "renamed": retention._delete = die
if point == "without info": shutil.rmtree = die
if point == "half deleted":
    unlink, calls = os.unlink, []
    def some(*args, **options):
        calls.append(args)
        if len(calls) > 2: die()
        unlink(*args, **options)
    os.unlink = some
retention.remove(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("point", ["renamed", "without info", "half deleted"])
def test_a_removal_killed_in_the_middle_leaves_nothing_that_looks_like_a_run(tmp_path: Path, point: str) -> None:
    run, other = sealed(tmp_path), sealed(tmp_path)
    process = subprocess.run([sys.executable, "-c", KILLED_AT, str(run), point], check=False, env=dict(os.environ))
    assert process.returncode == -signal.SIGKILL
    (remnant,) = remnants(tmp_path)
    assert info_path(remnant).exists() == (point == "renamed"), "what makes a run goes first"
    found = catalogue(tmp_path)
    assert [entry.name for entry in found.runs] == [other.name]
    assert found.skipped == ()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [other]
