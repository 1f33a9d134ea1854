"""Sealed parts: Parquet files that carry their range of records in the name and checksums in a gap before the footer.

Parquet itself protects pages, not page headers and not the footer, and a flipped bit there reads back as other rows or
crashes the reader. A part therefore holds a trailer between its last page and its footer, a place that every Parquet
reader skips: the end and CRC-32 of each row group, then the CRC-32 of trailer and footer. The file stays plain Parquet.
"""

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from recorder.records import SEQ, conform, in_order
from recorder.run import sync_folder
from recorder.schema import TABLES, Table

ROW_GROUP: Final = 128 * 1024
_NAME: Final = re.compile(r"(?P<producer>.+)-(?P<first>\d{20})-(?P<last>\d{20})\.parquet")
_MAGIC: Final = b"TTPART1\n"
_GROUP: Final = struct.Struct("<QI")
_TAIL: Final = struct.Struct("<II8s")
_END: Final = struct.Struct("<I4s")


@dataclass(frozen=True, order=True)
class Part:
    """Records `first` up to, not including, `last` of one producer, sealed in the file `path`."""

    producer: str
    first: int
    last: int
    path: Path

    @classmethod
    def of(cls, folder: Path, producer: str, first: int, last: int) -> "Part":
        """The part of that range in a table's folder; the file need not exist yet."""
        return cls(producer, first, last, folder / f"{producer}-{first:020d}-{last:020d}.parquet")

    def holds(self, other: "Part") -> bool:
        """Whether it makes the other part superfluous."""
        return self.producer == other.producer and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Soundness:
    """What can be trusted of a part: all of it, some row groups, or nothing. `damage` is empty for a sound part."""

    groups: tuple[int, ...] = ()
    damage: str = ""
    has_footer: bool = False
    """Whether the footer can be trusted, and so what it tells of damaged row groups."""


def list_parts(folder: Path) -> list[Part]:
    """The parts in a table's folder by producer and range; a missing folder has none."""
    names = (_NAME.fullmatch(path.name) for path in (folder.iterdir() if folder.is_dir() else ()))
    return sorted(Part(m["producer"], int(m["first"]), int(m["last"]), folder / m.string) for m in names if m)


def outermost(parts: Iterable[Part]) -> list[Part]:
    """The parts that no other one contains, in order: what is left of a merge that was killed half way."""
    kept: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.producer, part.first, -part.last)):
        if not kept or not kept[-1].holds(part):
            kept.append(part)
    return kept


@dataclass(frozen=True)
class Staged:
    """A complete and durable file that does not have its name yet."""

    temporary: Path
    part: Part


def stage_part(table: Table, part: Part, chunks: Iterable[pa.Table]) -> Staged:
    """Write the rows under a temporary name and fsync them. Each chunk is sorted by `table.order` on its own.

    Rows without the column `SEQ` are numbered as they come.
    Raises OSError where the disk refuses, and leaves nothing behind then.
    """
    temporary = part.path.with_name(f"{part.path.name}.{os.getpid()}.tmp")
    temporary.parent.mkdir(exist_ok=True)
    try:
        with pq.ParquetWriter(temporary, stored(table), **_writer_options(table)) as writer:
            for chunk in _numbered(chunks, part.first):
                writer.write_table(in_order(table, chunk), row_group_size=ROW_GROUP)
        _add_trailer(temporary)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Staged(temporary, part)


def stored(table: Table) -> pa.Schema:
    """The columns of a part: those of the table, and the numbers of the records."""
    return table.arrow.append(pa.field(SEQ, pa.int64()))


def _numbered(chunks: Iterable[pa.Table], first: int) -> Iterator[pa.Table]:
    for chunk in chunks:
        numbers = pa.array(range(first, first + chunk.num_rows), pa.int64()) if SEQ not in chunk.column_names else None
        yield chunk if numbers is None else chunk.append_column(SEQ, numbers)
        first += chunk.num_rows


def publish(staged: Sequence[Staged]) -> None:
    """Give the files their names and make the names durable, each folder synced once."""
    for one in staged:
        one.temporary.replace(one.part.path)
    for folder in {one.part.path.parent for one in staged}:
        sync_folder(folder)


def write_part(table: Table, part: Part, chunks: Iterable[pa.Table]) -> None:
    """Stage and publish one part."""
    publish([stage_part(table, part, chunks)])


def _writer_options(table: Table) -> dict[str, Any]:
    texts = [column.name for column in table.columns if column.words or isinstance(column.kind, int)]
    integers = [SEQ, *(column.name for column in table.columns if column.kind is int)]
    return {
        "compression": "zstd",
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        "write_page_checksum": True,
    }


def _add_trailer(path: Path) -> None:
    metadata = pq.read_metadata(path)
    starts = [_group_start(metadata, index) for index in range(metadata.num_row_groups)]
    with path.open("r+b") as file:
        with _mapped(file) as raw:
            footer_at = _footer_start(raw)
            footer = bytes(raw[footer_at:])
            bounds = pairwise([0, *starts[1:], footer_at])
            groups = [_GROUP.pack(end, zlib.crc32(raw[start:end])) for start, end in bounds]
        body = b"".join(groups)
        checksum = zlib.crc32(footer, zlib.crc32(body))
        file.seek(footer_at)
        file.write(body + _TAIL.pack(len(groups), checksum, _MAGIC) + footer)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _mapped(file: BinaryIO) -> Iterator[memoryview]:
    """The bytes of a file, without holding all of them in memory. Empty files can't be mapped."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages, memoryview(pages) as raw:
        yield raw


def _group_start(metadata: pq.FileMetaData, index: int) -> int:
    group = metadata.row_group(index)
    columns = (group.column(number) for number in range(group.num_columns))
    return min(int(column.dictionary_page_offset or column.data_page_offset) for column in columns)


def _footer_start(raw: memoryview) -> int:
    """Where the footer begins; negative or beyond the file when its length is damaged."""
    length, magic = _END.unpack_from(raw, len(raw) - _END.size)
    return len(raw) - _END.size - int(length) if magic == b"PAR1" else -1


def inspect(part: Part) -> Soundness:
    """Check every byte of a part against its checksums. Raises FileNotFoundError for one that a merge has replaced."""
    status = part.path.stat()
    return _inspect(part.path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=65536)
def _inspect(path: Path, size: int, mtime_ns: int) -> Soundness:
    if not size:
        return Soundness(damage="is cut short")  # and can't be mapped
    try:
        with path.open("rb") as file, _mapped(file) as raw:
            return check_bytes(raw)
    except FileNotFoundError:
        raise
    except OSError as error:
        return Soundness(damage=f"can't be read: {error.strerror}")


def check_bytes(raw: memoryview) -> Soundness:
    """What can be trusted of the bytes of a part."""
    if len(raw) < _END.size + _TAIL.size:
        return Soundness(damage="is cut short")
    footer_at = _footer_start(raw)
    tail_at = footer_at - _TAIL.size
    if tail_at < 0:
        return Soundness(damage="has no Parquet footer: it is cut short or overwritten")
    count, checksum, magic = _TAIL.unpack_from(raw, tail_at)
    groups_at = tail_at - count * _GROUP.size
    if magic != _MAGIC or groups_at < 0:
        return Soundness(damage="has no checksums where they belong")
    if zlib.crc32(raw[footer_at:], zlib.crc32(raw[groups_at:tail_at])) != checksum:
        return Soundness(damage="has a footer that does not match its checksum")
    return _check_groups(raw, list(_GROUP.iter_unpack(raw[groups_at:tail_at])))


def _check_groups(raw: memoryview, groups: list[tuple[int, int]]) -> Soundness:
    starts = [0, *(end for end, _ in groups)]
    bad = [i for i, (end, crc) in enumerate(groups) if zlib.crc32(raw[starts[i] : end]) != crc]
    sound = tuple(i for i in range(len(groups)) if i not in bad)
    if not bad:
        return Soundness(sound, has_footer=True)
    damage = f"has {len(bad)} of {len(groups)} row groups that do not match their checksums"
    return Soundness(sound, damage, has_footer=True)


def identity(path: Path) -> str:
    """What the trailer of a part says of all its bytes: another one for other bytes, as far as 32 bits tell."""
    with path.open("rb") as file, _mapped(file) as raw:
        _, checksum, _ = _TAIL.unpack_from(raw, _footer_start(raw) - _TAIL.size)
        return f"{len(raw)}-{checksum:08x}"


def read_part(table: Table, path: Path, groups: Sequence[int] | None = None) -> pa.Table:
    """The rows of a sound part (or of its sound row groups) in the schema `table.arrow`."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        present = range(file.num_row_groups) if groups is None else groups
        wanted = [group for group in present if group < file.num_row_groups]
        return conform(table, file.read_row_groups(wanted, columns=table.arrow.names))


def time_range(table: Table, part: Part, soundness: Soundness) -> tuple[int | None, int | None]:
    """First and last instant in a part by the statistics in its footer; unknown where that is damaged."""
    order = next(column for column in table.columns if column.name == table.order)
    if not soundness.has_footer or order.unit != "ns":
        return None, None
    metadata = pq.read_metadata(part.path)
    at = table.arrow.names.index(table.order)
    groups = (metadata.row_group(number).column(at).statistics for number in range(metadata.num_row_groups))
    told = [(told.min, told.max) for told in groups if told and told.has_min_max]
    return min((low for low, _ in told), default=None), max((high for _, high in told), default=None)


class NumberedGroups:
    """The row groups of a part by the numbers of their records; `sound` are those that may be read.

    Parts of earlier versions hold no numbers: their rows count as numbered in the order in which they lie.
    """

    def __init__(self, table: Table, part: Part, sound: Sequence[int]) -> None:
        self._table = table
        self._part = part
        metadata = pq.read_metadata(part.path)
        self._sound = [group for group in sound if group < metadata.num_row_groups]
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        self._starts = list(accumulate((group.num_rows for group in groups), initial=part.first))
        names = metadata.schema.to_arrow_schema().names
        self._told = [group.column(names.index(SEQ)).statistics for group in groups] if SEQ in names else None

    def between(self, first: int, last: int) -> list[int]:
        """The sound groups that hold any of the records `first` to `last` - 1."""
        return [group for group in self._sound if self._low(group) < last and first <= self._high(group)]

    def read(self, group: int) -> pa.Table:
        """The rows of a group, numbered."""
        with pq.ParquetFile(self._part.path, page_checksum_verification=True) as file:
            rows = file.read_row_groups([group], columns=stored(self._table).names)
        shown = conform(self._table, rows)
        if self._told is not None:
            return shown.append_column(SEQ, rows[SEQ])
        return next(_numbered([shown], self._starts[group]))

    def _low(self, group: int) -> int:
        return int(self._told[group].min) if self._told is not None else self._starts[group]

    def _high(self, group: int) -> int:
        return int(self._told[group].max) if self._told is not None else self._starts[group + 1] - 1


def read_numbered(table: Table, part: Part) -> pa.Table:
    """All rows of a sound part, with the numbers of their records."""
    sound = inspect(part).groups
    groups = NumberedGroups(table, part, sound)
    return pa.concat_tables([stored(table).empty_table(), *(groups.read(group) for group in sound)])


def folder_of(run: Path, table: Table) -> Path:
    """Where the parts of a table lie."""
    return run / table.name


def all_parts(run: Path, table: str) -> list[Part]:
    """The parts of one table of a run, contained ones too."""
    return list_parts(folder_of(run, TABLES[table]))
