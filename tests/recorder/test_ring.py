import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.producer import PartProducer, RingProducer
from recorder.ring import HEADER_BYTES, RingError, RingReader, RingWriter, ring_capacity
from recorder.run import RunError, finish, ring_path
from recorder.schema import SLICES, STEPS, TABLES
from recorder.tables import open_tables
from tests.recorder.processes import new_name
from tests.recorder.rows import append_slices, new_run, shown, slice_values

SIZE = SLICES.dtype.itemsize


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker0.slices.ring"


def writer_of(path: Path, slots: int = 101) -> RingWriter:
    return RingWriter(path, SLICES, slots * SIZE)


def pack(writer: RingWriter, numbers: range) -> list[bool]:
    return [writer.append(*slice_values(number)) for number in numbers]


def rids(reader: RingReader, start: int) -> list[int]:
    numbers: list[int] = reader.read(start).records["rid"].tolist()
    assert numbers == reader.read_next(start).records["rid"].tolist()
    return numbers


@given(size=st.integers(0, 10**8), table=st.sampled_from(list(TABLES.values())), bit=st.integers(0, 63))
def test_no_flipped_bit_of_a_number_fits_its_slot_again(size: int, table: object, bit: int) -> None:
    assert isinstance(table, type(SLICES))
    assert (1 << bit) % ring_capacity(table, size) != 0


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(st.tuples(st.integers(0, 150), st.floats(0, 1)), max_size=12))
def test_ring_is_a_bounded_queue(tmp_path: Path, actions: list[tuple[int, float]]) -> None:
    """Against the obvious model: a list, a bound, and a count of what found no room."""
    path = tmp_path / f"{new_name()}.slices.ring"
    writer, reader = writer_of(path), RingReader(path, SLICES, sealing=True)
    queue: list[int] = []
    number = sealed = drops = 0
    for count, share in actions:
        for _ in range(count):
            fits = len(queue) < reader.capacity
            assert writer.append(*slice_values(number)) is fits
            queue += [number] * fits
            drops += not fits
            number += 1
        assert rids(reader, sealed) == queue
        assert reader.pending(sealed) == len(queue)
        taken = int(len(queue) * share)
        sealed, queue = sealed + taken, queue[taken:]
        reader.seal(sealed)
    assert (writer.drops, reader.drops) == (drops, drops)
    assert int(reader.read(sealed).records["_lost"].sum()) <= drops
    writer.close()
    reader.close()


def test_next_record_tells_how_many_were_dropped_before_it(path: Path) -> None:
    writer, reader = writer_of(path), RingReader(path, SLICES, sealing=True)
    assert pack(writer, range(105)) == [True] * 101 + [False] * 4
    reader.seal(50)
    pack(writer, range(105, 110))
    tail = reader.read(50)
    assert tail.records["_lost"].tolist() == [0] * 51 + [4] + [0] * 4
    assert tail.records["rid"].tolist() == [*range(50, 101), *range(105, 110)]
    assert tail.holes == ()


def test_bad_values_leave_the_ring_as_it_was(path: Path) -> None:
    writer = writer_of(path)
    pack(writer, range(3))
    with pytest.raises(Exception, match="pack expected 8 items"):
        writer.append(1, 2)
    with pytest.raises(Exception, match="required argument is not an integer"):
        writer.append(*["x"] * 8)
    pack(writer, range(3, 6))
    assert rids(RingReader(path, SLICES), 0) == [*range(6)]


def test_writer_goes_on_after_the_last_whole_record(path: Path) -> None:
    first = writer_of(path)
    pack(first, range(60))
    first.close()
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES + 59 * SIZE + 30)
        file.write(b"torn by a kill")
    assert rids(RingReader(path, SLICES), 0) == [*range(59)]
    again = writer_of(path)
    pack(again, range(59, 80))
    assert rids(RingReader(path, SLICES), 0) == [*range(80)]


def test_a_ring_has_one_writer(path: Path) -> None:
    first = writer_of(path)
    with pytest.raises(RunError, match="is being written by another process"):
        writer_of(path)
    first.close()
    writer_of(path).close()


def test_closed_ring_takes_nothing(path: Path) -> None:
    writer = writer_of(path)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(*slice_values(0))


def test_typical_cost_of_a_record_is_kept_in_the_ring(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record, which pays for cold pages, and one that the machine held up are not typical."""
    costs = iter([10**9, *[300] * 7, 10**9, *[300] * 100])
    times = (instant for cost in costs for instant in (0, cost))
    monkeypatch.setattr("recorder.ring.time.perf_counter_ns", lambda: next(times))
    writer = writer_of(path, 2001)
    reader = RingReader(path, SLICES)
    assert reader.append_ns is None
    pack(writer, range(2000))
    assert reader.append_ns == 300


def test_gap_says_when_it_was_and_who_tells_of_it(path: Path) -> None:
    writer, reader = writer_of(path), RingReader(path, SLICES, sealing=True)
    pack(writer, range(101))
    before = time.monotonic_ns()
    pack(writer, range(101, 105))
    assert (reader.untold, reader.gap_before(101)) == (4, None)
    assert reader.full_since is not None
    assert before <= reader.full_since <= time.monotonic_ns()
    after = time.monotonic_ns()
    reader.seal(50)
    pack(writer, range(105, 110))
    gap = reader.gap_before(101)
    assert gap is not None
    assert before <= gap[0] < gap[1] < after
    assert (reader.untold, reader.gap_before(102), reader.gap_before(101 + 64)) == (0, None, None)


def test_drops_that_a_dead_writer_could_not_tell_are_told_by_the_next(path: Path) -> None:
    first, reader = writer_of(path), RingReader(path, SLICES, sealing=True)
    pack(first, range(105))
    first.close()
    reader.seal(50)
    again = writer_of(path)
    pack(again, range(105, 110))
    assert reader.read(101).records["_lost"].tolist() == [4] + [0] * 4
    assert (reader.untold, reader.drops) == (0, 4)


def test_disk_too_small_is_told_at_once(path: Path) -> None:
    with pytest.raises(RunError, match="can't be created"):
        RingWriter(path, SLICES, 2**60)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("cut", [0, 100, HEADER_BYTES, HEADER_BYTES + 50 * SIZE])
def test_ring_cut_short(path: Path, cut: int) -> None:
    writer_of(path).close()
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RingError, match="is cut short"):
        RingReader(path, SLICES)


def test_ring_of_another_table(path: Path) -> None:
    writer_of(path).close()
    with pytest.raises(RingError, match="holds no steps records"):
        RingReader(path, STEPS)


# Damage, as a reader of the run sees it.


def ring_of(run: Path) -> Path:
    return ring_path(run, "worker0", "slices")


def packed_run(folder: Path, count: int = 60) -> Path:
    run = new_run(folder)
    producer = RingProducer(run, "worker0", ["slices"], 101 * SIZE / 2**20)
    append_slices(producer, range(count))
    producer.close()
    return run


def flip(path: Path, offset: int, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 1 << bit
    path.write_bytes(raw)


def test_damage_says_where_and_when(tmp_path: Path) -> None:
    run = packed_run(tmp_path)
    flip(ring_of(run), HEADER_BYTES + 30 * SIZE + 20, 3)
    (damage,) = open_tables(run).damages
    assert damage.what.startswith("1 records from number 30 do not match their checksums, near step 9 and 10")


def test_torn_last_record_is_no_damage(tmp_path: Path) -> None:
    run = packed_run(tmp_path)
    flip(ring_of(run), HEADER_BYTES + 59 * SIZE + 20, 3)
    assert open_tables(run).damages == []


def test_producer_goes_on_after_parts(tmp_path: Path) -> None:
    """A ring that is made new, because the old one was removed, starts where the parts end."""
    run = new_run(tmp_path)
    parts = PartProducer(run, "worker0", ["slices"])
    append_slices(parts, range(10))
    parts.close()
    rings = RingProducer(run, "worker0", ["slices"], 0.1)
    append_slices(rings, range(10, 20))
    assert shown(open_tables(run)) == list(range(20))
    with RingReader(ring_of(run), SLICES) as reader:
        assert np.diff(reader.read(0).records["_seq"]).tolist() == [1] * 9
        assert reader.sealed == 10


def test_sealed_run_takes_no_producer(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    finish(run)
    with pytest.raises(RunError, match="is sealed"):
        RingProducer(run, "worker0", ["slices"])


@pytest.mark.parametrize("name", ["", "a.b", "Worker", "w" * 17, "a-b", "../x"])
def test_producer_names_that_make_no_file_name_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="can't name a producer"):
        RingProducer(new_run(tmp_path), name, ["slices"])


def test_rows_find_no_room_and_are_counted(tmp_path: Path) -> None:
    """A full ring never blocks; the drops are in the header, so they outlive the writer (DESIGN 5)."""
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices", "steps"], 101 * SIZE / 2**20)
    for number in range(150):
        producer.append("slices", *slice_values(number))
    assert producer.drops == 49
    producer.close()
    tables = open_tables(run)
    assert tables.drops == {("worker0", "slices"): 49, ("worker0", "steps"): 0}
    assert shown(tables) == list(range(101))
