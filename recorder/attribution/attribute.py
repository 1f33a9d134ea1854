"""Attribution of a run: what all requests share is read once, then the requests are charged, some at a time."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from recorder.attribution.attempts import Attempts, Events
from recorder.attribution.budget import EARLIER_ATTEMPT, INGRESS, SCHEMA, STEP_IN_FLIGHT, Budget
from recorder.attribution.cohorts import Ledger, cohorts
from recorder.attribution.columns import Ints, Tables, first_known, ints, known
from recorder.attribution.gaps import Marks, charge_gaps
from recorder.attribution.passes import Measure, Passes
from recorder.attribution.phases import charge_phases
from recorder.attribution.running import WayOut, charge_return, charge_steps
from recorder.attribution.slices import Deliveries, Parts, Slices, Source, Whole
from recorder.attribution.stalls import FrontEnd, Held, Stalls
from recorder.attribution.waiting import Queue
from recorder.schema import NONE
from recorder.words import EventKind, StepKind

_ALL_AT_ONCE: Final = 2**62


def attribute(tables: Tables) -> pa.Table:
    """The cause of every ns of every attempt of a run (DESIGN 5, SPEC F1 and F2), in the layout of `SCHEMA`.

    One row for each `rid, attempt, cause, root, culprit` that holds time: `cause` is one of `CAUSES`; `root` is the
    reason of the head of the queue where the cause is `QUEUE/*`, else the cause again; `culprit` is the rid to blame
    or NULL; `measured` is false where a prediction was needed beside the stamps.

    Per attempt the ns sum exactly to returned - arrival; for one that did not return to the last instant known of it,
    for an open one to the last recorded pass of its worker. Time that no stamp names, also because rows were lost, is
    `UNNAMED` and never handed to another cause. `UNNAMED` is negative only where stamps overlap that must not;
    `recorder.check` says which.

    Where passes that an attempt lived through were left out on purpose (`recorder.left_out`), only its way in is named,
    and its way out where that was kept; the rest is `NOT_KEPT`. All other attempts have the causes of the whole run.

    Of a recording that never had steps (`run.json` says which tables it has) the phases are named as far as stamps tell
    them, as causes of their own: `QUEUE/PHASE` and so on.

    Stalls of the host are in no other cause: what a collection, a cold step or a blocked event loop took of an
    attempt's time is `HOST_GC`, `HOST_WARMUP` or `HOST_LOOP`. Where their rows were lost, the time is in the cause that
    it would have had without the stall.
    """
    found = list(attribute_in_turn(tables, Whole(Slices.read(tables.table("slices"))), _ALL_AT_ONCE))
    rows = np.concatenate([rows for rows, _ in found] or [np.empty(0, np.int64)])
    table = pa.concat_tables([SCHEMA.empty_table(), *(some for _, some in found)])
    return table.take(pa.array(np.argsort(rows, kind="stable")))


def attribute_in_turn(tables: Tables, slices: Source, most: int) -> Iterator[tuple[Ints, pa.Table]]:
    """The same rows, those of some attempts at a time, each attempt whole; beside each row that of its attempt in
    `requests`. About `most` slices are in memory at once, and those of the requests that are still under way then.
    """
    run = _Run(tables, slices)
    for worker in np.unique(run.attempts.worker):
        yield from run.charge(int(worker), most)


class _Run:
    """The columns of a run that all of it needs."""

    def __init__(self, tables: Tables, slices: Source) -> None:
        requests = tables.table("requests")
        self._rid, self._attempt = ints(requests, "rid"), ints(requests, "attempt")
        self._left_out = tables.left_out
        recorded = tables.info.recorded_tables
        self._stamps_alone = bool(recorded) and "steps" not in recorded
        self._passes = Passes.read(tables.table("steps"))
        self._slices = slices
        self._deliveries = tables.table("deliveries")
        self._stalls = Stalls.read(tables.table("stalls"))
        self._front_end = FrontEnd(self._stalls.of_front_end())
        events = Events.read(tables.table("events"))
        self._events = events.where(known(events.rid))
        self.attempts = _placed(Attempts.read(requests), self._events, slices)

    def charge(self, worker: int, most: int) -> Iterator[tuple[Ints, pa.Table]]:
        """The attempts of one worker; NONE is the worker of those that never reached one."""
        events = self._events.where(self._events.worker == worker)
        passes = self._passes.of(worker)
        ends = (passes if len(passes) else self._passes).end
        attempts = self.attempts.take(np.flatnonzero(self.attempts.worker == worker))
        attempts = attempts.completed(events).ended(ends.max() if len(ends) else NONE)
        ledger = Ledger.of(worker, passes, attempts, self._slices)
        shared = _Shared(self, worker, ledger, events) if len(passes) else None
        for who, slices in cohorts(ledger, self._slices, most):
            cohort = attempts.take(who)
            order = np.argsort(cohort.row)
            budget = Budget(len(order))
            self._enter(budget, replace(cohort, row=np.argsort(order)), slices, shared)
            rows = cohort.row[order]
            at, table = budget.table(self._rid[rows], self._attempt[rows])
            yield rows[at], table

    def _enter(self, budget: Budget, attempts: Attempts, slices: Slices, shared: "_Shared | None") -> None:
        budget.open(attempts.row, attempts.end - attempts.arrival)
        _charge_ingress(budget, attempts, self._front_end)
        if shared is not None:
            shared.charge(budget, attempts, slices)
        elif self._stamps_alone:
            charge_phases(budget, attempts)
        else:
            self.leave_partly_kept(budget, attempts)

    def leave_partly_kept(self, budget: Budget, attempts: Attempts) -> None:
        """Whoever was turned away has no worker, and nothing of it was left out."""
        came = known(attempts.worker) | known(attempts.admitted)
        touched = self._left_out.touches(attempts.worker, attempts.arrival, attempts.end)
        budget.leave(attempts.row[came & touched])

    def deliveries(self, worker: int) -> Deliveries:
        """Those of one worker."""
        return Deliveries.read(self._deliveries, worker)

    def stalls(self, worker: int) -> Held:
        """When a worker was held up."""
        return Held.of(self._stalls.of_worker(worker).blocking())

    @property
    def front_end(self) -> FrontEnd:
        """The stalls of the front end."""
        return self._front_end


class _Shared:
    """What all attempts of one worker lived through."""

    def __init__(self, run: _Run, worker: int, ledger: Ledger, events: Events) -> None:
        self._run = run
        self._passes, self._facts = ledger.passes, ledger.facts
        self._events = events.where(events.are(EventKind.PREEMPTED, EventKind.RESUMED))
        self._deliveries = run.deliveries(worker)
        self._held = run.stalls(worker)
        self._clock = self._held.measure()
        self._on_clock = self._passes.on(self._clock)
        self._queue = Queue(self._on_clock, self._facts, ledger.attempts.on(self._clock))
        self._whole = self._facts.complete()

    def charge(self, budget: Budget, attempts: Attempts, slices: Slices) -> None:
        """Some of the attempts, with all of their slices."""
        passes, front_end, clock = self._passes, self._run.front_end, self._clock
        # A step exists once its row does: what lies beyond the last row is of a step that was cut off.
        parts = Parts.of(slices.take(slices.step <= passes.step[-1]), passes, attempts)
        started = parts.starts(passes, attempts)
        until = _queue_ends(passes, attempts, started)
        way_out = WayOut.of(parts, passes, attempts, self._deliveries)
        marks = Marks.of(parts, self._events, attempts)
        charge_return(budget, parts, attempts, way_out, front_end)
        self._run.leave_partly_kept(budget, attempts)
        _charge_in_flight(budget, self._on_clock, attempts, clock, front_end)
        _charge_held(budget, self._held, attempts, started, way_out.left(parts, passes, attempts))
        attempts, way_out = attempts.on(clock), way_out.on(clock)
        self._queue.charge(budget, attempts, clock.outside(until))
        charge_steps(budget, self._on_clock, parts, attempts, way_out, largest_prefill=self._facts.largest_prefill.rid)
        charge_gaps(budget, self._on_clock, self._whole, attempts, marks)


def _placed(attempts: Attempts, events: Events, slices: Source) -> Attempts:
    """Attempts that don't name their worker get the one that saw them first: in its events, else in its slices."""
    attempts = attempts.placed(events.rid, events.worker)
    homeless = np.unique(attempts.rid[~known(attempts.worker)])
    if not len(homeless):
        return attempts
    found = [chunk.take(np.isin(chunk.rid, homeless)) for chunk in slices.chunks()]
    sighted = Slices.joined(*found)
    sighted = sighted.take(np.argsort(sighted.step, kind="stable"))
    return attempts.placed(sighted.rid, sighted.worker)


def _charge_ingress(budget: Budget, attempts: Attempts, front_end: FrontEnd) -> None:
    """On its way to its worker; before that in the hands of one that was lost, if another attempt tells of that."""
    admitted = np.minimum(attempts.admitted, attempts.end)
    elsewhere = attempts.handed_on & known(admitted)
    budget.charge(EARLIER_ATTEMPT, attempts.row, np.where(elsewhere, admitted - attempts.arrival, 0))
    attempts = replace(attempts, arrival=np.where(elsewhere, admitted, attempts.arrival))
    stalled = front_end.charge_entry(budget, attempts, admitted)
    budget.charge(INGRESS, attempts.row, np.where(known(admitted), admitted - attempts.arrival, 0) - stalled)


def _charge_in_flight(budget: Budget, passes: Passes, attempts: Attempts, clock: Measure, front_end: FrontEnd) -> None:
    """On its way to a worker that was in the middle of a step, or held up, and could not look; `passes` on `clock`."""
    step = passes.measure(~passes.is_kind(StepKind.IDLE))
    sent = known(attempts.admitted) & known(attempts.queued)
    lo, hi = attempts.admitted, np.minimum(attempts.queued, attempts.end)
    ns = step.between(clock.outside(lo), clock.outside(hi))
    budget.charge(STEP_IN_FLIGHT, attempts.row, np.where(sent, ns, 0))
    front_end.charge_sending(budget, attempts, clock, step)


def _charge_held(budget: Budget, held: Held, attempts: Attempts, started: Ints, left: Ints) -> None:
    """The stalls of a worker, from where an attempt was on its way to it until it left."""
    queued = first_known(attempts.queued, started)
    sent = known(attempts.admitted) & known(attempts.queued)
    held.charge(budget, attempts.row, np.where(sent, attempts.admitted, queued), left)


def _queue_ends(passes: Passes, attempts: Attempts, started: Ints) -> Ints:
    """When waiting ended: where the pass that started it began, else its start, else when it left or time ran out.

    The planning of the pass that starts an attempt is the host's work for it, not waiting. An attempt that finished
    but whose start nobody recorded has no known wait.
    """
    at = passes.starting(started)
    begun = np.where(at >= 0, np.maximum(passes.sched[at], attempts.queued), started)
    never = np.where(attempts.finished, NONE, first_known(attempts.gone, attempts.end))
    return np.minimum(first_known(begun, never), attempts.end)
