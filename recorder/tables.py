"""Reading a run: sealed parts plus what is still in rings, exactly once, at every instant of its life."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recorder.left_out import LEDGER, LeftOut, LeftOutError, left_out_path, load_left_out
from recorder.losses import Account, Damage, Gap, Span, dated, gaps_in_ring, gaps_of_damages, lossy_windows
from recorder.parts import NumberedGroups, Part, Soundness, all_parts, inspect, outermost, read_part, time_range
from recorder.records import SEQ, Records, in_order, to_arrow
from recorder.ring import RingError, RingReader, Tail
from recorder.run import RunError, RunInfo, load_info, rings_dir
from recorder.schema import TABLES, Table
from recorder.words import Status

_FIRST: Final = ("steps", "stalls")
_READ_ORDER: Final = (*_FIRST, *(name for name in TABLES if name not in _FIRST))
"""Tables whose rows are written after those they tell of: a step that is seen is seen whole, and so is the request
whose prompt was tokenised."""
_TELLING: Final = {
    "requests": ("rid", "attempt", "status"),
    **dict.fromkeys(LEDGER, ("worker", "step")),
}
"""The columns that tell which rows hold."""
_TRIES: Final = 20

Ends = Mapping[str, int]
"""producer -> the number after that of its last record which was seen."""


@dataclass
class _Snapshot:
    """Everything there is of one table at one instant."""

    parts: list[Part] = field(default_factory=list)
    rescued: list[tuple[Part, Soundness]] = field(default_factory=list)
    tails: dict[str, Records] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


class RunTables:
    """The tables of a run as they stood when it was opened; open it again to see what came since.

    Opening checks every byte of the parts. Whoever needs few `names` of tables pays for those alone.
    """

    def __init__(self, path: Path, info: RunInfo, names: Iterable[str] = TABLES) -> None:
        self.path = path
        self.info = info
        self._names = tuple(names)
        self._snapshots = _snapshots(path, self._names)
        self._tables: dict[str, pa.Table] = {}
        self.left_out, self._left_out_damages = _left_out(path)
        self._is_pinned = False

    def pin(self, folder: Path) -> None:
        """Give the parts further names in a folder, for who reads them for long: no merge takes them away then.

        Raises FileNotFoundError where one is gone already (open the run again), OSError where the disk refuses.
        """
        for name, snapshot in self._snapshots.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            snapshot.parts = [_pinned(part, folder / name) for part in snapshot.parts]
            snapshot.rescued = [(_pinned(part, folder / name), soundness) for part, soundness in snapshot.rescued]
        self._is_pinned = True

    @property
    def damages(self) -> list[Damage]:
        """What could not be read, with its time where that is known; everything else is shown."""
        found = [damage for snapshot in self._snapshots.values() for damage in snapshot.damages]
        found += self._left_out_damages
        return [dated(damage, self._account, self.info.clock.mono_ns) for damage in found] if found else []

    @property
    def gaps(self) -> list[Gap]:
        """Where records are missing, dropped by a full ring or damaged: requests of that time are incomplete."""
        told = {(gap.producer, gap.table, gap.seq): gap for gap in self._account.gaps()}
        for gap in (gap for snapshot in self._snapshots.values() for gap in snapshot.gaps):
            told.setdefault((gap.producer, gap.table, gap.seq), gap)
        return [*told.values(), *gaps_of_damages(self.damages)]

    def lossy_windows(self) -> list[tuple[int, int]]:
        """When something was lost that tells of requests: those that lived then may be shown without some of it."""
        gaps = self.gaps
        return lossy_windows(gaps, self.columns("steps", "worker", "t_sched", "t_end")) if gaps else []

    @property
    def _account(self) -> Account:
        return Account(self.table("recorder"))

    @property
    def drops(self) -> dict[tuple[str, str], int]:
        """(producer, table) -> records dropped so far, for each ring there was."""
        health = self.table("recorder").group_by(["producer", "table_name"]).aggregate([("drops", "max")])
        told = {(row["producer"], row["table_name"]): row["drops_max"] or 0 for row in health.to_pylist()}
        for table, snapshot in self._snapshots.items():
            for producer, drops in snapshot.drops.items():
                told[producer, table] = max(drops, told.get((producer, table), 0))
        return told

    def part_files(self, table: str) -> list[Path]:
        """The sound sealed parts. Plain Parquet, each sorted by the table's `order`; together with `tail`, all rows."""
        return [part.path for part in self._snapshots[table].parts]

    def tail(self, table: str) -> pa.Table:
        """The rows that no file of `part_files` holds: in rings still, or rescued from damaged parts."""
        snapshot = self._snapshots[table]
        rescued = [read_part(TABLES[table], part.path, soundness.groups) for part, soundness in snapshot.rescued]
        in_rings = [to_arrow(TABLES[table], records) for records in snapshot.tails.values()]
        return pa.concat_tables([TABLES[table].arrow.empty_table(), *rescued, *in_rings])

    def table(self, table: str) -> pa.Table:
        """All rows, sorted by the table's `order`. Reads the whole table into memory.

        Open rows of `requests` that a final row supersedes are left out, and so are `slices` of a worker's last,
        unfinished step, and what tells of passes that the flight recorder left out (`left_out`).
        """
        if table not in self._tables:
            self._tables[table] = self.some(table, *TABLES[table].arrow.names)
        rows = self._tables[table] = self.left_out.without(table, self._tables[table])
        return rows

    def some(self, table: str, *names: str) -> pa.Table:
        """The rows of `table` with these columns alone. It is not kept in memory."""
        needed = TABLES[table].only(*names, *_TELLING.get(table, ()), TABLES[table].order)
        rows = in_order(needed, self._all_rows(needed))
        self._look_again_for_left_out()
        return self.settled(table, rows).select(list(names))

    def _look_again_for_left_out(self) -> None:
        """Parts that were read just now may have been thinned since this run was opened."""
        if self.info.state == "recording" and not self._is_pinned:
            self.left_out, self._left_out_damages = _left_out(self.path)

    def some_at_a_time(self, table: str) -> Iterator[pa.Table]:
        """The rows of `table`, in no order and no more than a row group at once; not of `requests`, see `settled`.

        Raises FileNotFoundError where a merge has taken a part away: `pin` those of a run that is recorded.
        """
        for path in self.part_files(table):
            for group in range(pq.read_metadata(path).num_row_groups):
                yield self.settled(table, read_part(TABLES[table], path, [group]))
        yield self.settled(table, self.tail(table))

    def ends(self, table: str) -> Ends:
        """Where this look at a table ends, for `since`."""
        snapshot, reached = self._snapshots[table], dict[str, int]()
        for part in (*snapshot.parts, *(part for part, _ in snapshot.rescued)):
            reached[part.producer] = max(part.last, reached.get(part.producer, 0))
        for producer, records in snapshot.tails.items():
            if len(records):
                reached[producer] = int(records[SEQ].max()) + 1
        return reached

    def since(self, table: str, ends: Ends, *names: str) -> tuple[pa.Table, Ends]:
        """The rows of a table that came after an earlier look had ended at `ends`, and where this one ends.

        All columns, or those of `names`, in no order; superseded rows are still there. What could not be read of
        damaged parts is passed over.
        """
        wanted = TABLES[table].only(*names) if names else TABLES[table]
        for _ in range(_TRIES):
            try:
                return self._since(wanted, ends)
            except FileNotFoundError:
                self._snapshots = _snapshots(self.path, self._names)
        raise RunError(f"{self.path} changes faster than it can be read: try again")

    def _since(self, table: Table, ends: Ends) -> tuple[pa.Table, Ends]:
        snapshot, reached = self._snapshots[table.name], dict(ends)
        found = [table.arrow.empty_table()]
        for part, groups in [*((part, inspect(part).groups) for part in snapshot.parts),
                             *((part, soundness.groups) for part, soundness in snapshot.rescued)]:  # fmt: skip
            first = ends.get(part.producer, 0)
            if part.last > first:
                found += _numbered_from(table, part, groups, first)
                reached[part.producer] = max(part.last, reached.get(part.producer, 0))
        for producer, records in snapshot.tails.items():
            fresh = records[records[SEQ] >= ends.get(producer, 0)]
            if len(fresh):
                found.append(to_arrow(table, fresh))
                reached[producer] = int(fresh[SEQ].max()) + 1
        return pa.concat_tables(found), reached

    def columns(self, table: str, *names: str) -> pa.Table:
        """Some columns of all rows, for much less than `table`: in no order, and superseded rows are still there."""
        return self._all_rows(TABLES[table].only(*names))

    def last_steps(self) -> dict[int, int]:
        """worker -> number of its last recorded step; slices beyond it belong to a step that never ended."""
        told = self._tables["steps"] if "steps" in self._tables else self.some("steps", "worker", "step")
        steps = told.group_by("worker").aggregate([("step", "max")])
        last = dict(zip(steps["worker"].to_pylist(), steps["step_max"].to_pylist(), strict=True))
        ends = self.left_out.ends()
        return {worker: max(last.get(worker, 0), ends.get(worker, 0)) for worker in last.keys() | ends.keys()}

    def _all_rows(self, table: Table) -> pa.Table:
        for _ in range(_TRIES):
            try:
                parts = [read_part(table, path) for path in self.part_files(table.name)]
                return pa.concat_tables([*parts, self.tail(table.name).select(table.arrow.names)])
            except FileNotFoundError:
                self._snapshots = _snapshots(self.path, self._names)
        raise RunError(f"{self.path} changes faster than it can be read: try again")

    def settled(self, table: str, rows: pa.Table) -> pa.Table:
        """Without the rows that do not hold, see `table`; of `requests` these have to be all rows."""
        if table == "requests":
            return without_superseded(rows)
        rows = without_torn(rows, self._ended) if table == "slices" else rows
        return self.left_out.without(table, rows)

    @cached_property
    def _ended(self) -> dict[int, int]:
        return self.last_steps()


def _numbered_from(table: Table, part: Part, sound: Sequence[int], first: int) -> list[pa.Table]:
    groups = NumberedGroups(table, part, sound)
    found = [groups.read(group) for group in groups.between(first, part.last)]
    return [rows.filter(pc.field(SEQ) >= first).select(table.arrow.names) for rows in found]


def _left_out(run: Path) -> tuple[LeftOut, list[Damage]]:
    try:
        return load_left_out(run), []
    except LeftOutError as error:
        return LeftOut(), [Damage(left_out_path(run).name, str(error))]


def _pinned(part: Part, folder: Path) -> Part:
    """A further name where the file system gives it one, else a copy."""
    place = folder / part.path.name
    try:
        os.link(part.path, place)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(part.path, place)
    return replace(part, path=place)


def open_pinned(run: Path, folder: Path) -> RunTables:
    """As `open_tables`, but the parts stay for as long as `folder` does: see `RunTables.pin`. Raises OSError, too."""
    for attempt in range(_TRIES):
        tables = open_tables(run)
        try:
            tables.pin(folder / str(attempt))
        except FileNotFoundError:
            continue
        return tables
    raise RunError(f"{run} changes faster than it can be read: try again")


def open_tables(run: Path) -> RunTables:
    """Open a run for reading, live or dead. Raises RunError for no run or a newer schema; damage is only named."""
    return RunTables(run, load_info(run))


def without_superseded(requests: pa.Table) -> pa.Table:
    """Drop the open row of each attempt that also has a final row."""
    attempts = requests["attempt"].fill_null(0).to_numpy()
    keys = requests["rid"].fill_null(-1).to_numpy() * (attempts.max(initial=0) + 1) + attempts
    is_open = pc.fill_null(pc.equal(requests["status"].cast(pa.string()), Status.OPEN.value), False).to_numpy()
    return requests.filter(pa.array(~(is_open & np.isin(keys, keys[~is_open]))))


def without_torn(slices: pa.Table, last_steps: dict[int, int]) -> pa.Table:
    """Drop the slices of steps that never ended, because their worker was killed in the middle."""
    workers = slices["worker"].to_numpy(zero_copy_only=False)
    kept = np.zeros(len(workers), bool)
    for worker, last in last_steps.items():
        kept |= (workers == worker) & (slices["step"].to_numpy() <= last)
    return slices if kept.all() else slices.filter(pa.array(kept))


def _snapshots(run: Path, names: Iterable[str]) -> dict[str, _Snapshot]:
    return {name: _snapshot(run, TABLES[name]) for name in _READ_ORDER if name in names}


def _snapshot(run: Path, table: Table) -> _Snapshot:
    """Look again when a part vanished by a merge, or when the ring was overwritten because it has been sealed."""
    before: list[Part] | None = None
    for _ in range(_TRIES):
        with ExitStack() as opened:
            snapshot = _Snapshot()
            rings = _open_rings(run, table, snapshot, opened)
            parts = all_parts(run, table.name)
            try:
                _take_parts(run, table, parts, snapshot)
            except FileNotFoundError:
                continue
            complete = _take_rings(run, table, parts, rings, snapshot)
            if complete or parts == before:
                return snapshot
            before = parts
    raise RunError(f"{run} changes faster than it can be read: try again")


def _open_rings(run: Path, table: Table, snapshot: _Snapshot, opened: ExitStack) -> dict[str, RingReader]:
    """Rings are opened before the parts are listed: a ring that is deleted meanwhile is in the parts then."""
    rings = {}
    for path in sorted(rings_dir(run).glob(f"*.{table.name}.ring")):
        try:
            ring = RingReader(path, table)
        except FileNotFoundError:
            continue
        except (RingError, OSError) as error:
            snapshot.damages.append(Damage(_name(run, path), str(error)))
            continue
        opened.callback(ring.close)
        rings[path.name.split(".")[0]] = ring
    return rings


def _take_parts(run: Path, table: Table, parts: Sequence[Part], snapshot: _Snapshot) -> None:
    soundness = {part: inspect(part) for part in parts}
    damaged = {part: state for part, state in soundness.items() if state.damage}
    snapshot.parts = outermost(part for part in parts if part not in damaged)
    snapshot.damages += [
        Damage(_name(run, part.path), state.damage, Span.of(table.name, part), *time_range(table, part, state))
        for part, state in damaged.items()
    ]
    snapshot.damages += [
        Damage(
            table.name, f"records {gap.first} to {gap.last - 1} of {gap.producer} are missing: their part is gone", gap
        )
        for gap in missing(table, parts)
    ]
    snapshot.rescued = [
        (part, state)
        for part, state in damaged.items()
        if state.groups and not any(other.holds(part) for other in snapshot.parts)
    ]


def missing(table: Table, parts: Sequence[Part]) -> list[Span]:
    """Records that no part holds although a later one exists."""
    found = []
    end: dict[str, int] = {}
    for part in sorted(parts):
        if part.first > end.get(part.producer, 0):
            found.append(Span(part.producer, table.name, end.get(part.producer, 0), part.first))
        end[part.producer] = max(part.last, end.get(part.producer, 0))
    return found


def _take_rings(
    run: Path, table: Table, parts: Sequence[Part], rings: dict[str, RingReader], snapshot: _Snapshot
) -> bool:
    """Take what no part holds yet; False when something is missing that a newer part may hold."""
    complete = True
    for producer, ring in rings.items():
        start = max((part.last for part in parts if part.producer == producer), default=0)
        tail = ring.read(start)
        snapshot.tails[producer] = tail.records
        snapshot.drops[producer] = ring.drops
        snapshot.gaps += gaps_in_ring(producer, table.name, ring, tail)
        snapshot.damages += [
            Damage(_name(run, ring.path), _where(table, tail, hole), Span(producer, table.name, *hole))
            for hole in tail.holes
        ]
        complete = complete and not tail.holes
    return complete


def _where(table: Table, tail: Tail, hole: tuple[int, int]) -> str:
    """What a hole in a ring is, and when: by the whole records on both sides of it."""
    first, last = hole
    at = int(np.searchsorted(tail.records["_seq"], first))
    around = tail.records[table.order][max(at - 1, 0) : at + 1].tolist()
    when = " and ".join(str(value) for value in around)
    return f"{last - first} records from number {first} do not match their checksums, near {table.order} {when}"


def _name(run: Path, path: Path) -> str:
    return str(path.relative_to(run))
