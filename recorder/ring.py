"""The ring: a mapped file of fixed-size records that one process writes without system calls and others read.

Slot `seq % capacity` holds record `seq`. There is no head counter: a record counts once its sequence number is the
expected one and its checksum holds, so a writer killed in the middle of a record leaves nothing to repair. The pages
belong to the kernel: what was packed survives the death of every process.
"""

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from recorder.checksums import crc32_each
from recorder.records import Records
from recorder.run import RunError, lock_patiently
from recorder.schema import SCHEMA_VERSION, Table

HEADER_BYTES: Final = 4096
_STATIC: Final = struct.Struct("<8sIIQ16s")
_CHECK: Final = struct.Struct("<I")
_RECORD_HEADER: Final = struct.Struct("<QII")
_MAGIC: Final = b"TTRING1\n"
_SEALED, _NOT_SEALED = 128, 129
_DROPS, _PID, _APPEND_NS, _TOLD, _FULL_SINCE, _DROPS_TOO, _TOLD_TOO, _FULL_UNTIL = (
    256,
    259,
    260,
    261,
    262,
    263,
    264,
    265,
)
_GAPS: Final = 266
"""Places of 64-bit words in the header: one cache line of the recorder's, the others of the writer's.

What a flipped bit must not falsify is there twice: `_NOT_SEALED` is the complement of `_SEALED`, and of the counters
of drops the copy is taken that does not hide any.

`_TOLD` counts the drops that a later record tells of, `_GAPS` begins the table of the last gaps: number of the record
after it, instants of its first and last drop.
"""
_GAPS_KEPT: Final = 64
"""A gap ends when slots become free, so there is one at most for each time the recorder seals."""
_GAP_WORDS: Final = 3
_WORD: Final = 2**64 - 1
_NO_NUMBER: Final = b"\xff" * 8
_TIME_EVERY: Final = 256
_TIMES_KEPT: Final = 15
_WARM_BYTES: Final = 2**20
_POPULATE_WRITE: Final = 23
"""`MADV_POPULATE_WRITE` of Linux, which the mmap module does not name."""
_CHUNK: Final = 4096
_TRIES: Final = 3
_MOST_LOST: Final = 2**32 - 1


class RingError(Exception):
    """A file that is no ring of this table, or whose header is damaged."""


def ring_capacity(table: Table, size_bytes: int) -> int:
    """Slots in a ring of about that size: odd, so that no flipped bit of a sequence number fits its slot again."""
    return max(size_bytes // table.dtype.itemsize, 3) | 1


class RingWriter:
    """The only writer of one ring. `append` takes the columns in declared order and never blocks.

    An existing ring goes on after its last whole record (or after `sealed`, if that is later). Raises RunError where
    the ring is being written by another process or there is no room for it.
    """

    append: Callable[..., bool]
    """False when the ring is full: the record is dropped and counted, and the next one says how many were."""

    def __init__(self, path: Path, table: Table, size_bytes: int, sealed: int = 0) -> None:
        if not path.exists():
            _create(path, table, size_bytes, sealed)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        _lock(self._descriptor, path)
        with RingReader(path, table) as reader:
            first, capacity = max(reader.end(sealed), sealed), reader.capacity
        self._map = mmap.mmap(self._descriptor, 0)
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("Q")
        self._words[_PID] = os.getpid()
        _touch(self._map, HEADER_BYTES + first % capacity * table.dtype.itemsize)
        self.append = _appender(self._map, self._words, table, capacity, first)

    @property
    def drops(self) -> int:
        """Records dropped in the life of the ring."""
        return self._words[_DROPS]

    def close(self) -> None:
        """Let go of the ring; its records stay. Closing twice is nothing to do."""
        if self.append is _closed:
            return
        self.append = _closed
        self._words.release()
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def _touch(ring: mmap.mmap, start: int) -> None:
    """Make the next pages writable now: the first records of a process are not to pay for page faults.

    Only the next: all of a ring would take tens of ms, and the kernel takes write access away when it cleans a page.
    Kernels before Linux 5.14 can't; there, the faults stay.
    """
    start -= start % mmap.PAGESIZE
    with suppress(OSError):
        ring.madvise(_POPULATE_WRITE, start, min(_WARM_BYTES, len(ring) - start))


def _closed(*_: object) -> bool:
    raise ValueError("the ring is closed")


def _appender(ring: mmap.mmap, words: memoryview, table: Table, capacity: int, seq: int) -> Callable[..., bool]:
    """The hot path, as a closure: locals are the fastest state Python has.

    Everything rare (full, wrap, timing, drops to tell) happens at `stop`, so the common record pays for one comparison.
    """
    record = struct.Struct(f"{_RECORD_HEADER.format}{table.packer.size}s")
    pack, put, crc32, clock = table.packer.pack, record.pack_into, zlib.crc32, time.perf_counter_ns
    size, begun = record.size, seq
    offset = stop = 0
    lost = min(words[_DROPS] - words[_TOLD], _MOST_LOST)
    times: deque[int] = deque(maxlen=_TIMES_KEPT)

    def append(*values: object) -> bool:
        nonlocal seq, offset
        if seq >= stop:
            return append_at_stop(values)
        body = pack(*values)
        put(ring, offset, seq, 0, crc32(body, seq), body)
        offset += size
        seq += 1
        return True

    def append_at_stop(values: tuple[object, ...]) -> bool:
        nonlocal seq, offset, stop, lost
        sealed = words[_SEALED]
        if seq - sealed >= capacity:
            words[_FULL_UNTIL] = now = time.monotonic_ns()
            if not lost:
                words[_FULL_SINCE] = now
            lost = min(lost + 1, _MOST_LOST)
            words[_DROPS] = words[_DROPS_TOO] = words[_DROPS] + 1
            return False
        offset = HEADER_BYTES + seq % capacity * size
        began = clock()
        body = pack(*values)
        put(ring, offset, seq, lost, crc32(body, seq + lost), body)
        took = clock() - began
        if seq > begun:
            times.append(took)
            words[_APPEND_NS] = sorted(times)[len(times) // 2]
        if lost:
            _note_gap(words, seq, lost)
        seq += 1
        lost = 0
        offset = HEADER_BYTES + seq % capacity * size
        warm = min(seq - begun, _TIME_EVERY) - 1
        stop = min(seq + warm, seq - seq % capacity + capacity, sealed + capacity)
        return True

    return append


def _note_gap(words: memoryview, seq: int, lost: int) -> None:
    """The record `seq` tells of `lost` drops: keep when they happened."""
    words[_TOLD] = words[_TOLD_TOO] = words[_TOLD] + lost
    entry = _GAPS + seq % _GAPS_KEPT * _GAP_WORDS
    words[entry], words[entry + 1], words[entry + 2] = seq, words[_FULL_SINCE], words[_FULL_UNTIL]


def _lock(descriptor: int, path: Path) -> None:
    try:
        lock_patiently(descriptor, fcntl.LOCK_EX)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RunError(f"{path} is being written by another process: choose another producer name") from error


def _create(path: Path, table: Table, size_bytes: int, sealed: int) -> None:
    """All blocks are reserved now: a full disk must not become a SIGBUS in the writer later.

    An untouched slot 0 would read as number 0, so it gets a number that no record has. From here on only the recorder
    process writes the word that tells what is sealed: two writers could set it back, and the ring would stay full.
    """
    capacity = ring_capacity(table, size_bytes)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    static = _STATIC.pack(_MAGIC, SCHEMA_VERSION, table.dtype.itemsize, capacity, table.name.encode())
    header = bytearray((static + _CHECK.pack(zlib.crc32(static))).ljust(HEADER_BYTES, b"\0"))
    _set_sealed(memoryview(header).cast("Q"), sealed)
    try:
        with temporary.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, HEADER_BYTES + capacity * table.dtype.itemsize)
            file.write(header + _NO_NUMBER)
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"{path} can't be created: {error.strerror}; it needs {size_bytes} bytes of disk") from error


def _set_sealed(words: memoryview, end: int) -> None:
    words[_SEALED] = end
    words[_NOT_SEALED] = ~end & _WORD


@dataclass(frozen=True)
class Tail:
    """Whole records in order of their numbers; `end` is the number after the last one.

    `holes` are ranges of numbers before `end` whose records can't be read.
    """

    records: Records
    end: int
    holes: tuple[tuple[int, int], ...] = ()


class RingReader:
    """Reads one ring beside its writer. Raises RingError for a damaged header, FileNotFoundError for none.

    Only the recorder process opens it `sealing`, to tell the writer which slots are free again.
    """

    def __init__(self, path: Path, table: Table, *, sealing: bool = False) -> None:
        self.path = path
        with path.open("r+b" if sealing else "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER_BYTES:
                raise RingError("is cut short")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if sealing else mmap.ACCESS_READ)
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("Q")
        version, self.capacity = _layout(bytes(self._map[: _STATIC.size + _CHECK.size]), table, size)
        self._slots = np.frombuffer(self._map, table.at(version).dtype, self.capacity, HEADER_BYTES)

    def __enter__(self) -> "RingReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the ring. Arrays from `read` are copies and stay."""
        self._words.release()
        del self._slots
        self._map.close()

    @property
    def drops(self) -> int:
        """Records dropped in the life of the ring."""
        return max(self._words[_DROPS], self._words[_DROPS_TOO])

    @property
    def untold(self) -> int:
        """Drops that no record tells of yet: the ring is full, or its writer died before the next record."""
        return max(self.drops - min(self._words[_TOLD], self._words[_TOLD_TOO]), 0)

    @property
    def full_since(self) -> int | None:
        """When the first of the `untold` drops happened, or the first of the last gap; None where there was none."""
        return self._words[_FULL_SINCE] or None

    @property
    def full_until(self) -> int | None:
        """When the last drop until now happened; None where there was none."""
        return self._words[_FULL_UNTIL] or None

    def gap_before(self, seq: int) -> tuple[int, int] | None:
        """When the first and the last drop happened that record `seq` tells of; None where that is forgotten."""
        entry = _GAPS + seq % _GAPS_KEPT * _GAP_WORDS
        number, since, until = self._words[entry : entry + _GAP_WORDS]
        return (since, until) if number == seq and until else None

    @property
    def append_ns(self) -> int | None:
        """Typical cost of one record on the writer's side, the median of the last ones timed; None before the first."""
        return self._words[_APPEND_NS] or None

    @property
    def pid(self) -> int:
        """The process that writes the ring, or wrote it last."""
        return self._words[_PID]

    @property
    def sealed(self) -> int:
        """Records before this number are in parts, the writer may overwrite their slots; 0 where that is damaged."""
        sealed = int(self._words[_SEALED])
        return sealed if self._words[_NOT_SEALED] == ~sealed & _WORD else 0

    def seal(self, end: int) -> None:
        """Tell the writer that records before `end` are safely elsewhere."""
        _set_sealed(self._words, end)

    def pending(self, start: int) -> int:
        """How many records from `start` on there are, by bisection: cheap, and right where nothing is damaged."""
        low, high = 0, self.capacity
        while low < high:
            middle = (low + high) // 2
            seq = start + middle
            if self._slots[seq % self.capacity]["_seq"] == seq:
                low = middle + 1
            else:
                high = middle
        return low

    def end(self, start: int) -> int:
        """The number after the last whole record; `start` when there is none from there on."""
        return self.read(start).end

    def read(self, start: int) -> Tail:
        """All whole records from `start` on, wherever they lie in the ring."""
        return self._settled(start, self._all_numbers)

    def read_next(self, start: int) -> Tail:
        """The same for whoever reads on and on: looks no further than the first stretch without records."""
        return self._settled(start, self._next_numbers)

    def read_range(self, start: int, end: int) -> Tail:
        """The whole ones of records `start` to `end` - 1. At most `capacity` of them."""
        return self._settled(start, lambda first: np.arange(first, end, dtype=np.uint64))

    def _settled(self, start: int, find: Callable[[int], npt.NDArray[np.uint64]]) -> Tail:
        """A hole may be the writer passing by during the scan; one that stays is damage."""
        for _ in range(_TRIES):
            tail = self._take(start, find(start))
            if not tail.holes:
                break
        return tail

    def _all_numbers(self, start: int) -> npt.NDArray[np.uint64]:
        seqs = self._slots["_seq"].copy()
        fits = seqs % np.uint64(self.capacity) == np.arange(self.capacity, dtype=np.uint64)
        return np.sort(seqs[fits & (seqs >= start)])

    def _next_numbers(self, start: int) -> npt.NDArray[np.uint64]:
        found = [np.empty(0, np.uint64)]
        for first in range(start, start + self.capacity, _CHUNK):
            expected = np.arange(first, min(first + _CHUNK, start + self.capacity), dtype=np.uint64)
            there = expected[self._slots["_seq"][expected % np.uint64(self.capacity)] == expected]
            if not len(there):
                break
            found.append(there)
        return np.concatenate(found)

    def _take(self, start: int, seqs: npt.NDArray[np.uint64]) -> Tail:
        records = self._copy(seqs)
        sound = _whole(records) & (records["_seq"] == seqs)
        records = records if sound.all() else records[sound]
        if not len(records):
            return Tail(records, start)
        numbers = records["_seq"].astype(np.int64)
        before = np.concatenate(([start - 1], numbers[:-1]))
        gaps = np.flatnonzero(numbers - before > 1)
        holes = tuple((int(before[gap]) + 1, int(numbers[gap])) for gap in gaps)
        return Tail(records, int(numbers[-1]) + 1, holes)

    def _copy(self, seqs: npt.NDArray[np.uint64]) -> Records:
        """Unbroken numbers, the usual case, are one or two stretches of slots: much cheaper than slot by slot."""
        if not len(seqs) or int(seqs[-1] - seqs[0]) + 1 != len(seqs):
            scattered: Records = self._slots[seqs % np.uint64(self.capacity)]
            return scattered
        first = int(seqs[0]) % self.capacity
        before_wrap = self._slots[first : first + len(seqs)]
        return np.concatenate((before_wrap, self._slots[: len(seqs) - len(before_wrap)]))


def _layout(raw: bytes, table: Table, size: int) -> tuple[int, int]:
    """Schema version of the records, and how many fit."""
    magic, version, record_size, capacity, name = _STATIC.unpack_from(raw)
    if magic != _MAGIC or _CHECK.unpack_from(raw, _STATIC.size)[0] != zlib.crc32(raw[: _STATIC.size]):
        raise RingError("has a header that does not match its checksum")
    columns = table.at(version)
    if version > SCHEMA_VERSION or record_size != columns.dtype.itemsize or name.rstrip(b"\0").decode() != table.name:
        raise RingError(f"holds no {table.name} records of schema {SCHEMA_VERSION} or older")
    if size < HEADER_BYTES + capacity * record_size:
        raise RingError("is cut short")
    return int(version), int(capacity)


def _whole(records: Records) -> npt.NDArray[np.bool_]:
    """Which records match their checksum: CRC-32 of the columns, started from number plus drops before."""
    raw = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), records.dtype.itemsize)
    sums = crc32_each(raw[:, _RECORD_HEADER.size :], records["_seq"] + records["_lost"])
    matching: npt.NDArray[np.bool_] = sums == records["_crc"]
    return matching
