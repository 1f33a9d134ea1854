"""Records by number, from wherever they lie: rings, parts, merged parts, parts without numbers, damaged ones."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import recorder.parts
from recorder.drain import Drain, RecordSettings
from recorder.merge import merge
from recorder.parts import Part, all_parts, outermost
from recorder.producer import PartProducer, RingProducer
from recorder.records import SEQ
from recorder.run import ring_path
from recorder.schema import SLICES, TABLES
from recorder.tail.history import History, handing_order, in_turn, run_ends
from recorder.tail.wire import Batch
from tests.recorder.rows import append_slices, expected_slices, new_run
from tests.recorder.tails import RING, gathered

EAGER = RecordSettings(seal_interval_s=0)
KEEP = RecordSettings(seal_interval_s=1e9)


def read_all(run: Path, first: int = 0, ring: str = RING) -> list[Batch]:
    """Everything from a number on; checks that the batches continue each other up to the end."""
    history = History(run)
    history.discover()
    end = run_ends(run).get(ring, 0)
    batches = list(history.read(ring, first, end))
    assert [batch.first for batch in batches] == [first, *(batch.last for batch in batches)][: len(batches)]
    assert not batches or batches[-1].last == end
    return batches


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    merged=st.booleans(),
    left=st.integers(0, 50),
    first=st.integers(0, 350),
)
def test_any_number_on_from_anywhere(tmp_path: Path, sizes: list[int], merged: bool, left: int, first: int) -> None:
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.05)
    drain = Drain(run, EAGER)
    count = 0
    for size in sizes:
        append_slices(producer, range(count, count + size))
        drain.tick()
        count += size
    if merged:
        merge(SLICES, outermost(part for part in all_parts(run, "slices")))
    append_slices(producer, range(count, count + left))
    count += left
    first = min(first, count)
    numbers = [row for batch in read_all(run, first) for row in batch.rows["rid"].to_pylist()]
    assert numbers == list(range(first, count))
    assert gathered(read_all(run, first)) == numbers


def test_rows_that_time_has_put_in_another_order(tmp_path: Path) -> None:
    """Parts are sorted by time, requests end in another order than they arrive: numbers bring back that of writing."""
    run = new_run(tmp_path)
    arrivals = random.Random(3).sample(range(10_000), 500)
    producer = RingProducer(run, "frontend", ["requests"], 4)
    for rid, arrival in enumerate(arrivals):
        producer.row("requests", rid=rid, arrival=arrival)
    drain = Drain(run, EAGER)
    drain.tick()
    assert all_parts(run, "requests")
    rows = pa.concat_tables(batch.rows for batch in read_all(run, 123, "frontend.requests"))
    assert rows["rid"].to_pylist() == rows[SEQ].to_pylist() == list(range(123, 500))
    assert rows["arrival"].to_pylist() == arrivals[123:]


def test_batches_are_bounded(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(40_000))
    producer.close()
    batches = read_all(run)
    assert len(batches) > 2
    assert max(batch.rows.nbytes for batch in batches) < 2 * 2**20
    assert gathered(batches) == list(range(40_000))


def test_a_part_over_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder.parts, "ROW_GROUP", 100)
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(950))
    producer.close()
    assert gathered(read_all(run, 333)) == list(range(333, 950))


def test_parts_of_earlier_versions_count_as_numbered_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr(recorder.parts, "stored", lambda table: table.arrow)
        earlier.setattr(recorder.parts, "_numbered", lambda chunks, first: chunks)
        options = recorder.parts._writer_options
        earlier.setattr(recorder.parts, "_writer_options", lambda table: _without_seq(options(table)))
        producer = PartProducer(run, "worker0", ["slices"])
        append_slices(producer, range(300))
        producer.close()
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(300, 400))
    producer.close()
    assert gathered(read_all(run, 150)) == list(range(150, 400))
    merge(SLICES, outermost(all_parts(run, "slices")))
    assert gathered(read_all(run, 150)) == list(range(150, 400))


def _without_seq(options: dict[str, object]) -> dict[str, object]:
    encodings = options["column_encoding"]
    assert isinstance(encodings, dict)
    return options | {"column_encoding": {name: how for name, how in encodings.items() if name != SEQ}}


def test_damaged_records_of_a_ring_are_left_out(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.05)
    append_slices(producer, range(100))
    _flip(ring_path(run, "worker0", "slices"), 4096 + 40 * SLICES.dtype.itemsize + 30)
    (batch,) = read_all(run)
    assert batch.unreadable == 1
    assert batch.rows["rid"].to_pylist() == [*range(40), *range(41, 100)]


def test_damaged_and_missing_parts_are_passed_over(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for _ in range(4):
        producer = PartProducer(run, "worker0", ["slices"])
        first = run_ends(run).get(RING, 0)
        append_slices(producer, range(first, first + 100))
        producer.close()
    parts = all_parts(run, "slices")
    _flip(parts[1].path, 60)
    parts[2].path.unlink()
    batches = read_all(run)
    assert sum(batch.unreadable for batch in batches) == 200
    assert gathered(batches) == [*range(100), *range(300, 400)]


def test_a_record_that_is_being_packed_does_not_count_yet(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.05)
    append_slices(producer, range(10))
    assert run_ends(run) == {RING: 10}
    _flip(ring_path(run, "worker0", "slices"), 4096 + 9 * SLICES.dtype.itemsize + 30)
    assert run_ends(run) == {RING: 9}
    append_slices(producer, range(10, 12))
    assert run_ends(run) == {RING: 12}


def test_a_ring_that_is_none_is_passed_over(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (run / "rings" / "worker0.slices.ring").write_bytes(b"nonsense")
    (run / "rings" / "worker0.secrets.ring").write_bytes(b"")
    assert run_ends(run) == {}


def test_rows_that_others_belong_to_come_last() -> None:
    names = [f"worker0.{name}" for name in TABLES]
    order = handing_order(dict.fromkeys(names, 0))
    assert order[-2:] == ["worker0.requests", "worker0.steps"]
    assert sorted(order) == sorted(names)


def test_rings_take_turns(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices", "spans"])
    append_slices(producer, range(30_000))
    for rid in range(30_000):
        producer.append("spans", rid, 1, 0, rid, rid + 1, 0, 0, 0)
    producer.close()
    batches = list(in_turn(History(run), {RING: 10}, run_ends(run)))
    assert {batch.table for batch in batches[:2]} == {"slices", "spans"}
    for table, first in (("slices", 10), ("spans", 0)):
        assert gathered(batch for batch in batches if batch.table == table) == list(range(first, 30_000))


def test_a_part_that_a_merge_has_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing was made before, the file is gone: the listing is made again."""
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(50))
    producer.close()
    true_parts = all_parts(run, "slices")
    gone = Part.of(run / "slices", "worker0", 0, 60)
    listings = iter([[gone], true_parts])
    monkeypatch.setattr("recorder.tail.history.all_parts", lambda *_: next(listings, true_parts))
    batch = History(run).next(RING, 0, 50)
    assert batch.rows.drop_columns(SEQ).to_pylist() == expected_slices(list(range(50))).to_pylist()


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
