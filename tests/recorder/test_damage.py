"""Damage: every flipped bit and every cut is detected or harmless, and what is sound is still shown (SPEC F8).

All bits of a small part and of a small ring, one at a time; a sample of them through the whole way of a reader.
"""

import mmap
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder import parts
from recorder.parts import Part, all_parts, check_bytes, read_part
from recorder.producer import PartProducer, RingProducer
from recorder.ring import HEADER_BYTES, RingError, RingReader, RingWriter
from recorder.run import ring_path
from recorder.schema import SLICES
from recorder.tables import open_tables
from tests.recorder.rows import append_slices, expected_slices, new_run, shown, slice_values

ROWS = 100
GROUP = 25
SLOT = SLICES.dtype.itemsize
SLOTS = 31
IN_RING = 20
FIELDS_OF_HEADER = 4 + 8 + 4 + 4 + 8 + 16
"""Bytes of a ring's header that say what it is; behind them the words that writer and recorder share."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return new_run(tmp_path)


@pytest.fixture
def part(run: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    """A part of four row groups."""
    monkeypatch.setattr(parts, "ROW_GROUP", GROUP)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(ROWS))
    producer.close()
    (made,) = all_parts(run, "slices")
    return made


def flips(raw: bytearray, bits: range) -> Iterator[int]:
    """Each of these bits flipped while the caller looks, and back again."""
    for bit in bits:
        raw[bit // 8] ^= 1 << bit % 8
        yield bit
        raw[bit // 8] ^= 1 << bit % 8


def test_every_flipped_bit_of_a_part_is_detected_and_costs_one_row_group_at_most(part: Part) -> None:
    """Some 50,000 flips. Bytes that match their checksum are the bytes that were written: their rows are true."""
    raw = bytearray(part.path.read_bytes())
    lost = set()
    for bit in flips(raw, range(len(raw) * 8)):
        state = check_bytes(memoryview(raw))
        assert state.damage, f"bit {bit} was flipped unnoticed"
        assert len(state.groups) in {0, 3}
        lost |= set(range(4)) - set(state.groups)
    assert lost == {0, 1, 2, 3}
    assert not check_bytes(memoryview(raw)).damage


def test_every_cut_of_a_part_is_detected(part: Part) -> None:
    raw = part.path.read_bytes()
    for size in range(len(raw)):
        assert check_bytes(memoryview(raw)[:size]).damage, f"cut to {size} bytes unnoticed"
        assert not check_bytes(memoryview(raw)[:size]).groups


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_shows_the_sound_row_groups_of_a_flipped_part_and_names_it(run: Path, part: Part, seed: int) -> None:
    whole = part.path.read_bytes()
    for bit in random.Random(seed).sample(range(len(whole) * 8), 50):
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << bit % 8
        part.path.write_bytes(raw)
        tables = open_tables(run)
        assert len(shown(tables)) in {0, ROWS - GROUP}
        assert [damage.file for damage in tables.damages] == [f"slices/{part.path.name}"]


def test_a_reader_names_a_part_that_is_cut_short(run: Path, part: Part) -> None:
    whole = part.path.read_bytes()
    for size in random.Random(5).sample(range(len(whole)), 50):
        part.path.write_bytes(whole[:size])
        tables = open_tables(run)
        assert shown(tables) == []
        assert [damage.file for damage in tables.damages] == [f"slices/{part.path.name}"]


def test_overwritten_bytes_never_alter_a_row(run: Path, part: Part) -> None:
    """Longer damage than a bit, also noise that spans row groups."""
    whole = part.path.read_bytes()
    dice = random.Random(6)
    for _ in range(50):
        raw, start = bytearray(whole), dice.randrange(len(whole))
        noise = dice.randbytes(dice.randint(1, 400))[: len(raw) - start]
        raw[start : start + len(noise)] = noise
        part.path.write_bytes(raw)
        tables = open_tables(run)
        assert len(shown(tables)) % GROUP == 0
        assert bool(tables.damages) == (raw != whole)


@pytest.fixture
def ring(run: Path) -> Iterator[mmap.mmap]:
    """The bytes of a ring with some records, mapped for writing."""
    producer = RingProducer(run, "worker0", ["slices"], SLOTS * SLOT / 2**20)
    append_slices(producer, range(IN_RING))
    producer.close()
    with ring_path(run, "worker0", "slices").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        yield mapped


def test_every_flipped_bit_of_a_record_costs_that_record(run: Path, ring: mmap.mmap) -> None:
    """Some 20,000 flips, in slots with and without a record. The last record is as if it had not been packed yet."""
    with RingReader(ring_path(run, "worker0", "slices"), SLICES) as reader:
        assert len(ring) == HEADER_BYTES + SLOTS * SLOT
        for bit in range(HEADER_BYTES * 8, len(ring) * 8):
            ring[bit // 8] ^= 1 << bit % 8
            tail = reader.read(0)
            ring[bit // 8] ^= 1 << bit % 8
            slot = (bit // 8 - HEADER_BYTES) // SLOT
            expected = [number for number in range(IN_RING) if number != slot]
            assert tail.records["rid"].tolist() == expected, f"bit {bit}"
            assert tail.holes == (((slot, slot + 1),) if slot < IN_RING - 1 else ())
        assert reader.read(0).records["rid"].tolist() == list(range(IN_RING))


def test_every_flipped_bit_of_a_ring_header_is_detected_or_harmless(tmp_path: Path) -> None:
    """No row is altered, no drop is hidden, and no record counts as sealed that is not."""
    path = tmp_path / "worker0.slices.ring"
    writer = RingWriter(path, SLICES, SLOTS * SLOT)
    for number in range(SLOTS + 3):
        writer.append(*slice_values(number))
    writer.close()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as ring:
        assert flips_detected(path, ring) == FIELDS_OF_HEADER * 8


def flips_detected(path: Path, ring: mmap.mmap) -> int:
    detected = 0
    for bit in range(HEADER_BYTES * 8):
        ring[bit // 8] ^= 1 << bit % 8
        try:
            with RingReader(path, SLICES) as reader:
                assert reader.read(0).records["rid"].tolist() == list(range(SLOTS))
                assert (reader.drops >= 3, reader.untold >= 3, reader.sealed) == (True, True, 0)
        except RingError:
            detected += 1
        ring[bit // 8] ^= 1 << bit % 8
    return detected


def test_a_reader_names_a_damaged_ring(run: Path, ring: mmap.mmap) -> None:
    for bit in random.Random(7).sample(range(len(ring) * 8), 100):
        ring[bit // 8] ^= 1 << bit % 8
        tables = open_tables(run)
        slot = (bit // 8 - HEADER_BYTES) // SLOT
        assert set(shown(tables)) in (set(range(IN_RING)) - {slot}, set())
        named = {damage.file for damage in tables.damages}
        assert named == {"rings/worker0.slices.ring"} or shown(tables) in (
            list(range(IN_RING)),
            list(range(IN_RING - 1)),
        )
        ring[bit // 8] ^= 1 << bit % 8


def test_every_cut_of_a_ring_is_detected(run: Path, ring: mmap.mmap) -> None:
    path = ring_path(run, "worker0", "slices")
    raw = bytes(ring)
    cut = path.with_name("cut")
    for size in range(0, len(raw), 7):
        cut.write_bytes(raw[:size])
        with pytest.raises(RingError, match="is cut short"):
            RingReader(cut, SLICES)


def test_noise_in_a_ring_never_alters_a_row(run: Path, ring: mmap.mmap) -> None:
    whole, dice = bytes(ring), random.Random(8)
    for _ in range(100):
        for _ in range(dice.randint(1, 4)):
            start = dice.randrange(HEADER_BYTES, len(ring))
            noise = dice.randbytes(dice.randint(1, 200))[: len(ring) - start]
            ring[start : start + len(noise)] = noise
        assert set(shown(open_tables(run))) <= set(range(IN_RING))
        ring[:] = whole


def test_rows_of_a_sound_part_are_as_they_were_written(part: Part) -> None:
    """What the sweeps above rest on: sound bytes give true rows."""
    assert read_part(SLICES, part.path).to_pylist() == expected_slices(list(range(ROWS))).to_pylist()
