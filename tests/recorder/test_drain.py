"""The recorder's work inside one process: when it seals, what it tells, and a crash at every step it takes."""

from pathlib import Path

import pytest

from recorder import drain as drain_module
from recorder.drain import Drain, RecordSettings
from recorder.parts import all_parts, outermost
from recorder.producer import RingProducer
from recorder.ring import HEADER_BYTES
from recorder.run import load_info, ring_path, run_state
from recorder.schema import SLICES
from recorder.tables import open_tables
from tests.recorder.rows import append_slices, new_run, shown, slice_values

AT_ONCE = RecordSettings(seal_interval_s=0)
SLOTS = 201
RING_MB = SLOTS * SLICES.dtype.itemsize / 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_run(tmp_path)


def producer_of(folder: Path, name: str = "worker0") -> RingProducer:
    return RingProducer(folder, name, ["slices"], RING_MB)


def sealed(folder: Path) -> int:
    return max((part.last for part in all_parts(folder, "slices")), default=0)


def test_few_records_wait_for_the_interval(folder: Path) -> None:
    producer = producer_of(folder)
    drain = Drain(folder, RecordSettings(seal_interval_s=3600))
    append_slices(producer, range(SLOTS // 2))
    drain.tick()
    assert sealed(folder) == 0
    append_slices(producer, range(SLOTS // 2, SLOTS // 2 + 1))
    drain.tick()
    assert sealed(folder) == SLOTS // 2 + 1


def test_interval_seals_whatever_there_is(folder: Path) -> None:
    producer = producer_of(folder)
    drain = Drain(folder, AT_ONCE)
    append_slices(producer, range(1))
    drain.tick()
    assert sealed(folder) == 1
    drain.tick()
    assert len(all_parts(folder, "slices")) == 1


def test_sealed_slots_are_free_again(folder: Path) -> None:
    producer, drain = producer_of(folder), Drain(folder, AT_ONCE)
    for first in range(0, 10 * SLOTS, SLOTS):
        append_slices(producer, range(first, first + SLOTS))
        drain.tick()
    assert shown(open_tables(folder)) == list(range(10 * SLOTS))
    assert producer.drops == 0


def test_producers_that_come_later_are_found(folder: Path) -> None:
    drain = Drain(folder, AT_ONCE)
    drain.tick()
    append_slices(producer_of(folder), range(5))
    drain.tick()
    assert sealed(folder) == 5
    assert set(drain.writers()) == {"worker0", "recorder"}


def test_many_small_parts_become_one_while_the_run_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "_GRACE_NS", 0)
    producer, drain = producer_of(folder), Drain(folder, AT_ONCE)
    for number in range(100):
        append_slices(producer, range(number, number + 1))
        drain.tick()
        assert len(outermost(all_parts(folder, "slices"))) <= 32
    drain.tick()
    assert len(all_parts(folder, "slices")) <= 33
    assert shown(open_tables(folder)) == list(range(100))


def test_health_tells_events_drops_gaps_and_bytes(folder: Path) -> None:
    """SPEC F8: every loss is a row, and the totals are there without adding them up."""
    producer, drain = producer_of(folder), Drain(folder, AT_ONCE)
    for number in range(SLOTS + 7):
        producer.append("slices", *slice_values(number))
    drain.tick()
    append_slices(producer, range(3))
    drain.tick()
    rows = [row for row in open_tables(folder).table("recorder").to_pylist() if row["producer"] == "worker0"]
    assert [(row["events"], row["lost"], row["drops"]) for row in rows] == [
        (SLOTS, 0, 7),
        (SLOTS, 7, 7),
        (SLOTS + 3, 0, 7),
    ]
    assert rows[0]["table_name"] == "slices"
    assert 0 < rows[0]["bytes"] < rows[-1]["bytes"]
    assert 0 < rows[0]["durable"] <= rows[0]["t"]
    assert rows[-1]["append_ns"] > 0


def test_disk_that_refuses_is_told_once_and_asked_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    producer, drain = producer_of(folder), Drain(folder, AT_ONCE)
    (folder / "slices").touch()
    append_slices(producer, range(50))
    for _ in range(3):
        drain.tick()
    assert shown_from_ring(folder) == list(range(50))
    (folder / "slices").unlink()
    append_slices(producer, range(50, 60))
    drain.tick()
    assert sealed(folder) == 60
    told = capsys.readouterr().err
    assert told.count("recording goes on in the rings, will try again") == 1
    assert told.count("can write to") == 1


def shown_from_ring(folder: Path) -> list[int]:
    numbers: list[int] = open_tables(folder).tail("slices")["rid"].to_pylist()
    return numbers


def test_damaged_record_is_left_out_and_counted_as_lost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    producer, drain = producer_of(folder), Drain(folder, AT_ONCE)
    append_slices(producer, range(20))
    with ring_path(folder, "worker0", "slices").open("r+b") as file:
        file.seek(HEADER_BYTES + 10 * SLICES.dtype.itemsize + 30)
        file.write(b"\xff\xff")
    drain.tick()
    append_slices(producer, range(20, 30))
    drain.tick()
    assert shown(open_tables(folder)) == [n for n in range(30) if n != 10]
    assert open_tables(folder).table("recorder")["lost"].to_pylist() == [1, 0, 0]
    assert "records 10 to 10 do not match their checksums" in capsys.readouterr().err


def test_damaged_ring_is_left_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append_slices(producer_of(folder), range(20))
    ring = ring_path(folder, "worker0", "slices")
    ring.write_bytes(b"nothing")
    drain = Drain(folder, AT_ONCE)
    drain.tick()
    drain.tick()
    assert capsys.readouterr().err.count("is cut short: it is left as it is") == 1
    assert drain.close()
    assert ring.read_bytes() == b"nothing"
    assert [damage.file for damage in open_tables(folder).damages] == ["rings/worker0.slices.ring"]


def test_closing_merges_seals_and_removes_the_rings(folder: Path) -> None:
    drain = Drain(folder, AT_ONCE)
    producers = [producer_of(folder), producer_of(folder, "worker1")]
    for first in (0, 10):
        append_slices(producers[0], range(first, first + 5))
        append_slices(producers[1], range(first + 5, first + 10))
        drain.tick()
    for producer in producers:
        producer.close()
    assert drain.close()
    assert (run_state(folder), list((folder / "rings").iterdir())) == ("sealed", [])
    assert [(part.producer, part.last) for part in all_parts(folder, "slices")] == [("worker0", 10), ("worker1", 10)]
    assert shown(open_tables(folder)) == list(range(20))


def test_run_stays_open_while_a_writer_lives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    producer = producer_of(folder)
    append_slices(producer, range(5))
    drain = Drain(folder, AT_ONCE)
    assert not drain.close(patience_s=0.05)
    assert "worker0.slices.ring still written to" in capsys.readouterr().err
    assert load_info(folder).state == "recording"
    append_slices(producer, range(5, 10))
    producer.close()
    assert drain.close()
    assert shown(open_tables(folder)) == list(range(10))


def test_run_that_cannot_be_closed_keeps_its_rings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    producer = producer_of(folder)
    append_slices(producer, range(5))
    producer.close()
    (folder / "slices").touch()
    drain = Drain(folder, AT_ONCE)
    assert not drain.close(patience_s=0.05)
    drain.own.close()
    assert "stays open with its rings; make room" in capsys.readouterr().err
    assert shown_from_ring(folder) == list(range(5))
    (folder / "slices").unlink()
    assert Drain(folder, AT_ONCE).close()
    assert shown(open_tables(folder)) == list(range(5))
