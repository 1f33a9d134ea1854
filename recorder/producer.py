"""Whoever writes rows into a run: through rings that a recorder process drains, or straight into parts."""

import fcntl
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from recorder.bulk import from_columns
from recorder.parts import Part, all_parts, folder_of, write_part
from recorder.records import to_arrow, wire_values
from recorder.ring import RingWriter
from recorder.run import RunError, hold_lock, load_writable, lock_path, ring_path, rings_dir
from recorder.schema import TABLES, Table

_NAME: Final = re.compile(r"[a-z0-9_]{1,16}")
_PART_BYTES: Final = 64 * 2**20


class Producer(Protocol):
    """Takes rows of some tables. Values are in declared column order: ints, codes (`schema.code`), floats, bytes."""

    def append(self, table: str, *values: object) -> bool:
        """Take one row; `schema.NONE` is an unknown integer. False when it had to be dropped (and counted)."""
        ...

    def appender(self, table: str) -> Callable[..., bool]:
        """`append` bound to one table: the fast path."""
        ...

    def row(self, table: str, **columns: object) -> bool:
        """Take one row by column names: words of `recorder.words`, text as str, None or missing for unknown."""
        ...

    def close(self) -> None:
        """Hand over what is left. The run stays open."""
        ...


def sealed_end(run: Path, table: str, producer: str) -> int:
    """The number after the last record that a part of this producer holds, by the names of the parts."""
    return max((part.last for part in all_parts(run, table) if part.producer == producer), default=0)


def check_name(name: str) -> str:
    """A producer's name goes into file names and into `recorder.producer`. Raises RunError for one that can't."""
    if not _NAME.fullmatch(name):
        raise RunError(f"{name!r} can't name a producer: use 1 to 16 lower-case letters, digits and _")
    return name


class _PartBuffer:
    """Packed rows of one table that wait for their part."""

    def __init__(self, run: Path, producer: str, table: Table) -> None:
        self._folder = folder_of(run, table)
        self._producer = producer
        self._table = table
        self._pack = table.packer.pack
        self._rows = np.dtype(table.dtype.descr[3:])
        self._packed = bytearray()
        self._first = sealed_end(run, table.name, producer)

    def append(self, *values: object) -> bool:
        self._packed += self._pack(*values)
        if len(self._packed) >= _PART_BYTES:
            self.flush()
        return True

    def flush(self) -> None:
        if not self._packed:
            return
        self._seal(to_arrow(self._table, np.frombuffer(bytes(self._packed), self._rows)))
        self._packed.clear()

    def extend(self, columns: Mapping[str, object], length: int) -> None:
        self.flush()
        if length:
            self._seal(from_columns(self._table, columns, length))

    def _seal(self, rows: pa.Table) -> None:
        last = self._first + rows.num_rows
        write_part(self._table, Part.of(self._folder, self._producer, self._first, last), [rows])
        self._first = last


class PartProducer(Producer):
    """Writes parts without a recorder process: for virtual runs, imports and tests.

    Rows are on disk after `close` (or each 64 MiB). The run reads as `recording` until then, and afterwards as
    `killed` unless its creator calls `run.finish`.
    """

    def __init__(self, run: Path, name: str, tables: Iterable[str]) -> None:
        check_name(name)
        self._held = ExitStack()
        try:
            self._held.enter_context(hold_lock(lock_path(run), fcntl.LOCK_SH))
        except BlockingIOError as error:
            raise RunError(f"{run} is being written by a recorder process: parts can't be added beside it") from error
        self._buffers = {table: _PartBuffer(run, name, TABLES[table]) for table in tables}

    def append(self, table: str, *values: object) -> bool:
        """Take one row; never drops."""
        return self._buffers[table].append(*values)

    def appender(self, table: str) -> Callable[..., bool]:
        """`append` bound to one table."""
        return self._buffers[table].append

    def row(self, table: str, **columns: object) -> bool:
        """Take one row by column names."""
        return self._buffers[table].append(*wire_values(TABLES[table], columns))

    def extend(self, table: str, columns: Mapping[str, object], length: int) -> None:
        """Take `length` rows at once, column by column as `bulk.from_columns` has it, and seal them as one part."""
        self._buffers[table].extend(columns, length)

    def close(self) -> None:
        """Write what is left and let go of the run's lock."""
        with self._held:
            for buffer in self._buffers.values():
                buffer.flush()


class RingProducer(Producer):
    """Writes rings of about `ring_mb` MiB, one a table, for a recorder process to drain.

    Raises RunError where the run is sealed, another process writes under the same name, or the disk has no room.
    """

    def __init__(self, run: Path, name: str, tables: Iterable[str], ring_mb: float = 16) -> None:
        check_name(name)
        load_writable(run)
        rings_dir(run).mkdir(exist_ok=True)
        size = int(ring_mb * 2**20)
        self._writers = {
            table: RingWriter(ring_path(run, name, table), TABLES[table], size, sealed_end(run, table, name))
            for table in tables
        }

    @property
    def drops(self) -> int:
        """Rows dropped so far because a ring was full."""
        return sum(writer.drops for writer in self._writers.values())

    def append(self, table: str, *values: object) -> bool:
        """Take one row; False when its ring is full and the row was dropped."""
        return self._writers[table].append(*values)

    def appender(self, table: str) -> Callable[..., bool]:
        """`append` bound to one table: the fast path."""
        return self._writers[table].append

    def row(self, table: str, **columns: object) -> bool:
        """Take one row by column names; False when it was dropped."""
        return self._writers[table].append(*wire_values(TABLES[table], columns))

    def close(self) -> None:
        """Let go of the rings. What was packed is in them until the recorder process has sealed it."""
        for writer in self._writers.values():
            writer.close()
