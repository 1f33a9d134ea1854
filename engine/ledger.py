"""From the loop to the run: how plans, events and ends become rows. The `steps` row of a pass is written last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from engine.core import End, Event, StepPlan
from engine.scheduling.step_time import Prediction
from engine.stalls import WorkerStalls
from recorder.producer import Producer
from recorder.schema import NONE, code
from recorder.words import EventKind, Phase, Reason, Role, StepKind

WORKER_TABLES: Final = ("steps", "slices", "events", "spans")
"""What the producer of a worker has to take, beside `stalls` where its host is real."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """The four instants of one pass, in ns; `t_end` is the `t_sched` of the next."""

    t_sched: int
    t_exec: int
    t_done: int
    t_end: int


class Ledger(Protocol):
    """Takes what each pass did: first its details, then, when its end is known, the pass itself."""

    def details(self, plan: StepPlan, events: Iterable[Event], ends: Mapping[int, End]) -> None:
        """Slices, events and spans of the pass."""
        ...

    def step(self, plan: StepPlan, stamps: Stamps, device_ns: int, prediction: Prediction) -> None:
        """The pass: with this row it exists."""
        ...


class NoLedger:
    """Keeps nothing: for an engine that does not record."""

    def details(self, plan: StepPlan, events: Iterable[Event], ends: Mapping[int, End]) -> None:
        """Nothing."""

    def step(self, plan: StepPlan, stamps: Stamps, device_ns: int, prediction: Prediction) -> None:
        """Nothing."""


def _codes(*enums: type[StrEnum]) -> dict[StrEnum, int]:
    return {word: code(word) for enum in enums for word in enum}


_ROLES: Final = _codes(Role)
_EVENTS: Final = _codes(EventKind)
_REASONS: Final = _codes(Reason)
_PHASES: Final = _codes(Phase)
_KINDS: Final = _codes(StepKind)


class RunLedger:
    """Writes rows through one producer, in the column order of `recorder.schema`."""

    def __init__(self, worker: int, producer: Producer, stalls: WorkerStalls | None = None) -> None:
        self._worker = worker
        self._stalls = stalls
        self._step = producer.appender("steps")
        self._slice = producer.appender("slices")
        self._event = producer.appender("events")
        self._span = producer.appender("spans")

    def details(self, plan: StepPlan, events: Iterable[Event], ends: Mapping[int, End]) -> None:
        """Slices, events and spans of the pass."""
        step, worker = plan.step, self._worker
        for part in plan.slices:
            role = _ROLES[part.role]
            self._slice(step, worker, part.rid, role, part.tokens, part.computed_before, part.cached, part.new_blocks)
        for event in events:
            self._write_event(step, event)
        for rid, end in ends.items():
            for span in end.spans:
                phase, first, last = _PHASES[span.phase], _or_none(span.first_step), _or_none(span.last_step)
                self._span(rid, end.progress.attempt, phase, span.start, span.end, worker, first, last)

    def _write_event(self, step: int, event: Event) -> None:
        self._event(
            event.t,
            self._worker,
            step,
            event.rid,
            _EVENTS[event.kind],
            _or_none(event.other_rid),
            _REASONS[event.reason],
            event.lost_tokens,
            event.freed_blocks,
        )

    def step(self, plan: StepPlan, stamps: Stamps, device_ns: int, prediction: Prediction) -> None:
        """The pass: with this row it exists."""
        if self._stalls:
            self._stalls.passed(plan, stamps.t_exec, stamps.t_done, prediction.predicted_ns)
        decodes = [part for part in plan.slices if part.role is Role.DECODE]
        prefills = [part for part in plan.slices if part.role is not Role.DECODE]
        now, head = plan.occupancy, plan.head
        self._step(
            plan.step,
            self._worker,
            stamps.t_sched,
            stamps.t_exec,
            stamps.t_done,
            stamps.t_end,
            _KINDS[_kind(bool(prefills), bool(decodes))],
            len(prefills),
            sum(part.tokens for part in prefills),
            sum(part.computed_before for part in prefills),
            len(decodes),
            sum(part.computed_before for part in decodes),
            now.waiting,
            now.waiting_tokens,
            now.running,
            now.kv_free,
            now.kv_total,
            head.rid if head else NONE,
            _REASONS[head.reason if head else Reason.NONE],
            device_ns,
            _or_none(prediction.predicted_ns),
            _or_none(prediction.decode_only_ns),
        )


def _kind(prefills: bool, decodes: bool) -> StepKind:
    if prefills:
        return StepKind.MIXED if decodes else StepKind.PREFILL
    return StepKind.DECODE if decodes else StepKind.IDLE


def _or_none(value: int | None) -> int:
    return NONE if value is None else value
