"""What the product ships in `traces/`: recorded runs that open anywhere, and workloads that can be sent."""

from pathlib import Path

import pytest

from console.compare import compare
from console.session import Session
from engine.load.workload import read_workload
from recorder.check import check
from recorder.run import run_state
from recorder.tables import open_tables

TRACES = Path(__file__).parent.parent / "traces"
RUNS = [TRACES / "immediate", TRACES / "continuous"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_shipped_run_is_sealed_and_adds_up(run: Path) -> None:
    assert run_state(run) == "sealed"
    assert [found for found in check(open_tables(run)) if not found.ok] == []


def test_the_two_runs_are_of_the_same_requests_and_small() -> None:
    with Session(RUNS[0]) as a, Session(RUNS[1]) as b:
        paired = compare(a, b)["paired"]
        assert paired is not None
        assert paired["pairs"] == a.connect().sql("SELECT count(*) FROM requests").fetchall()[0][0]
    assert sum(file.stat().st_size for run in RUNS for file in run.rglob("*") if file.is_file()) < 2 * 2**20


@pytest.mark.parametrize("file", sorted((TRACES / "workloads").glob("*.jsonl")), ids=lambda file: file.stem)
def test_a_shipped_workload_can_be_read(file: Path) -> None:
    assert read_workload(file)
