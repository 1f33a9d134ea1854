"""Finished requests out of a stream of records: which spans belong to which request, and when it is told."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from recorder.run import ClockAnchor
from recorder.tail.wire import Batch
from recorder.words import Phase, Status

TABLES: Final = frozenset({"requests", "spans"})
"""The tables that a list of finished requests needs."""

_COLUMNS: Final = [
    *("rid", "attempt", "request_id", "tenant", "tier", "model", "worker", "status", "http_status", "reason"),
    *("arrival", "first_token", "returned", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions"),
]
_MOST_OPEN: Final = 100_000
"""Attempts whose spans are kept while their last row has not come; beyond that it never will."""

Key = tuple[int, int]


@dataclass(frozen=True)
class Told:
    """One finished attempt. `phases` are ns by phase, in the order of `recorder.words.Phase`.

    It is complete when its phases tile its life from arrival to return; one that is not has lost records.
    """

    request: dict[str, Any]
    phases: dict[str, int]

    @property
    def complete(self) -> bool:
        """Only what has been answered has a life that phases tile."""
        return self.request["status"] != Status.OK or sum(self.phases.values()) == self.e2e_ns

    @property
    def e2e_ns(self) -> int | None:
        """Arrival to return (`console.measures.E2E`)."""
        return _between(self.request["arrival"], self.request["returned"])

    @property
    def ttft_ns(self) -> int | None:
        """Arrival to first token (`console.measures.TTFT`)."""
        return _between(self.request["arrival"], self.request["first_token"])


@dataclass
class Teller:
    """Takes the batches of one run, tells each finished attempt once.

    A request's last row and its spans come from different rings: it is told as soon as its spans tile its life, or by
    `settle` at an instant before which everything has come.
    """

    _spans: dict[Key, dict[str, int]] = field(default_factory=dict)
    _waiting: dict[Key, dict[str, Any]] = field(default_factory=dict)

    def take(self, batch: Batch) -> Iterator[Told]:
        """Those that the batch completes."""
        if batch.table == "spans":
            yield from self._take_spans(batch)
        elif batch.table == "requests":
            yield from self._take_requests(batch)

    def settle(self) -> Iterator[Told]:
        """Those that still wait: what they lack is lost, or never was."""
        for key in list(self._waiting):
            yield self._tell(key)

    def _take_spans(self, batch: Batch) -> Iterator[Told]:
        columns = (batch.rows[name].to_pylist() for name in ("rid", "attempt", "name", "start", "end"))
        for rid, attempt, name, start, end in zip(*columns, strict=True):
            if None in {rid, attempt, name, start, end}:
                continue  # a span that was cut short by its writer tells nothing
            phases = self._spans.setdefault((rid, attempt), {})
            phases[name] = phases.get(name, 0) + end - start
            yield from self._if_complete((rid, attempt))
        while len(self._spans) > _MOST_OPEN:
            del self._spans[next(iter(self._spans))]

    def _take_requests(self, batch: Batch) -> Iterator[Told]:
        for row in batch.rows.select(_COLUMNS).to_pylist():
            if row["status"] != Status.OPEN:
                key = (row["rid"], row["attempt"])
                self._waiting[key] = row
                yield from self._if_complete(key)

    def _if_complete(self, key: Key) -> Iterator[Told]:
        row = self._waiting.get(key)
        if row and row["status"] == Status.OK and Told(row, self._spans.get(key, {})).complete:
            yield self._tell(key)

    def _tell(self, key: Key) -> Told:
        found = self._spans.pop(key, {})
        return Told(self._waiting.pop(key), {phase.value: found[phase] for phase in Phase if phase in found})


def as_json(told: Told, run_id: str) -> dict[str, Any]:
    """One line of `--json`; times in ns."""
    return {
        "run": run_id,
        **told.request,
        "ttft_ns": told.ttft_ns,
        "e2e_ns": told.e2e_ns,
        "phases_ns": told.phases,
        "complete": told.complete,
    }


def wall_ns(clock: ClockAnchor, t: int) -> int | None:
    """An instant of the run as ns since 1970; None in a run of virtual time."""
    return clock.wall_ns + t - clock.mono_ns if clock.kind == "monotonic" else None


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start
