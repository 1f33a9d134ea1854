"""The records of a run by their numbers, wherever they lie: still in a ring, or in a sealed part."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from recorder.parts import NumberedGroups, Part, all_parts, inspect, stored
from recorder.records import SEQ, numbered
from recorder.ring import RingError, RingReader, Tail
from recorder.run import rings_dir
from recorder.schema import TABLES, Table
from recorder.tail.wire import BATCH_BYTES, Batch, Position

_READ_ORDER: Final = ("steps", "requests")
"""A row of these comes after the rows that belong to it, so their rings are looked at first and handed out last."""
_TRIES: Final = 8
_GROUPS_KEPT: Final = 2


class History:
    """Reads on and on from one run, beside its writers. For one thread; `close` it.

    Damage is no error: a batch then has fewer rows than numbers.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._rings: dict[str, RingReader] = {}
        self._unusable: set[str] = set()
        self._groups: OrderedDict[tuple[Path, int], pa.Table] = OrderedDict()

    def close(self) -> None:
        """Let go of the rings."""
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()

    def discover(self) -> None:
        """Look for rings that have come since."""
        for path in sorted(rings_dir(self._run).glob("*.ring")):
            name = path.name.removesuffix(".ring")
            table = name.rpartition(".")[2]
            if name in self._rings or name in self._unusable or table not in TABLES:
                continue
            try:
                self._rings[name] = RingReader(path, TABLES[table])
            except FileNotFoundError:
                continue
            except (RingError, OSError, ValueError):  # the drain says so, and readers of the run name it as damage
                self._unusable.add(name)

    def sealed(self) -> Position:
        """Where the sealed parts of each ring end."""
        ends: Position = {}
        for table in TABLES:
            for part in all_parts(self._run, table):
                ring = f"{part.producer}.{table}"
                ends[ring] = max(ends.get(ring, 0), part.last)
        return ends

    def ends(self, known: Position) -> Position:
        """Where each ring ends now; never before `known`. Cheap: one bisection a ring, and no look at parts."""
        ends = dict(known)
        for name in sorted(self._rings, key=_reading_order):
            ends[name] = max(known.get(name, 0), self._end(self._rings[name], known.get(name, 0)))
        return ends

    def drops(self) -> Position:
        """Records that each ring has lost because it was full."""
        return {name: ring.drops for name, ring in self._rings.items()}

    def read(self, ring: str, first: int, last: int) -> Iterator[Batch]:
        """Records `first` to `last` - 1 in batches that continue each other. `last` is at most the ring's end."""
        while first < last:
            batch = self.next(ring, first, last)
            yield batch
            first = batch.last

    def next(self, ring: str, first: int, last: int) -> Batch:
        """A bounded batch from `first` on. It reaches at least one number further, whatever is damaged."""
        producer, _, name = ring.rpartition(".")
        table = TABLES[name]
        last = min(last, first + max(BATCH_BYTES // table.dtype.itemsize, 1))
        for _ in range(_TRIES):
            rows = self._from_ring(ring, table, first, last)
            if rows is not None:
                return Batch(producer, name, first, last, rows)
            try:
                found = self._from_part(table, producer, first, last)
            except FileNotFoundError:  # merged away just now
                continue
            if found is not None:
                return found
        return Batch(producer, name, first, self._after_gap(table, producer, first, last), stored(table).empty_table())

    @staticmethod
    def _end(ring: RingReader, known: int) -> int:
        """The number after the last whole record; that of one which is being packed does not count yet."""
        start = max(known, ring.sealed)
        end = start + ring.pending(start)
        while end > start and ring.read_range(end - 1, end).end != end:
            end -= 1
        return end

    def _from_ring(self, name: str, table: Table, first: int, last: int) -> pa.Table | None:
        """None where the records have been sealed: their slots may be overwritten."""
        ring = self._rings.get(name)
        if ring is None or last - first > ring.capacity or first < ring.sealed:
            return None
        tail: Tail = ring.read_range(first, last)
        return numbered(table, tail.records) if first >= ring.sealed else None

    def _from_part(self, table: Table, producer: str, first: int, last: int) -> Batch | None:
        holding = [part for part in all_parts(self._run, table.name) if _holds(part, producer, first)]
        holding.sort(key=lambda part: (bool(inspect(part).damage), -part.last))
        if not holding:
            return None
        part = holding[0]
        last = min(last, part.last)
        groups = NumberedGroups(table, part, inspect(part).groups)
        found = [self._group(groups, part, number) for number in groups.between(first, last)]
        rows = pa.concat_tables([stored(table).empty_table(), *found])
        wanted = pc.and_(pc.greater_equal(rows[SEQ], first), pc.less(rows[SEQ], last))
        return Batch(producer, table.name, first, last, rows.filter(wanted).sort_by(SEQ))

    def _group(self, groups: NumberedGroups, part: Part, number: int) -> pa.Table:
        """Row groups are large and batches small: the last ones read are kept."""
        key = (part.path, number)
        if key not in self._groups:
            self._groups[key] = groups.read(number)
        self._groups.move_to_end(key)
        while len(self._groups) > _GROUPS_KEPT:
            self._groups.popitem(last=False)
        return self._groups[key]

    def _after_gap(self, table: Table, producer: str, first: int, last: int) -> int:
        """Where the next part begins after one that is gone."""
        starts = (part.first for part in all_parts(self._run, table.name) if part.producer == producer)
        return min((start for start in starts if first < start < last), default=last)


def _reading_order(ring: str) -> int:
    table = ring.rpartition(".")[2]
    return _READ_ORDER.index(table) if table in _READ_ORDER else len(_READ_ORDER)


def handing_order(rings: Position) -> list[str]:
    """Rows that others belong to come last: whoever sees a step or a request then has seen what belongs to it."""
    return sorted(rings, key=lambda ring: (-_reading_order(ring), ring))


def in_turn(history: History, start: Position, end: Position) -> Iterator[Batch]:
    """All records between two positions, a batch of each ring in turn: what belongs together comes close together."""
    position = dict(start)
    while behind := [ring for ring in handing_order(end) if position.get(ring, 0) < end[ring]]:
        for ring in behind:
            batch = history.next(ring, position.get(ring, 0), end[ring])
            position[ring] = batch.last
            yield batch


def run_ends(run: Path) -> Position:
    """Where each ring of a run ends at this instant."""
    history = History(run)
    try:
        history.discover()
        return history.ends(history.sealed())
    finally:
        history.close()


def _holds(part: Part, producer: str, number: int) -> bool:
    return part.producer == producer and part.first <= number < part.last
