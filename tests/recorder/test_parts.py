import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from recorder import parts
from recorder.merge import merge, merge_table, mergeable, small_tail, superfluous
from recorder.parts import Part, all_parts, inspect, list_parts, outermost
from recorder.producer import PartProducer
from recorder.schema import SLICES, TABLES
from recorder.tables import open_tables
from tests.recorder.rows import append_slices, expected_slices, new_run, shown


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A part of a hundred rows has four row groups."""
    monkeypatch.setattr(parts, "ROW_GROUP", 25)
    yield


def write(run: Path, *ranges: range, producer: str = "worker0") -> list[Part]:
    """One part for each range."""
    for numbers in ranges:
        writer = PartProducer(run, producer, ["slices"])
        append_slices(writer, numbers)
        writer.close()
    return all_parts(run, "slices")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return new_run(tmp_path)


def test_name_holds_the_range(run: Path) -> None:
    first, second = write(run, range(10), range(10, 12))
    assert (first.first, first.last, second.first, second.last) == (0, 10, 10, 12)
    assert second.path.name == "worker0-00000000000000000010-00000000000000000012.parquet"


def test_part_is_plain_parquet_with_checksums_and_delta_encoding(run: Path) -> None:
    (part,) = write(run, range(5000))
    row = duckdb.connect().execute("select count(*), sum(rid) from read_parquet(?)", [str(part.path)]).fetchone()
    assert row == (5000, 5000 * 4999 // 2)
    assert pq.read_table(part.path, page_checksum_verification=True).num_rows == 5000
    column = pq.read_metadata(part.path).row_group(0).column(0)
    assert "DELTA_BINARY_PACKED" in column.encodings
    assert column.compression == "ZSTD"
    assert part.path.stat().st_size < 5000 * 3


def test_rows_are_sorted_and_equal_ones_keep_their_order(run: Path) -> None:
    producer = PartProducer(run, "worker0", ["samples"])
    for number, t in enumerate([5, 3, 5, 1, 3, 5]):
        producer.row("samples", t=t, value=number)
    producer.close()
    rows = pq.read_table(all_parts(run, "samples")[0].path)
    assert (rows["t"].to_pylist(), rows["value"].to_pylist()) == ([1, 3, 3, 5, 5, 5], [3, 1, 4, 0, 2, 5])


def test_other_files_in_the_folder_are_no_parts(run: Path) -> None:
    write(run, range(3))
    for name in ("x.parquet", "worker0-0-3.parquet", "worker0-00000000000000000003-00000000000000000009.parquet.7.tmp"):
        (run / "slices" / name).touch()
    assert len(list_parts(run / "slices")) == 1


def test_sound_row_groups_of_a_damaged_part_are_shown(run: Path, small_groups: None) -> None:
    (part,) = write(run, range(100))
    start = pq.read_metadata(part.path).row_group(2).column(0).dictionary_page_offset
    offset = start or pq.read_metadata(part.path).row_group(2).column(0).data_page_offset
    raw = bytearray(part.path.read_bytes())
    raw[offset + 3] ^= 1
    part.path.write_bytes(raw)
    tables = open_tables(run)
    assert shown(tables) == [*range(50), *range(75, 100)]
    assert tables.part_files("slices") == []
    assert tables.damages[0].what.startswith("has 1 of 4 row groups that do not match their checksums")


def test_foreign_parquet_under_the_name_of_a_part_is_named(run: Path) -> None:
    (part,) = write(run, range(10))
    pq.write_table(expected_slices(list(range(10))), part.path)
    tables = open_tables(run)
    assert shown(tables) == []
    assert tables.damages[0].what.startswith("has no checksums where they belong")


def test_unreadable_part_is_named(run: Path) -> None:
    part, _ = write(run, range(10), range(10, 20))
    part.path.unlink()
    part.path.mkdir()
    tables = open_tables(run)
    assert shown(tables) == list(range(10, 20))
    assert "can't be read" in tables.damages[0].what


@pytest.mark.parametrize(("gone", "words"), [(0, "records 0 to 9 of worker0"), (1, "records 10 to 19 of worker0")])
def test_missing_part_is_named(run: Path, gone: int, words: str) -> None:
    write(run, range(10), range(10, 20), range(20, 30))[gone].path.unlink()
    tables = open_tables(run)
    assert shown(tables) == [n for n in range(30) if n // 10 != gone]
    (damage,) = tables.damages
    assert damage.what.startswith(f"{words} are missing: their part is gone")


def test_merged_part_replaces_the_small_ones_at_every_instant(run: Path) -> None:
    small = write(run, range(10), range(10, 20), range(20, 30))
    merged = merge(SLICES, small)
    assert outermost(all_parts(run, "slices")) == [merged]
    assert shown(open_tables(run)) == list(range(30))
    assert superfluous(all_parts(run, "slices")) == small
    small[1].path.unlink()
    assert shown(open_tables(run)) == list(range(30))
    assert open_tables(run).damages == []
    merge_table(run, "slices")
    assert all_parts(run, "slices") == [merged]


def test_damaged_merged_part_leaves_the_small_ones_to_be_shown(run: Path) -> None:
    small = write(run, range(10), range(10, 20))
    merged = merge(SLICES, small)
    merged.path.write_bytes(merged.path.read_bytes()[:-1])
    tables = open_tables(run)
    assert shown(tables) == list(range(20))
    assert tables.part_files("slices") == [part.path for part in small]
    assert [damage.file for damage in tables.damages] == [f"slices/{merged.path.name}"]
    merge_table(run, "slices")
    assert all_parts(run, "slices") == [merged]
    assert shown(open_tables(run)) == list(range(20))


def test_damaged_part_is_never_merged_or_deleted(run: Path) -> None:
    all_three = write(run, range(10), range(10, 20), range(20, 30))
    all_three[1].path.write_bytes(b"nothing")
    merge_table(run, "slices")
    assert all_parts(run, "slices") == all_three
    assert mergeable(all_three) == [[all_three[0]], [all_three[2]]]


def test_producers_are_merged_apart(run: Path) -> None:
    write(run, range(10), range(10, 20))
    write(run, range(20, 30), range(30, 40), producer="worker1")
    merge_table(run, "slices")
    assert [(part.producer, part.first, part.last) for part in all_parts(run, "slices")] == [
        ("worker0", 0, 20),
        ("worker1", 0, 20),
    ]
    assert shown(open_tables(run)) == list(range(40))


def test_small_parts_are_merged_only_when_many(run: Path) -> None:
    def part(first: int, last: int) -> Part:
        return Part.of(run / "slices", "worker0", first, last)

    small = [part(n, n + 1) for n in range(200_000, 200_040)]
    assert small_tail([part(0, 200_000), *small]) == small
    assert small_tail([part(0, 200_000), *small[:20]]) == []
    assert small_tail([*small, part(200_040, 400_000)]) == []


def test_copied_run_reads_the_same(run: Path, tmp_path: Path) -> None:
    write(run, range(10))
    shutil.copytree(run, tmp_path / "copy")
    assert shown(open_tables(tmp_path / "copy")) == list(range(10))


def test_soundness_is_looked_up_again_when_a_file_changes(run: Path) -> None:
    (part,) = write(run, range(10))
    assert not inspect(part).damage
    part.path.write_bytes(part.path.read_bytes() + b"x")
    assert inspect(part).damage


def test_big_buffers_become_parts_before_the_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.producer._PART_BYTES", 1000)
    producer = PartProducer(run, "worker0", ["slices", "steps"])
    append_slices(producer, range(100))
    assert len(all_parts(run, "slices")) > 3
    producer.close()
    assert shown(open_tables(run)) == list(range(100))
    assert all_parts(run, TABLES["steps"].name) == []
