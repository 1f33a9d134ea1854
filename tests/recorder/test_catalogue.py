"""The catalogue: what it says of each kind of folder, and that it opens no table that it does not need."""

import fcntl
from pathlib import Path

import pytest

from recorder.catalogue import Catalogue, Entry, catalogue, describe
from recorder.drain import Drain, RecordSettings
from recorder.errors import UserError
from recorder.parts import all_parts
from recorder.producer import PartProducer, RingProducer
from recorder.run import (
    ClockAnchor,
    RunInfo,
    create_run,
    finish,
    hold_lock,
    info_path,
    load_info,
    lock_path,
    save_info,
)
from recorder.tables import RunTables, open_tables
from recorder.words import Status
from tests.recorder.rows import append_slices

MINUTE = 60 * 10**9
START = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


def new(folder: Path, name: str, created: str = "2026-01-01T00:00:00+00:00") -> Path:
    return create_run(folder, RunInfo(run_id=name, created=created, clock=ClockAnchor(mono_ns=1000)))


def write(run: Path, *, seal: bool = True) -> None:
    """Four requests, the last of them open; the last instant is a minute after the run's beginning."""
    producer = PartProducer(run, "frontend", ["requests", "recorder"])
    for rid, status in enumerate((Status.OK, Status.OK, Status.REJECTED), start=1):
        producer.row("requests", rid=rid, attempt=1, arrival=2000, status=Status.OPEN)
        producer.row("requests", rid=rid, attempt=1, arrival=2000, returned=3000, status=status)
    producer.row("requests", rid=4, attempt=1, arrival=2500, status=Status.OPEN)
    producer.row("recorder", t=1000 + MINUTE, producer="worker0", table_name="steps", drops=3)
    producer.row("recorder", t=1900, producer="worker0", table_name="steps", drops=1)
    producer.row("recorder", t=1900, producer="worker0", table_name="slices", drops=2)
    producer.close()
    if seal:
        finish(run)


def one(found: Catalogue) -> Entry:
    (entry,) = found.runs
    return entry


def test_a_sealed_run_is_described(tmp_path: Path) -> None:
    run = new(tmp_path, "one")
    write(run)
    assert one(catalogue(tmp_path)) == Entry(
        where=str(run),
        name="one",
        state="sealed",
        created_ns=START,
        ended_ns=START + MINUTE,
        duration_ns=MINUTE,
        size_bytes=sum(path.stat().st_size for path in run.rglob("*") if path.is_file()),
        requests={"open": 1, "ok": 2, "rejected": 1},
        drops=5,
    )


def test_the_newest_comes_first_and_the_state_follows_the_lock(tmp_path: Path) -> None:
    for name, created in (("a", "2026-01-02T00:00:00Z"), ("b", "2026-01-03T00:00:00Z"), ("c", "2026-01-01T00:00:00")):
        new(tmp_path, name, created)
    finish(tmp_path / "a")
    with hold_lock(lock_path(tmp_path / "c"), fcntl.LOCK_EX):
        found = catalogue(str(tmp_path))
    assert [(run.name, run.state) for run in found.runs] == [("b", "killed"), ("a", "sealed"), ("c", "recording")]


def test_an_empty_run_has_nothing_to_count(tmp_path: Path) -> None:
    entry = describe(new(tmp_path, "empty"))
    assert (entry.duration_ns, entry.requests, entry.drops, entry.damages) == (0, {}, 0, ())


def test_a_virtual_run_ended_when_it_was_made(tmp_path: Path) -> None:
    run = create_run(tmp_path, RunInfo(run_id="v", created="2026-01-01T00:00:00Z", clock=ClockAnchor(kind="virtual")))
    write(run)
    entry = describe(run)
    assert (entry.ended_ns, entry.duration_ns) == (START, MINUTE + 1000)


def test_what_is_still_in_rings_counts_and_so_do_drops_that_only_a_ring_knows(tmp_path: Path) -> None:
    run = new(tmp_path, "killed")
    write(run, seal=False)
    frontend = RingProducer(run, "frontend", ["requests"], 0.01)
    frontend.row("requests", rid=4, attempt=1, arrival=2500, returned=1000 + 2 * MINUTE, status=Status.FAILED)
    worker = RingProducer(run, "worker0", ["slices"], 0.001)
    while worker.append("slices", *range(8)):
        pass
    append = worker.appender("slices")
    assert not any(append(*range(8)) for _ in range(9))
    frontend.close()
    worker.close()
    entry = describe(run)
    assert entry.requests == {"ok": 2, "rejected": 1, "failed": 1}
    assert entry.duration_ns == 2 * MINUTE
    assert entry.drops == 3 + 10
    Drain(run, RecordSettings()).close()
    assert (describe(run).state, describe(run).requests, describe(run).drops) == ("sealed", entry.requests, entry.drops)


def test_other_folders_are_skipped_by_name(tmp_path: Path) -> None:
    new(tmp_path, "sound")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "file.txt").touch()
    (tmp_path / ".pruned-half-ab12").mkdir()
    info_path(new(tmp_path, "damaged")).write_bytes(b"{")
    timeless = new(tmp_path, "timeless")
    info = load_info(timeless)
    info.created = "yesterday"
    save_info(timeless, info)
    newer = new(tmp_path, "newer")
    info = load_info(newer)
    info.schema_version = 99
    save_info(newer, info)
    found = catalogue(tmp_path)
    assert [run.name for run in found.runs] == ["sound"]
    assert {skipped.name: skipped.foreign for skipped in found.skipped} == {
        "foreign": True,
        "damaged": False,
        "newer": False,
        "timeless": False,
    }
    why = {skipped.name: skipped.why for skipped in found.skipped}
    assert "no run.json" in why["foreign"]
    assert "is damaged" in why["damaged"]
    assert "schema 99" in why["newer"]
    assert "'yesterday', which is no time" in why["timeless"]


def test_a_damaged_part_is_named_and_the_rest_counted(tmp_path: Path) -> None:
    run = new(tmp_path, "hurt")
    write(run)
    (part,) = all_parts(run, "requests")
    part.path.write_bytes(part.path.read_bytes()[:-20])
    entry = describe(run)
    assert (entry.requests, entry.drops) == ({}, 5)
    assert part.path.name in entry.damages[0]


def test_a_damaged_ring_is_named(tmp_path: Path) -> None:
    run = new(tmp_path, "hurt")
    RingProducer(run, "worker0", ["steps"], 0.01).close()
    ring = run / "rings" / "worker0.steps.ring"
    ring.write_bytes(b"\0" * 64 + ring.read_bytes()[64:])
    (run / "rings" / "worker0.nonsense.ring").touch()
    damages = describe(run).damages
    assert [damage.split(":")[0] for damage in damages] == ["rings/worker0.nonsense.ring", "rings/worker0.steps.ring"]


def test_a_missing_place_and_a_run_instead_of_a_folder_are_refused(tmp_path: Path) -> None:
    run = new(tmp_path, "one")
    with pytest.raises(UserError, match=r"can't be listed: No such file or directory"):
        catalogue(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is a run itself"):
        catalogue(run)


def test_large_tables_are_not_looked_at(tmp_path: Path) -> None:
    """Told by damage in one of them, which whoever opens the run in full is told."""
    run = new(tmp_path, "large")
    write(run, seal=False)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(100))
    producer.close()
    (part,) = all_parts(run, "slices")
    part.path.write_bytes(part.path.read_bytes()[:-20])
    assert describe(run).damages == ()
    assert [damage.file for damage in open_tables(run).damages] == [f"slices/{part.path.name}"]


def test_few_columns_are_all_that_is_read_of_a_table(tmp_path: Path) -> None:
    run = new(tmp_path, "columns")
    write(run, seal=False)
    ring = RingProducer(run, "worker0", ["requests"], 0.01)
    ring.row("requests", rid=9, attempt=1, arrival=1, status=Status.OK)
    ring.close()
    tables = RunTables(run, load_info(run), ["requests"])
    rows = tables.columns("requests", "status", "rid")
    assert rows.column_names == ["rid", "status"]
    assert sorted(rows["rid"].to_pylist()) == [1, 1, 2, 2, 3, 3, 4, 9]
    with pytest.raises(KeyError):
        tables.table("steps")


def test_columns_of_parts_that_a_merge_replaced_are_found_again(tmp_path: Path) -> None:
    run = new(tmp_path, "merged")
    write(run, seal=False)
    write(run, seal=False)
    tables = RunTables(run, load_info(run), ["requests"])
    Drain(run, RecordSettings()).close()
    assert len(all_parts(run, "requests")) == 1
    assert tables.columns("requests", "rid").num_rows == 14
