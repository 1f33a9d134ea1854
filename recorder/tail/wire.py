"""What server and viewer of the live tail say to each other: text frames of JSON, binary frames of records.

A position says for each ring ("producer.table") the number of the next record that is wanted. Records of a ring are
numbered without gaps, so frames that continue each other prove that nothing is missing and nothing is there twice.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import pyarrow as pa

from recorder.errors import UserError
from recorder.records import SEQ, conform
from recorder.run import RunInfo
from recorder.schema import TABLES

PROTOCOL: Final = 1
MAX_FRAME: Final = 16 * 2**20
"""Bytes of the largest frame a server sends; `BATCH_BYTES` of records stay far below it."""
BATCH_BYTES: Final = 2**20

Position = dict[str, int]
"""Ring -> number of the next record; a ring that is not named is wanted from 0."""

Start = Literal["start", "now"]

_RING: Final = re.compile(r"([a-z0-9_]{1,16}\.[a-z]{1,16}):([0-9]{1,18})")
_LENGTH: Final = struct.Struct("<I")


class TailError(UserError):
    """A tail that can't be had, or that does not keep to the protocol; says which, and what to do."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="hello"):
    """The first frame. `position` is where this stream begins, `ends` where the run stands; `t` as in `Beat`.

    `resumed` is false where the position that was asked for belongs to another run, and was put aside.
    """

    protocol: int = PROTOCOL
    run_id: str
    schema_version: int
    run: RunInfo
    position: Position
    ends: Position
    resumed: bool
    t: int


class Beat(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="beat"):
    """Each second or so: everything before `ends` was recorded before the server's monotonic time `t` (ns).

    `drops` counts the records that each ring has lost because it was full.
    """

    t: int
    ends: Position
    drops: Position


class Missed(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="missed"):
    """This viewer was too slow and has been skipped ahead: ring -> first and last + 1 of what it did not get."""

    ranges: dict[str, tuple[int, int]]

    def count(self) -> int:
        """How many records that are."""
        return sum(last - first for first, last in self.ranges.values())


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """Nothing follows: the run is sealed, or the recorder leaves it as it is."""

    state: Literal["sealed", "recording"]


Word = Hello | Beat | Missed | End


class _Header(msgspec.Struct, frozen=True):
    producer: str
    table: str
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Batch:
    """Records `first` up to, not including, `last` of one ring, in order of their numbers (column `_seq`).

    Fewer rows than numbers: the others are damaged and can't be read.
    """

    producer: str
    table: str
    first: int
    last: int
    rows: pa.Table

    @property
    def ring(self) -> str:
        """Whose records they are."""
        return f"{self.producer}.{self.table}"

    @property
    def unreadable(self) -> int:
        """Records that are damaged."""
        return self.last - self.first - int(self.rows.num_rows)


def encode(batch: Batch) -> bytes:
    """A binary frame: length of the header (4 bytes, little-endian), header (MessagePack), rows (Arrow IPC stream)."""
    header = msgspec.msgpack.encode(_Header(batch.producer, batch.table, batch.first, batch.last, batch.rows.num_rows))
    sink = pa.BufferOutputStream()
    sink.write(_LENGTH.pack(len(header)) + header)
    with pa.ipc.new_stream(sink, batch.rows.schema) as stream:
        stream.write_table(batch.rows)
    frame: bytes = sink.getvalue().to_pybytes()
    return frame


def decode(frame: bytes) -> Batch:
    """What `encode` made. Raises TailError for anything else."""
    try:
        (length,) = _LENGTH.unpack_from(frame)
        body = _LENGTH.size + length
        header = msgspec.msgpack.decode(frame[_LENGTH.size : body], type=_Header)
        rows = pa.ipc.open_stream(pa.py_buffer(frame)[body:]).read_all()
        if rows.num_rows != header.rows:
            raise ValueError(f"{rows.num_rows} rows instead of {header.rows}")
        shown = conform(TABLES[header.table], rows).append_column(SEQ, rows[SEQ])
    except (struct.error, msgspec.DecodeError, pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise TailError(f"the server sent a frame that is no batch of records ({error}): is it a tailtrace?") from error
    return Batch(header.producer, header.table, header.first, header.last, shown)


def encode_word(word: Word) -> str:
    """A text frame."""
    return msgspec.json.encode(word).decode()


def decode_word(text: str) -> Word:
    """What `encode_word` made. Raises TailError for anything else."""
    try:
        return msgspec.json.decode(text, type=Word)
    except msgspec.DecodeError as error:
        raise TailError(f"the server sent words that are none of the tail's ({error}): upgrade tailtrace") from error


def format_position(position: Position) -> str:
    """As it stands in the query of the address: `worker0.steps:120,frontend.requests:7`; `start` for an empty one."""
    return ",".join(f"{ring}:{number}" for ring, number in sorted(position.items())) or "start"


def parse_position(text: str) -> Position | Start:
    """The reverse of `format_position`; `now` stays a word. Raises TailError."""
    if text in {"start", "now"}:
        return {} if text == "start" else "now"
    found = [_RING.fullmatch(item) for item in text.split(",")]
    if not all(found):
        raise TailError("from must be start, now, or like worker0.steps:120,frontend.requests:7")
    return {match[1]: int(match[2]) for match in found if match}


def parse_tables(text: str) -> frozenset[str]:
    """The tables a viewer wants, `requests,spans`; all of them where it names none. Raises TailError."""
    wanted = frozenset(text.split(",")) if text else frozenset(TABLES)
    if unknown := wanted - TABLES.keys():
        raise TailError(f"there is no table {', '.join(sorted(unknown))}: there are {', '.join(TABLES)}")
    return wanted


def table_of(ring: str) -> str:
    """The table of a ring."""
    return ring.rpartition(".")[2]


def count_between(start: Position, end: Position, rings: Iterable[str]) -> int:
    """How many records of the rings lie between two positions."""
    return sum(max(end.get(ring, 0) - start.get(ring, 0), 0) for ring in rings)
