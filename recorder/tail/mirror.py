"""A run elsewhere as a run here: what a tail brings becomes parts of a folder that every reader can open."""

import fcntl
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow as pa

from recorder.merge import merge, small_tail
from recorder.parts import Part, folder_of, publish, stage_part
from recorder.run import RunInfo, create_run, finish, hold_lock, lock_path
from recorder.schema import TABLES
from recorder.tail.history import handing_order
from recorder.tail.wire import Batch, table_of


class Mirror:
    """The folder `run` in `folder`. Reads as `recording` until it is closed.

    Records keep their numbers, so what a viewer has missed reads as missing parts.
    """

    def __init__(self, folder: Path, info: RunInfo) -> None:
        self.run = create_run(folder, msgspec.structs.replace(info, state="recording"))
        self._held = ExitStack()
        self._held.enter_context(hold_lock(lock_path(self.run), fcntl.LOCK_SH))
        self._waiting: dict[str, list[Batch]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._merged_away: list[Part] = []

    def take(self, batch: Batch) -> None:
        """Remember records until the next `flush`."""
        self._waiting.setdefault(batch.ring, []).append(batch)

    def flush(self) -> None:
        """Make parts of what has come. Call it at a beat: then no step comes before its slices. Raises OSError."""
        for part in self._merged_away:
            part.path.unlink(missing_ok=True)
        self._merged_away = []
        waiting, self._waiting = self._waiting, {}
        for ring in handing_order(dict.fromkeys(waiting, 0)):
            for stretch in _stretches(waiting[ring]):
                self._add(ring, self._seal(stretch))
            self._merge(ring)

    def close(self, *, sealed: bool) -> None:
        """Write what is left; `sealed` where the run has come to its end."""
        with self._held:
            self.flush()
            if sealed:
                finish(self.run)

    def _seal(self, stretch: list[Batch]) -> Part:
        first, last = stretch[0], stretch[-1]
        table = TABLES[first.table]
        part = Part.of(folder_of(self.run, table), first.producer, first.first, last.last)
        publish([stage_part(table, part, [pa.concat_tables([batch.rows for batch in stretch])])])
        return part

    def _add(self, ring: str, part: Part) -> None:
        """Only parts that continue each other can be merged: where some were missed, the list begins anew."""
        parts = self._parts.setdefault(ring, [])
        if parts and parts[-1].last != part.first:
            parts.clear()
        parts.append(part)

    def _merge(self, ring: str) -> None:
        parts = self._parts[ring]
        small = small_tail(parts)
        if small:
            parts[-len(small) :] = [merge(TABLES[table_of(ring)], small)]
            self._merged_away += small


def _stretches(batches: list[Batch]) -> list[list[Batch]]:
    """Batches that continue each other, apart where the viewer has missed some."""
    found: list[list[Batch]] = []
    for batch in batches:
        if found and found[-1][-1].last == batch.first:
            found[-1].append(batch)
        else:
            found.append([batch])
    return found
