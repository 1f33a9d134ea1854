"""The flight recorder (`[record] keep = "tail"`): which passes may be left out, as the requests they served settle.

Everything is sealed first, as without it. A pass is judged once every request that lived in it has ended: it is kept
where it touches a window around a slow one (`recorder.windows`), else it is named in `left_out.json`, and the next
merge leaves its rows out. The verdict rests on sealed rows alone, so a recorder that takes over comes to the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from recorder.attribution.columns import Bools, Ints, ints
from recorder.left_out import LeftOut, LeftOutError, Stretch, load_left_out, save_left_out
from recorder.narration import say
from recorder.parts import Part, all_parts, inspect, outermost, read_numbered, read_part
from recorder.records import SEQ
from recorder.schema import TABLES, Table
from recorder.windows import FOR_EVER, Ended, Judge, KeepRule, Window, touched, union, window
from recorder.words import Status

WATCHED: Final = frozenset({"requests", "steps"})
"""The tables on which the verdicts rest."""

_LATE_NS: Final = 2 * 10**9
"""How long after its arrival the front end may write the first row of a request. Who comes later is not kept whole."""

_STAMPS: Final = ("arrival", "admitted", "queued", "first_scheduled", "first_token", "last_token", "returned")
_REQUEST: Final = ("rid", "attempt", "status", *_STAMPS)
_PASS: Final = ("worker", "step", "t_sched", "t_end")


class KeepSettings(Protocol):
    """The keys of `[record]` that say what is kept."""

    @property
    def slo_ms(self) -> float:
        """Longest end to end time that is not slow; 0: none."""
        ...

    @property
    def keep_slowest(self) -> float:
        """Share of requests that is slow however fast all are."""
        ...

    @property
    def keep_slowest_of(self) -> int:
        """Requests among which that share is taken."""
        ...

    @property
    def keep_margin_s(self) -> float:
        """Time kept before and after a slow request."""
        ...


def rule_of(settings: KeepSettings) -> KeepRule:
    """The settings in ns."""
    return KeepRule(
        slo_ns=round(settings.slo_ms * 1e6),
        slowest=settings.keep_slowest,
        among=settings.keep_slowest_of,
        margin_ns=round(settings.keep_margin_s * 1e9),
    )


class Thinning:
    """What is left out of one run. Whoever makes it holds the run's lock."""

    def __init__(self, run: Path, rule: KeepRule) -> None:
        self._run = run
        self._rule = rule
        self._judge = Judge(rule)
        self._open: dict[tuple[int, int], int] = {}
        self._windows: list[Window] = []
        self._pending = {name: np.empty(0, np.int64) for name in _PASS}
        self._reach: dict[Part, dict[int, int]] = {}
        self._keeps_all = False
        self.left_out = self._load()
        self._judged = self.left_out.ends()
        for name in WATCHED:
            self._recall(name)

    def _load(self) -> LeftOut:
        """Where nobody can tell any more what is missing, nothing else is left out."""
        try:
            return load_left_out(self._run)
        except LeftOutError as error:
            self.keep_all(f"left_out.json {error}")
            return LeftOut()

    def keep_all(self, why: str) -> None:
        """From now on: what the verdicts would rest on is not to be had."""
        self._keeps_all = True
        say(f"{why}; from now on {self._run} is kept whole")

    def _recall(self, table: str) -> None:
        """Take in what a recorder before this one has sealed, in the order in which it was written.

        By the parts, not by the rings: of a run that was being closed some rings are gone already.
        """
        for part in outermost(all_parts(self._run, table)):
            if inspect(part).damage and table == "requests":
                self.keep_all(f"{part.path} is damaged, so who was slow can't be told")
            self.take(table, read_numbered(TABLES[table], part).sort_by(SEQ))

    def take(self, table: str, rows: pa.Table) -> None:
        """Take in rows that are durable, in the order in which they were written."""
        if table == "steps":
            self._take_passes(rows)
        if table == "requests":
            for row in rows.select(_REQUEST).to_pylist():
                self._take_request(row)

    def _take_passes(self, rows: pa.Table) -> None:
        columns = {name: ints(rows, name) for name in _PASS}
        new = ~self.left_out.holds(columns["worker"], columns["step"])
        self._pending = {name: np.concatenate((self._pending[name], columns[name][new])) for name in _PASS}

    def _take_request(self, row: dict[str, Any]) -> None:
        if row["arrival"] is None or row["status"] is None:
            return  # of a newer or an odd engine: nothing tells when it lived
        key = row["rid"], row["attempt"]
        if row["status"] == Status.OPEN:
            self._open[key] = row["arrival"]
            return
        self._open.pop(key, None)
        end = max(stamp for stamp in (row[name] for name in _STAMPS) if stamp is not None)
        self._keep_around(Ended(Status(row["status"]), row["arrival"], end))

    def _keep_around(self, attempt: Ended) -> None:
        if self._judge.is_slow(attempt):
            self._windows.append(window(attempt, self._rule))

    def settle(self, seen_until: int) -> None:
        """Judge the passes before all requests that are open. All rows of requests written before `seen_until` are
        taken in. Raises OSError where the disk refuses to hold the verdict; nothing is left out then."""
        self._judge_until(min([seen_until - _LATE_NS, *self._open.values()]))

    def settle_rest(self) -> None:
        """Judge all passes: no row will come any more, and requests that are open never ended. Raises OSError."""
        for arrival in self._open.values():
            self._keep_around(Ended(Status.OPEN, arrival, FOR_EVER))
        self._judge_until(FOR_EVER)

    def _judge_until(self, horizon: int) -> None:
        if self._keeps_all:
            return
        self._windows = union(self._windows)
        passes = self._pending
        settled = passes["t_end"] < horizon - self._rule.margin_ns
        spared = touched(self._windows, passes["t_sched"], passes["t_end"])
        more = _stretches({name: column[settled & ~spared] for name, column in passes.items()})
        if more:
            left_out = self.left_out.and_also(more)
            save_left_out(self._run, left_out)
            self.left_out = left_out
        for worker in np.unique(passes["worker"][settled]).tolist():
            self._judged[worker] = int(passes["step"][settled & (passes["worker"] == worker)].max())
        self._pending = {name: column[~settled] for name, column in passes.items()}

    def settled(self, table: Table, parts: Sequence[Part]) -> list[Part]:
        """Those of the parts, from the first on, all of whose passes have been judged."""
        found: list[Part] = []
        for part in parts:
            if any(step > self._judged.get(worker, -1) for worker, step in self._reaches(table, part).items()):
                break
            found.append(part)
        return found

    def _reaches(self, table: Table, part: Part) -> dict[int, int]:
        """worker -> the last pass that a part tells of."""
        if part not in self._reach:
            rows = read_part(table.only("worker", "step"), part.path, inspect(part).groups).drop_null()
            last = rows.group_by("worker").aggregate([("step", "max")])
            self._reach[part] = dict(zip(last["worker"].to_pylist(), last["step_max"].to_pylist(), strict=True))
        return self._reach[part]

    def forget(self, parts: Iterable[Part]) -> None:
        """These were merged."""
        for part in parts:
            self._reach.pop(part, None)


def _stretches(passes: dict[str, Ints]) -> list[Stretch]:
    """Passes as stretches: those that follow each other without a gap in their numbers or their time are one."""
    order = np.lexsort((passes["step"], passes["worker"]))
    worker, step, begin, end = (passes[name][order] for name in _PASS)
    turns: Bools = (worker[1:] != worker[:-1]) | (step[1:] != step[:-1] + 1) | (begin[1:] != end[:-1])
    first = np.flatnonzero(np.append(True, turns)[: len(worker)])
    last = np.append(first[1:], len(worker)) - 1
    columns = (worker[first], step[first], step[last] + 1, begin[first], end[last]) if len(worker) else ((),) * 5
    return [Stretch(*map(int, each)) for each in zip(*columns, strict=True)]
