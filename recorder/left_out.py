"""What a run left out on purpose: passes far from any slow request, with all that was told of them.

`RUN/left_out.json` names them before the first of their rows is left out of a part, so a reader knows of every row that
is missing whether it was meant to be. Readers leave out all rows of these passes, also those that are still there: what
is shown does not depend on how far the recorder has got.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from recorder.attribution.columns import Bools, Ints, equal, ints
from recorder.run import replace_file
from recorder.schema import NONE

LEDGER: Final = frozenset({"steps", "slices", "deliveries", "events"})
"""The tables whose rows tell of single passes."""

_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in ("worker", "first", "stop", "t_sched", "t_end")])


class Stretch(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Passes `first` up to, not including, `stop` of one worker, which took the time [t_sched, t_end)."""

    worker: int
    first: int
    stop: int
    t_sched: int
    t_end: int


class _File(msgspec.Struct):
    crc32: int
    stretches: list[Stretch]


class LeftOutError(Exception):
    """The file is damaged."""


@dataclass(frozen=True)
class LeftOut:
    """Stretches by worker and time; those of one worker lie apart."""

    stretches: tuple[Stretch, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stretches)

    @property
    def passes(self) -> int:
        """How many passes were left out."""
        return sum(each.stop - each.first for each in self.stretches)

    @property
    def ns(self) -> int:
        """How long they took."""
        return sum(each.t_end - each.t_sched for each in self.stretches)

    def table(self) -> pa.Table:
        """One row a stretch."""
        columns = zip(*map(msgspec.structs.astuple, self.stretches), strict=True) if self else ((),) * len(_SCHEMA)
        return pa.Table.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=_SCHEMA)

    def and_also(self, more: Iterable[Stretch]) -> "LeftOut":
        """With further passes; stretches that meet become one."""
        joined: list[Stretch] = []
        for each in sorted([*self.stretches, *more]):
            last = joined[-1] if joined else None
            if last and (last.worker, last.stop, last.t_end) == (each.worker, each.first, each.t_sched):
                joined[-1] = Stretch(last.worker, last.first, each.stop, last.t_sched, each.t_end)
            else:
                joined.append(each)
        return LeftOut(tuple(joined))

    def ends(self) -> dict[int, int]:
        """worker -> number of its last pass that was left out."""
        return {each.worker: each.stop - 1 for each in self.stretches}

    def without(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows of a table (with at least `worker` and `step`) that do not tell of passes that were left out."""
        if not self or table not in LEDGER or not rows.num_rows:
            return rows
        return rows.filter(pa.array(~self.holds(ints(rows, "worker"), ints(rows, "step"))))

    def holds(self, worker: Ints, step: Ints) -> Bools:
        """Which passes were left out. An unknown pass was not."""
        found = np.zeros(len(step), bool)
        for number, mine in self._by_worker.items():
            at = np.searchsorted(mine.first, step, side="right") - 1
            found |= (worker == number) & (at >= 0) & (step < mine.stop[at])
        return found

    def touches(self, worker: Ints, since: Ints, until: Ints) -> Bools:
        """Whose time [since, until) on their worker shares any with a pass that was left out. NONE: on any worker."""
        found = np.zeros(len(worker), bool)
        for number, mine in self._by_worker.items():
            at = np.searchsorted(mine.end, since, side="right")
            nearest = np.minimum(at, len(mine.end) - 1)
            overlaps = (at < len(mine.end)) & (mine.begin[nearest] < until)
            found |= overlaps & (equal(worker, number) | equal(worker, NONE))
        return found

    @cached_property
    def _by_worker(self) -> dict[int, "_Bounds"]:
        workers = sorted({each.worker for each in self.stretches})
        return {worker: _Bounds.of([each for each in self.stretches if each.worker == worker]) for worker in workers}


@dataclass(frozen=True)
class _Bounds:
    """The stretches of one worker as arrays, in order."""

    first: Ints
    stop: Ints
    begin: Ints
    end: Ints

    @classmethod
    def of(cls, stretches: Sequence[Stretch]) -> "_Bounds":
        columns = np.array([msgspec.structs.astuple(each) for each in stretches], np.int64).T
        return cls(*columns[1:])


def left_out_path(run: Path) -> Path:
    """Where the file lies; most runs have none."""
    return run / "left_out.json"


def load_left_out(run: Path) -> LeftOut:
    """What a run left out so far. Raises LeftOutError, with words, where the file is damaged."""
    try:
        raw = left_out_path(run).read_bytes()
    except FileNotFoundError:
        return LeftOut()
    except OSError as error:
        raise LeftOutError(f"can't be read: {error.strerror or error}") from error
    try:
        file = msgspec.json.decode(raw, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LeftOutError(f"is damaged ({error}): what was left out on purpose shows as lost") from error
    if file.crc32 != _checksum(file.stretches):
        raise LeftOutError("does not match its checksum: what was left out on purpose shows as lost")
    return LeftOut(tuple(file.stretches))


def save_left_out(run: Path, left_out: LeftOut) -> None:
    """Name what is left out, in one durable step. Raises OSError where the disk refuses."""
    stretches = list(left_out.stretches)
    replace_file(left_out_path(run), msgspec.json.encode(_File(_checksum(stretches), stretches)))


def _checksum(stretches: list[Stretch]) -> int:
    return zlib.crc32(msgspec.msgpack.encode(stretches))
