"""What the timeline knows of a run: lanes, passes and changes of state, as columns that a frame can be cut from.

Loaded once (and again on reload) in a thread; a frame then asks no database. All lanes of millions of requests are in
memory, but their phases are read a screenful at a time (`console.phases`), and what they are called and what changed of
them once somebody looks at lanes and not only at how many they are. Times are ns on the run's clock; `NONE` is an
unknown one.
"""

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from console.changes import Change, Changes, read_events
from console.filter import Filter
from console.lane_columns import NAMES, Columns, Texts, ints, read_columns, read_texts
from console.narrow import Narrow, Words, narrow
from console.phases import AllPhases, Phase, Phases, SomePhases
from console.session import Session
from console.timeline import Bools, Ints, Passes, Window, in_flight
from recorder.schema import NONE
from recorder.words import StepKind

if TYPE_CHECKING:
    import duckdb

_PASS_COLUMNS: Final = (
    "step", "t_sched", "t_exec", "t_done", "t_end", "prefills", "prefill_tokens", "decodes",
    "waiting", "running", "kv_used", "kv_total", "head_rid", "device_ns",
)  # fmt: skip
_ATTEMPT_BITS: Final = 16
_KINDS: Final = tuple(kind.value for kind in StepKind)
MANY: Final = 100_000
"""From so many lanes on their phases are not all in memory."""
_TOGETHER: Final = 4_096
"""Lanes of which it is remembered together until when some of them lived."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One attempt of one request. A time or count that is not known is None."""

    index: int
    request_id: str
    tier: str
    status: str
    reason: str
    numbers: dict[str, int | None]

    def __getitem__(self, column: str) -> int | None:
        return self.numbers[column]

    @property
    def rid(self) -> int:
        """Number of the request."""
        return self.numbers["rid"] or 0

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 1."""
        return self.numbers["attempt"] or 0

    @property
    def arrival(self) -> int:
        """When its life begins."""
        return self.numbers["arrival"] or 0

    @property
    def finish(self) -> int:
        """When its life ends; the end of the recording while it is open."""
        return self.numbers["finish"] or 0


class Lanes:
    """Every lane of a run, its passes per worker, and its changes of state."""

    def __init__(
        self,
        window: Window,
        columns: Columns,
        status: Words,
        texts: Texts | None = None,
        *,
        steps: pa.Table,
        spans: pa.Table | None = None,
        time_in: Callable[[str], Ints] | None = None,
    ) -> None:
        """Without `spans` they are read when they are looked at, and `time_in` knows how long lanes were in a phase."""
        self.window = window
        self.columns, self._status = columns, status
        self.texts = texts
        self._changes: Changes | None = None
        self.passes = dict(_workers(steps))
        self.phases: Phases = SomePhases(self.columns) if spans is None else AllPhases(spans, len(self))
        self._time_in = time_in
        self._flying: tuple[int, list[int]] | None = None
        self.in_sight: Bools = np.ones(len(self), bool)
        self._finish_so_far = _highest_so_far(self.columns["finish"])

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def is_whole(self) -> bool:
        """Whether it is also known what lanes are called, and what changed when."""
        return self.texts is not None and self._changes is not None

    def whole(self, texts: Texts, changes: Changes) -> "Lanes":
        """The same lanes with all that there is to know."""
        found = copy.copy(self)
        found.texts, found._changes = texts, changes
        return found

    def under(self, picked: pa.Table) -> "Lanes":
        """The same run with only these attempts (`rid, attempt`) in sight. Every lane keeps its number.

        A lane out of sight is not drawn and not counted, but can still be named: as somebody's culprit, say.
        """
        order, attempts = self._by_attempt()
        wanted = _attempts(ints(picked, "rid"), ints(picked, "attempt"))
        place = np.minimum(np.searchsorted(attempts, wanted), max(len(attempts) - 1, 0))
        found = place[attempts[place] == wanted] if len(attempts) else place[:0]
        return self.at(found if order is None else order[found])

    def at(self, places: npt.NDArray[np.integer]) -> "Lanes":
        """The same with the lanes of these places in sight."""
        narrowed = copy.copy(self)
        narrowed._flying = None
        vars(narrowed).pop("p95", None)
        narrowed.in_sight = np.zeros(len(self), bool)
        narrowed.in_sight[places] = True
        return narrowed

    def under_filter(self, session: Session, only: Filter, cursor: "duckdb.DuckDBPyConnection") -> "Lanes":
        """The same with what a filter lets through in sight."""
        if not only:
            return self
        if session.is_in_order and len(self) == session.count():
            return self.at(session.places(only, cursor=cursor))
        return self.under(session.picked(only, cursor=cursor))

    def _by_attempt(self) -> tuple[Ints | None, Ints]:
        """One number for each attempt, sorted, and the lanes in that order; None where that is their own."""
        attempts = _attempts(self.columns["rid"], self.columns["attempt"])
        if bool(np.all(attempts[1:] > attempts[:-1])):
            return None, attempts
        order = np.argsort(attempts, kind="stable").astype(np.int64)
        return order, attempts[order]

    @property
    def sighted(self) -> Ints:
        """The lanes in sight, in the order of arrival."""
        return np.flatnonzero(self.in_sight).astype(np.int64)

    def next_in_sight(self, index: int) -> int | None:
        """The first lane in sight from a place on; None where there is none."""
        return _first_of(self.in_sight[index:], index)

    def last_in_sight(self) -> int | None:
        """The last lane in sight; None where there is none."""
        behind = _first_of(self.in_sight[::-1], 0)
        return None if behind is None else len(self) - 1 - behind

    def lane(self, index: int) -> Lane:
        """The lane at a place in the order of arrival."""
        status, numbers, texts = self._status.at(index), self.columns.lane(index), self.texts
        if texts is None:
            return Lane(index, "", "", status, "", numbers)
        request_id = texts.request_ids[index].as_py() or ""
        return Lane(index, request_id, texts.tier.at(index), status, texts.reason.at(index), numbers)

    def rows(self, indices: Ints) -> pa.Table:
        """Lanes as rows; times in ns, on the run's clock where they are instants."""
        assert self.texts is not None
        words = {"tier": self.texts.tier, "status": self._status, "reason": self.texts.reason}
        texts = {"request_id": self.texts.request_ids.take(indices), **_taken(words, indices)}
        numbers = {name: self.columns.at(name, indices) for name in NAMES}
        return pa.table({**texts, **{name: pa.array(column, mask=column == NONE) for name, column in numbers.items()}})

    def spans(self, index: int) -> list[Phase]:
        """The phases of a lane: `(name, start, end)` in order of time."""
        return self.phases.of(index)

    def time_in(self, phase: str) -> Ints:
        """How long each lane was in a phase, in ns. Call it from a thread: it may have to be asked for."""
        if isinstance(self.phases, AllPhases):
            return self.phases.time_in(phase)
        assert self._time_in is not None
        return self._time_in(phase)

    def phase_at(self, index: int, t: int) -> str | None:
        """The phase a lane is in at `t`; None before, after and in a gap."""
        return next((name for name, start, end in self.spans(index) if start <= t < end), None)

    def alive(self, window: Window) -> Ints:
        """The lanes whose life touches the window, in the order of arrival."""
        return self._touching(window.start, window.end)

    def _touching(self, start: int, end: int) -> Ints:
        """The lanes in sight that end at `start` or later and begin before `end`.

        Nobody before the first place where any lane so far reaches `start` does, so few lanes are looked at.
        """
        first = self._first_to_reach(start)
        some = slice(first, int(np.searchsorted(self.columns["arrival"], end)))
        alive = self.in_sight[some] & (self.columns.at("finish", some) >= start)
        return np.flatnonzero(alive).astype(np.int64) + first

    def _first_to_reach(self, t: int) -> int:
        """The first lane that ends at `t` or later."""
        begin = int(np.searchsorted(self._finish_so_far, t)) * _TOGETHER
        some = np.maximum.accumulate(self.columns.at("finish", slice(begin, begin + _TOGETHER)))
        return begin + int(np.searchsorted(some, t))

    def flying(self, width: int) -> list[int]:
        """How many requests were in flight in each of `width` columns of the whole run; kept for the last width."""
        if self._flying is None or self._flying[0] != width:
            begun, over = (self.columns.at(name, self.in_sight) for name in ("arrival", "finish"))
            counts = in_flight(begun, over, self.window.edges(width))
            self._flying = width, counts.tolist()
        return self._flying[1]

    def waiting_at(self, t: int, worker: int) -> list[int]:
        """The lanes that wait for a worker's start at `t`, longest first; at the live edge those that are open, too."""
        first = self._first_to_reach(t)
        here = slice(first, int(np.searchsorted(self.columns["arrival"], t, "right")))
        queued, started, finish, mine = (
            self.columns.at(name, here) for name in ("queued", "first_scheduled", "finish", "worker")
        )
        last = np.where(self._open[here], t, t + 1)
        still = (started > t) | ((started == NONE) & (finish >= last))
        waiting = ((mine == worker) | (mine == NONE)) & (queued != NONE) & (queued <= t) & still
        return [int(i) + first for i in np.flatnonzero(waiting)]

    def slow(self, slo_ns: int | None) -> Ints:
        """The lanes whose end to end is over `slo_ns`; where None, from the p95 of the answered ones on."""
        least = slo_ns + 1 if slo_ns is not None else self.p95
        if least is None:
            return np.array([], np.int64)
        return np.flatnonzero(self.in_sight & (self.columns["e2e"] >= least)).astype(np.int64)

    @cached_property
    def p95(self) -> int | None:
        """Nearest-rank p95 of end to end over the lanes that ended well; None when none did."""
        done = self.columns["e2e"][self._answered]
        rank = -(-95 * len(done) // 100) - 1
        return int(np.partition(done, rank)[rank]) if len(done) else None

    @cached_property
    def _open(self) -> Bools:
        """Whether each lane has not ended: all that is known of it reaches to the end of the run."""
        return self._status.are("open")

    @property
    def ok(self) -> Ints:
        """The lanes that were answered and whose end to end is known."""
        return np.flatnonzero(self._answered).astype(np.int64)

    @property
    def _answered(self) -> Bools:
        answered: Bools = self.in_sight & self._status.are("ok") & (self.columns["e2e"] != NONE)
        return answered

    def find(self, name: str) -> int | None:
        """The lane of a request by its id or its number; of several attempts the last."""
        if self.texts is not None:
            found = np.flatnonzero(pc.equal(self.texts.request_ids, name).fill_null(False).to_numpy())
            if len(found):
                return int(found[-1])
        return self.of_rid(int(name)) if name.isascii() and name.isdigit() and len(name) < 19 else None

    def of_rid(self, rid: int | None) -> int | None:
        """The lane of a request's number; of several attempts the last."""
        if rid is None or not len(self):
            return None
        order, rids = self._by_number
        place = bisect_right(rids, rid) - 1
        if place < 0 or rids[place] != rid:
            return None
        return place if order is None else int(order[place])

    @cached_property
    def _by_number(self) -> tuple[Narrow | None, Narrow]:
        """The numbers of all requests, sorted, and the lanes in that order; None where that is their own."""
        rids = self.columns.counts["rid"]
        if bool(np.all(rids[1:] >= rids[:-1])):
            return None, rids
        order = np.argsort(rids, kind="stable").astype(np.int64)
        return narrow(order), rids[order]

    def pass_start(self, step: int) -> int | None:
        """When the first worker that has a pass of this number began it."""
        for passes in self.passes.values():
            places = np.flatnonzero(passes.columns["step"] == step)
            if len(places):
                return int(passes.starts[places[0]])
        return None

    @property
    def marks(self) -> Ints:
        """The instants at which anything changed, each once."""
        return np.array([], np.int64) if self._changes is None else self._changes.instants

    def last_change(self, t: int) -> Change | None:
        """The newest change of state at or before `t`."""
        return None if self._changes is None else self._changes.last(t)


def load_lanes(session: Session, cursor: "duckdb.DuckDBPyConnection", *, whole: bool = True) -> Lanes:
    """Read the lanes of a run; takes as long as its requests, steps and events are many. Spans only where few are.

    Of many lanes only what can be counted and measured is read where they need not be whole.
    """
    session.settle()
    extent = session.ask("timeline_extent", cursor=cursor).to_pylist()[0]
    low, high = extent["low"], extent["high"]
    columns, status, texts = read_columns(session, cursor, high)
    many = len(columns) >= MANY

    def time_in(phase: str) -> Ints:
        return ints(session.ask("timeline_time_in", phase=phase), "ns")

    lanes = Lanes(
        Window.whole(low, high),
        columns,
        status,
        texts,
        spans=None if many else session.ask("timeline_spans", cursor=cursor, high=high),
        steps=session.ask("timeline_steps", cursor=cursor),
        time_in=time_in,
    )
    if whole or not many:
        lanes = whole_lanes(lanes, session, cursor)
    if many:
        pa.default_memory_pool().release_unused()  # answers were twice as large as what is kept of them
    return lanes


def whole_lanes(lanes: Lanes, session: Session, cursor: "duckdb.DuckDBPyConnection") -> Lanes:
    """The same lanes with what they are called and what changed, where they were read without that."""
    if lanes.is_whole:
        return lanes
    changes = Changes(read_events(session, cursor), lanes.columns)
    return lanes.whole(lanes.texts or read_texts(session, cursor), changes)


def read_phases(lanes: Lanes, wanted: Sequence[int], session: Session, cursor: "duckdb.DuckDBPyConnection") -> pa.Table:
    """The phases of some lanes, for `Phases.learn`."""
    rids, attempts = (lanes.columns.at(name, np.array(wanted, np.int64)).tolist() for name in ("rid", "attempt"))
    question = "timeline_some_spans"
    return session.ask(question, cursor=cursor, lanes=list(wanted), rids=rids, attempts=attempts)


def _attempts(rids: Ints, attempts: Ints) -> Ints:
    """One number for each attempt."""
    return rids << _ATTEMPT_BITS | attempts


def _workers(steps: pa.Table) -> Iterator[tuple[int, Passes]]:
    workers = ints(steps, "worker")
    kinds = pc.index_in(steps["kind"], value_set=pa.array(_KINDS)).to_numpy().astype(np.int64)
    columns = {name: ints(steps, name) for name in _PASS_COLUMNS}
    reasons = pc.fill_null(steps["head_reason"], "")
    for worker in np.unique(workers):
        mine = workers == worker
        own = {name: column[mine] for name, column in columns.items()}
        yield int(worker), Passes(own, _KINDS, kinds[mine], reasons.filter(pa.array(mine)).to_pylist())


def _taken(words: Mapping[str, Words], indices: Ints) -> dict[str, pa.Array]:
    return {name: each.take(indices) for name, each in words.items()}


def _highest_so_far(ends: Ints) -> Ints:
    """The highest of every `_TOGETHER` and all before them."""
    if not len(ends):
        return ends
    highest: Ints = np.maximum.accumulate(np.maximum.reduceat(ends, np.arange(0, len(ends), _TOGETHER)))
    return highest


def _first_of(which: Bools, before: int) -> int | None:
    """The place of the first that is, with so many before it."""
    place = int(which.argmax()) if len(which) else 0
    return before + place if len(which) and which[place] else None
