"""What the timeline knows of a run: lanes, passes and changes of state, as columns that a frame can be cut from.

Loaded once (and again on reload), whole, in a thread; a frame then asks no database. Times are ns on the run's clock;
`NONE` is an unknown one.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from console.session import Session
from console.timeline import Bools, Ints, Passes, Window, in_flight
from recorder.schema import NONE
from recorder.words import StepKind

if TYPE_CHECKING:
    import duckdb

_STAMPS: Final = ("arrival", "queued", "first_scheduled", "first_token", "last_token", "returned", "finish")
_COUNTS: Final = ("rid", "attempt", "worker", "prompt_tokens", "output_tokens", "cached_tokens", "preemptions")
_MEASURES: Final = ("ttft", "tpot", "e2e")
_PASS_COLUMNS: Final = (
    "step", "t_sched", "t_exec", "t_done", "t_end", "prefills", "prefill_tokens", "decodes",
    "waiting", "running", "kv_used", "kv_total", "head_rid", "device_ns",
)  # fmt: skip
_ATTEMPT_BITS: Final = 16
_KINDS: Final = tuple(kind.value for kind in StepKind)


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


@dataclass(frozen=True, slots=True)
class Change:
    """One change of state at instant `t`."""

    t: int
    rid: int
    kind: str
    reason: str
    other_rid: int | None


class Lanes:
    """Every lane of a run, its passes per worker, and its changes of state."""

    def __init__(
        self, window: Window, *, requests: pa.Table, spans: pa.Table, steps: pa.Table, events: pa.Table
    ) -> None:
        self.window = window
        self.columns = {name: ints(requests, name) for name in (*_STAMPS, *_COUNTS, *_MEASURES)}
        self._texts = {name: requests[name] for name in ("request_id", "tier", "status", "reason")}
        self.passes = dict(_workers(steps))
        self._events = events
        self._event_times = ints(events, "t")
        self.marks: Ints = np.unique(self._event_times)
        self._span_names: list[str] = spans["name"].to_pylist()
        self._span_starts, self._span_ends = ints(spans, "start"), ints(spans, "end")
        self._first_span = np.searchsorted(ints(spans, "lane"), np.arange(len(self) + 1))
        self._flying: tuple[int, list[int]] | None = None
        self._by_rid = {int(rid): index for index, rid in enumerate(self.columns["rid"])}
        self.in_sight: Bools = np.ones(len(self), bool)

    def __len__(self) -> int:
        return len(self.columns["rid"])

    def under(self, picked: pa.Table) -> "Lanes":
        """The same run with only these attempts (`rid, attempt`) in sight. Every lane keeps its number.

        A lane out of sight is not drawn and not counted, but can still be named: as somebody's culprit, say.
        """
        narrowed = copy.copy(self)
        narrowed._flying = None
        for name in ("ok", "p95", "sighted"):
            vars(narrowed).pop(name, None)
        narrowed.in_sight = np.isin(
            _attempts(self.columns["rid"], self.columns["attempt"]),
            _attempts(ints(picked, "rid"), ints(picked, "attempt")),
        )
        return narrowed

    @cached_property
    def sighted(self) -> Ints:
        """The lanes in sight, in the order of arrival."""
        return np.flatnonzero(self.in_sight).astype(np.int64)

    def lane(self, index: int) -> Lane:
        """The lane at a place in the order of arrival."""
        numbers = {name: _known(column[index]) for name, column in self.columns.items()}
        request_id, tier, status, reason = (texts[index].as_py() or "" for texts in self._texts.values())
        return Lane(index, request_id, tier, status, reason, numbers)

    def rows(self, indices: Ints) -> pa.Table:
        """Lanes as rows; times in ns, on the run's clock where they are instants."""
        texts = {name: column.take(indices) for name, column in self._texts.items()}
        numbers = {name: column[indices] for name, column in self.columns.items()}
        return pa.table({**texts, **{name: pa.array(column, mask=column == NONE) for name, column in numbers.items()}})

    def spans(self, index: int) -> list[tuple[str, int, int]]:
        """The phases of a lane: `(name, start, end)` in order of time."""
        own = slice(int(self._first_span[index]), int(self._first_span[index + 1]))
        bounds = self._span_starts[own].tolist(), self._span_ends[own].tolist()
        return list(zip(self._span_names[own], *bounds, strict=True))

    def time_in(self, phase: str) -> Ints:
        """How long each lane was in a phase, in ns."""
        named = np.fromiter((name == phase for name in self._span_names), bool, len(self._span_names))
        so_far = np.concatenate([[0], np.cumsum(np.where(named, self._span_ends - self._span_starts, 0))])
        times: Ints = np.diff(so_far[self._first_span])
        return times

    def phase_at(self, index: int, t: int) -> str | None:
        """The phase a lane is in at `t`; None before, after and in a gap."""
        return next((name for name, start, end in self.spans(index) if start <= t < end), None)

    def alive(self, window: Window) -> Ints:
        """The lanes whose life touches the window, in the order of arrival."""
        begun = self.in_sight & (self.columns["arrival"] < window.end)
        return np.flatnonzero(begun & (self.columns["finish"] >= window.start)).astype(np.int64)

    def flying(self, width: int) -> list[int]:
        """How many requests were in flight in each of `width` columns of the whole run; kept for the last width."""
        if self._flying is None or self._flying[0] != width:
            begun, over = (self.columns[name][self.in_sight] for name in ("arrival", "finish"))
            counts = in_flight(begun, over, self.window.edges(width))
            self._flying = width, counts.tolist()
        return self._flying[1]

    def waiting_at(self, t: int, worker: int) -> list[int]:
        """The lanes that wait for a worker's start at `t`, longest first."""
        queued, started = self.columns["queued"], self.columns["first_scheduled"]
        here = (self.columns["worker"] == worker) | (self.columns["worker"] == NONE)
        still = (started > t) | ((started == NONE) & (self.columns["finish"] > t))
        return [int(i) for i in np.flatnonzero(here & (queued != NONE) & (queued <= t) & still)]

    def slow(self, slo_ns: int | None) -> Ints:
        """The lanes whose end to end is over `slo_ns`; over the p95 of the answered ones where None."""
        e2e = self.columns["e2e"]
        limit = slo_ns if slo_ns is not None else self.p95
        return (
            np.flatnonzero(self.in_sight & (e2e > limit)).astype(np.int64)
            if limit is not None
            else np.array([], np.int64)
        )

    @cached_property
    def p95(self) -> int | None:
        """Nearest-rank p95 of end to end over the lanes that ended well; None when none did."""
        done = np.sort(self.columns["e2e"][self.ok])
        return int(done[-(-95 * len(done) // 100) - 1]) if len(done) else None

    @cached_property
    def ok(self) -> Ints:
        """The lanes that were answered and whose end to end is known."""
        status = np.asarray(self._texts["status"].to_pylist(), dtype=object)
        return np.flatnonzero(self.in_sight & (status == "ok") & (self.columns["e2e"] != NONE)).astype(np.int64)

    def find(self, name: str) -> int | None:
        """The lane of a request by its id or its number; of several attempts the last."""
        found = np.flatnonzero(np.asarray(self._texts["request_id"].to_pylist(), dtype=object) == name)
        if len(found):
            return int(found[-1])
        return self._by_rid.get(int(name)) if name.isascii() and name.isdigit() else None

    def of_rid(self, rid: int | None) -> int | None:
        """The lane of a request's number."""
        return None if rid is None else self._by_rid.get(rid)

    def pass_start(self, step: int) -> int | None:
        """When the first worker that has a pass of this number began it."""
        for passes in self.passes.values():
            places = np.flatnonzero(passes.columns["step"] == step)
            if len(places):
                return int(passes.starts[places[0]])
        return None

    def last_change(self, t: int) -> Change | None:
        """The newest change of state at or before `t`."""
        place = int(np.searchsorted(self._event_times, t, "right")) - 1
        if place < 0:
            return None
        row = self._events.slice(place, 1).to_pylist()[0]
        other = row["other_rid"] if row["other_rid"] >= 0 else None
        return Change(row["t"], row["rid"], row["kind"], row["reason"] or "", other)


def load_lanes(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Lanes:
    """Read the lanes of a run; takes as long as its requests, spans, steps and events are many."""
    extent = session.ask("timeline_extent", cursor=cursor).to_pylist()[0]
    low, high = extent["low"], extent["high"]
    return Lanes(
        Window.whole(low, high),
        requests=session.ask("timeline_lanes", cursor=cursor, high=high),
        spans=session.ask("timeline_spans", cursor=cursor, high=high),
        steps=session.ask("timeline_steps", cursor=cursor),
        events=session.ask("timeline_events", cursor=cursor),
    )


def _attempts(rids: Ints, attempts: Ints) -> Ints:
    """One number for each attempt."""
    return rids << _ATTEMPT_BITS | attempts


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers; NULL becomes `NONE`."""
    column: Ints = table[name].cast(pa.int64()).fill_null(NONE).to_numpy()
    return column


def _workers(steps: pa.Table) -> Iterator[tuple[int, Passes]]:
    workers = ints(steps, "worker")
    kinds = np.array([_KINDS.index(kind) for kind in steps["kind"].to_pylist()], np.int64)
    columns = {name: ints(steps, name) for name in _PASS_COLUMNS}
    reasons = np.asarray(steps["head_reason"].to_pylist(), dtype=object)
    for worker in np.unique(workers):
        mine = workers == worker
        own = {name: column[mine] for name, column in columns.items()}
        yield int(worker), Passes(own, _KINDS, kinds[mine], [reason or "" for reason in reasons[mine]])


def _known(value: np.int64) -> int | None:
    return None if value == NONE else int(value)
