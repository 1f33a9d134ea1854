"""Reading a run: sealed parts plus what is still in rings, exactly once, at every instant of its life."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recorder.parts import Part, Soundness, all_parts, inspect, outermost, read_part
from recorder.records import in_order
from recorder.run import RunInfo, load_info
from recorder.schema import TABLES, Table
from recorder.words import Status

_READ_ORDER: Final = ("steps", *(name for name in TABLES if name != "steps"))
"""`steps` first: rows of a step are written before its `steps` row, so a step that is seen is seen whole."""
_TRIES: Final = 20


@dataclass(frozen=True)
class Damage:
    """A file of the run that can't be trusted, and what of it is not shown."""

    file: str
    what: str


@dataclass
class _Snapshot:
    """Everything there is of one table at one instant."""

    parts: list[Part] = field(default_factory=list)
    rescued: list[tuple[Part, Soundness]] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


class RunTables:
    """The tables of a run as they stood when it was opened; open it again to see what came since."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path = path
        self.info = info
        self._snapshots = {name: _snapshot(path, TABLES[name]) for name in _READ_ORDER}
        self._tables: dict[str, pa.Table] = {}

    @property
    def damages(self) -> list[Damage]:
        """What could not be read; everything else is shown."""
        return [damage for snapshot in self._snapshots.values() for damage in snapshot.damages]

    def part_files(self, table: str) -> list[Path]:
        """The sound sealed parts. Plain Parquet, each sorted by the table's `order`; together with `tail`, all rows."""
        return [part.path for part in self._snapshots[table].parts]

    def tail(self, table: str) -> pa.Table:
        """The rows that no file of `part_files` holds: in rings still, or rescued from damaged parts."""
        snapshot = self._snapshots[table]
        rescued = [read_part(TABLES[table], part.path, soundness.groups) for part, soundness in snapshot.rescued]
        return pa.concat_tables([TABLES[table].arrow.empty_table(), *rescued])

    def table(self, table: str) -> pa.Table:
        """All rows, sorted by the table's `order`. Reads the whole table into memory.

        Open rows of `requests` that a final row supersedes are left out, and so are `slices` of a worker's last,
        unfinished step.
        """
        if table not in self._tables:
            self._tables[table] = self._settled(table, self._all_rows(table))
        return self._tables[table]

    def last_steps(self) -> dict[int, int]:
        """worker -> number of its last recorded step; slices beyond it belong to a step that never ended."""
        steps = self.table("steps").group_by("worker").aggregate([("step", "max")])
        return dict(zip(steps["worker"].to_pylist(), steps["step_max"].to_pylist(), strict=True))

    def _all_rows(self, table: str) -> pa.Table:
        for _ in range(_TRIES):
            try:
                parts = [read_part(TABLES[table], path) for path in self.part_files(table)]
                return in_order(TABLES[table], pa.concat_tables([*parts, self.tail(table)]))
            except FileNotFoundError:
                self._snapshots[table] = _snapshot(self.path, TABLES[table])
        raise FileNotFoundError(f"the parts of {self.path / table} keep vanishing")

    def _settled(self, table: str, rows: pa.Table) -> pa.Table:
        if table == "requests":
            return without_superseded(rows)
        return without_torn(rows, self.last_steps()) if table == "slices" else rows


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
    return slices.filter(pa.array(kept))


def _snapshot(run: Path, table: Table) -> _Snapshot:
    for _ in range(_TRIES):
        try:
            return _read_parts(run, all_parts(run, table.name))
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"the parts of {run / table.name} keep vanishing")


def _read_parts(run: Path, parts: Sequence[Part]) -> _Snapshot:
    snapshot = _Snapshot()
    soundness = {part: inspect(part) for part in parts}
    for part, state in soundness.items():
        if state.damage:
            snapshot.damages.append(Damage(str(part.path.relative_to(run)), state.damage))
    snapshot.parts = outermost(part for part, state in soundness.items() if not state.damage)
    snapshot.rescued = [
        (part, state)
        for part, state in soundness.items()
        if state.damage and state.groups and not any(part.holds(other) for other in snapshot.parts)
    ]
    return snapshot
