"""Priorities and deadlines of a workload file reach the scheduler of a simulation."""

import json
from pathlib import Path

from engine.config import from_dict
from engine.simulate.run import prepare, record_workload, simulate_workload
from recorder.check import check
from recorder.run import load_info
from recorder.schema import code
from recorder.tables import open_tables
from recorder.words import Status

MS = 1_000_000


def workload(folder: Path, *terms: dict[str, object]) -> str:
    """One that runs for long, and after it one for each of `terms`."""
    first = {"arrival_s": 0, "prompt_tokens": 8, "max_tokens": 100}
    rest = [{"arrival_s": 0.1, "prompt_tokens": 8, "max_tokens": 2, **more} for more in terms]
    path = folder / "workload.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in [first, *rest]))
    return str(path)


def test_a_deadline_of_a_workload_is_lived_through_pass_by_pass(tmp_path: Path) -> None:
    """Jumps know nothing of deadlines, so a workload that has any is not jumped over."""
    config = from_dict({"scheduler": {"max_num_seqs": 1}}, "test")
    setup, asked = prepare(workload(tmp_path, {"deadline_ms": 50}, {}), config)
    expected = [code(Status.OK), code(Status.EXPIRED), code(Status.OK)]
    assert list(simulate_workload(setup, asked).status) == expected
    record_workload(setup, asked, tmp_path / "run")
    assert load_info(tmp_path / "run").workload["by"] == "passes"
    tables = open_tables(tmp_path / "run")
    assert [made for made in check(tables) if not made.ok] == []
    rows = tables.table("requests").to_pylist()
    assert [row["deadline"] for row in rows] == [None, 150 * MS, None]


def test_a_priority_of_a_workload_is_heeded(tmp_path: Path) -> None:
    config = from_dict({"scheduler": {"max_num_seqs": 1, "order": "priority"}}, "test")
    setup, asked = prepare(workload(tmp_path, {"priority": 3}, {"priority": 1}), config)
    started = simulate_workload(setup, asked).first_scheduled
    assert started[0] < started[2] < started[1]
