"""Runs of older schemas: kept as they were written then, and read by today's code."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from console.report import report
from console.session import Session
from recorder.__main__ import main
from recorder.check import check
from recorder.drain import Drain, RecordSettings
from recorder.losses import Gap
from recorder.producer import RingProducer
from recorder.run import RunError, load_info
from recorder.schema import SCHEMA_VERSION, TABLES
from recorder.tables import open_tables

KEPT = Path(__file__).parent / "runs"
MS = 10**6


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A killed run of schema 1: two steps and a request in parts, a third step and the request's end in rings."""
    return Path(shutil.copytree(KEPT / "schema1", tmp_path / "schema1"))


def test_each_older_schema_has_a_run_to_be_read() -> None:
    kept = {load_info(run).schema_version for run in KEPT.iterdir()}
    assert kept == set(range(1, SCHEMA_VERSION))


def test_rows_in_parts_and_rings_of_schema_1_are_read(run: Path) -> None:
    tables = open_tables(run)
    assert tables.damages == []
    assert tables.table("slices")["computed_before"].to_pylist() == [0, 8, 9]
    assert tables.table("steps")["t_done"].to_pylist() == [8 * MS, 18 * MS, 28 * MS]
    requests = tables.table("requests").select(["request_id", "status", "output_tokens"]).to_pylist()
    assert [tuple(row.values()) for row in requests] == [("first", "ok", 3), ("second", "open", None)]
    for name in TABLES:
        assert tables.table(name).schema.equals(TABLES[name].arrow)


def test_what_schema_1_did_not_tell_is_unknown(run: Path) -> None:
    tables = open_tables(run)
    assert tables.table("recorder")["lost_from"].null_count == tables.table("recorder").num_rows == 5
    assert tables.gaps == [Gap("worker0", "slices", 2, 3, None, 15 * MS)]


def test_console_and_checks_work_on_schema_1(run: Path) -> None:
    with Session(run) as session:
        told = report(session)
        assert session.query("SELECT count(lost_until) AS n FROM recorder")["n"].to_pylist() == [0]
        # The gap began at a time that nobody wrote down, and ended before the second request came.
        assert session.query("SELECT rid FROM latency WHERE incomplete")["rid"].to_pylist() == [1]
    assert told["requests"]["total"] == 2
    assert told["e2e_ms"]["p50"] == 29.0
    assert [found.name for found in check(open_tables(run)) if not found.ok] == ["spans tile"]  # it has no spans


def test_a_run_of_schema_2_does_not_tell_which_prompts_begin_alike(tmp_path: Path) -> None:
    """A request in parts, another and its tokenising in rings."""
    tables = open_tables(Path(shutil.copytree(KEPT / "schema2", tmp_path / "schema2")))
    assert tables.damages == []
    requests = tables.table("requests").select(["request_id", "status", "cached_tokens", "prefix_of", "prefix_tokens"])
    assert [tuple(row.values()) for row in requests.to_pylist()] == [
        ("first", "ok", 4, None, None),
        ("second", "open", None, None, None),
    ]
    assert tables.table("stalls")["rid"].to_pylist() == [2]


@pytest.mark.parametrize(
    "add",
    [
        lambda run: RingProducer(run, "worker1", ["slices"]),
        lambda run: Drain(run, RecordSettings()),
    ],
)
def test_nothing_is_added_to_it(run: Path, add: Callable[[Path], object]) -> None:
    with pytest.raises(RunError, match=r"was written by schema 1: it can be read as it is"):
        add(run)


def test_the_recorder_refuses_it_with_words(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run)]) == 2
    assert "was written by schema 1: it can be read as it is" in capsys.readouterr().err
    assert len(list((run / "rings").iterdir())) == 5
