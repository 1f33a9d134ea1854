"""Reading a run for attribution without having all of it in memory: few columns, and slices a stretch at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recorder.attribution.columns import Tables
from recorder.attribution.slices import Slices, Source
from recorder.parts import read_part
from recorder.schema import TABLES

if TYPE_CHECKING:
    from recorder.left_out import LeftOut
    from recorder.run import RunInfo
    from recorder.tables import RunTables

COLUMNS: Final = {
    "requests": (
        *("rid", "attempt", "retry_of", "worker", "tier", "status"),
        *("arrival", "admitted", "queued", "first_scheduled", "first_token", "last_token", "returned"),
    ),
    "steps": (
        *("step", "worker", "t_sched", "t_exec", "t_done", "t_end", "kind", "head_rid", "head_reason"),
        *("decode_only_ns", "num_prefill_requests", "num_decode_requests"),
    ),
    "deliveries": ("worker", "step", "t_sent"),
    "events": ("t", "worker", "step", "rid", "kind", "other_rid", "reason"),
    "stalls": ("t_start", "t_end", "source", "device", "kind", "rid", "detail"),
}
_SLICES: Final = TABLES["slices"].only("step", "worker", "rid", "role", "tokens", "computed_before")

_EVER: Final = -(2**63)
_NEVER: Final = 2**63 - 1
_MOST_WORKERS: Final = 1024
"""Of a group of more workers nobody asks each since when it is looked at."""

Bounds = Mapping[str, tuple[int, int]]
"""column -> the least value, and the one it stays below."""


class Needed(Tables):
    """The tables of a run with no more columns than attribution asks for."""

    def __init__(self, tables: "RunTables") -> None:
        self._tables = tables

    @property
    def info(self) -> "RunInfo":
        """That of the run."""
        return self._tables.info

    @property
    def left_out(self) -> "LeftOut":
        """That of the run."""
        return self._tables.left_out

    def table(self, name: str) -> pa.Table:
        """Read anew each time."""
        return self._tables.some(name, *COLUMNS[name])


@dataclass(frozen=True)
class _Group:
    """One row group of a part, with what its footer tells of the columns one looks for."""

    path: Path
    number: int
    rows: int
    told: Bounds

    def may_hold(self, wanted: Bounds) -> bool:
        """Whether rows inside all the bounds may be in it."""
        known = ((self.told[name], bounds) for name, bounds in wanted.items() if name in self.told)
        return all(low < stop and first < high for (low, high), (first, stop) in known)

    def undecided(self, wanted: Bounds) -> Bounds:
        """Those of the bounds that some of its rows may lie outside of."""
        return {name: bounds for name, bounds in wanted.items() if not self._lies_in(name, *bounds)}

    def _lies_in(self, name: str, first: int, stop: int) -> bool:
        return name in self.told and first <= self.told[name][0] and self.told[name][1] <= stop


class SlicesOfParts(Source):
    """Slices as they lie in the parts of a run, of which row groups are read when they are asked for.

    `tell` is told how far a reader is that goes through all slices twice, from 0 to 1. Of the workers in `since` those
    before a step are left aside.
    """

    def __init__(
        self,
        tables: "RunTables",
        tell: Callable[[float], None] = lambda _part: None,
        since: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._tables, self._tell, self._from = tables, tell, since
        self._groups = [group for path in tables.part_files("slices") for group in _groups(path)]
        self._tail = tables.tail("slices").select(_SLICES.arrow.names)
        self._rows = sum(group.rows for group in self._groups) + self._tail.num_rows
        self._read_rows = 0

    def chunks(self, worker: int | None = None) -> Iterator[Slices]:
        """A row group each."""
        wanted = {} if worker is None else {"worker": (worker, worker + 1)}
        if worker is not None and worker in self._from:
            wanted["step"] = (self._from[worker], _NEVER)
        for rows in self._read(wanted):
            yield Slices.read(rows)

    def between(self, worker: int, first: int, stop: int) -> Slices:
        """Those of few row groups, where the parts are sorted as they should be."""
        first = max(first, self._from.get(worker, first))
        found = list(self._read({"worker": (worker, worker + 1), "step": (first, stop)}))
        slices = Slices.joined(Slices.none(), *map(Slices.read, found))
        return slices.take(np.argsort(slices.step, kind="stable"))

    def _read(self, wanted: Bounds) -> Iterator[pa.Table]:
        for group in self._groups:
            if group.may_hold(wanted) and group.may_hold(self._since(group)):
                yield self._holding(read_part(_SLICES, group.path, [group.number]), group.undecided(wanted))
        yield self._holding(self._tail, wanted)

    def _since(self, group: _Group) -> Bounds:
        """From where on a group is looked at at all, by its workers."""
        low, stop = group.told.get("worker", (0, 0))
        firsts = [self._from.get(worker, _EVER) for worker in range(low, stop)] if stop - low <= _MOST_WORKERS else []
        return {"step": (min(firsts), _NEVER)} if firsts else {}

    def _holding(self, rows: pa.Table, wanted: Bounds) -> pa.Table:
        self._read_rows += rows.num_rows
        self._tell(min(self._read_rows / (2 * self._rows or 1), 1.0))
        for name, (first, stop) in wanted.items():
            rows = rows.filter((pc.field(name) >= first) & (pc.field(name) < stop))
        return self._tables.settled("slices", rows)


def _groups(path: Path) -> Iterator[_Group]:
    metadata = pq.read_metadata(path)
    names = metadata.schema.to_arrow_schema().names
    for number in range(metadata.num_row_groups):
        told = {name: metadata.row_group(number).column(names.index(name)).statistics for name in ("worker", "step")}
        bounds = {name: (it.min, it.max + 1) for name, it in told.items() if it and it.has_min_max}
        yield _Group(path, number, metadata.row_group(number).num_rows, bounds)
