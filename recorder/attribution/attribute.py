"""Attribution of a whole run: attempts and passes are read once, then each worker is charged by itself."""

import numpy as np
import pyarrow as pa

from recorder.attribution.attempts import Attempts, Events
from recorder.attribution.budget import INGRESS, STEP_IN_FLIGHT, Budget
from recorder.attribution.columns import Ints, Tables, first_known, ints, known
from recorder.attribution.gaps import Marks, charge_gaps, complete
from recorder.attribution.passes import Passes
from recorder.attribution.running import WayOut, charge_return, charge_steps
from recorder.attribution.slices import Deliveries, Parts, Slices
from recorder.attribution.stalls import FrontEnd, Held, Stalls
from recorder.attribution.waiting import charge_waiting
from recorder.schema import NONE
from recorder.words import StepKind


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

    Stalls of the host are in no other cause: what a collection, a cold step or a blocked event loop took of an
    attempt's time is `HOST_GC`, `HOST_WARMUP` or `HOST_LOOP`. Where their rows were lost, the time is in the cause that
    it would have had without the stall.
    """
    run = _Run(tables)
    for worker in np.unique(run.attempts.worker):
        run.charge(int(worker))
    return run.table()


class _Run:
    """The columns of a run, and the budget they are charged to."""

    def __init__(self, tables: Tables) -> None:
        self._requests = tables.table("requests")
        self._left_out = tables.left_out
        self._passes = Passes.read(tables.table("steps"))
        self._slices = Slices.read(tables.table("slices"))
        self._deliveries = tables.table("deliveries")
        self._stalls = Stalls.read(tables.table("stalls"))
        self._front_end = FrontEnd(self._stalls.of_front_end())
        events = Events.read(tables.table("events"))
        self._events = events.where(known(events.rid))
        self.attempts = (
            Attempts.read(self._requests)
            .placed(self._events.rid, self._events.worker)
            .placed(self._slices.rid, self._slices.worker)
        )
        self._budget = Budget(len(self.attempts))

    def table(self) -> pa.Table:
        return self._budget.table(ints(self._requests, "rid"), ints(self._requests, "attempt"))

    def charge(self, worker: int) -> None:
        """Charge the attempts of one worker; NONE is the worker of those that never reached one."""
        passes = self._passes.of(worker)
        events = self._events.where(self._events.worker == worker)
        ends = (passes if len(passes) else self._passes).end
        attempts = self.attempts.take(np.flatnonzero(self.attempts.worker == worker))
        attempts = attempts.completed(events).ended(ends.max() if len(ends) else NONE)
        self._budget.open(attempts.row, attempts.end - attempts.arrival)
        _charge_ingress(self._budget, attempts, self._front_end)
        if len(passes):
            self._charge_passes(worker, passes, attempts, events)
        else:
            self._leave_partly_kept(attempts)

    def _leave_partly_kept(self, attempts: Attempts) -> None:
        """Whoever was turned away has no worker, and nothing of it was left out."""
        came = known(attempts.worker) | known(attempts.admitted)
        touched = self._left_out.touches(attempts.worker, attempts.arrival, attempts.end)
        self._budget.leave(attempts.row[came & touched])

    def _charge_passes(self, worker: int, passes: Passes, attempts: Attempts, events: Events) -> None:
        slices = self._slices.take(self._slices.worker == worker)
        # A step exists once its row does: what lies beyond the last row is of a step that was cut off.
        slices = slices.take(slices.step <= passes.step[-1])
        parts = Parts.of(slices, passes, attempts)
        started = parts.starts(passes, attempts)
        until = _queue_ends(passes, attempts, started)
        way_out = WayOut.of(parts, passes, attempts, Deliveries.read(self._deliveries, worker))
        marks = Marks.of(parts, events, attempts)
        whole = complete(passes, slices)
        charge_return(self._budget, parts, attempts, way_out, self._front_end)
        self._leave_partly_kept(attempts)
        held = Held.of(self._stalls.of_worker(worker).blocking())
        _charge_in_flight(self._budget, passes, attempts, held, self._front_end)
        _charge_held(self._budget, held, attempts, started, way_out.left(parts, passes, attempts))
        clock = held.measure()
        passes, attempts, way_out = passes.on(clock), attempts.on(clock), way_out.on(clock)
        charge_waiting(self._budget, passes, parts, attempts, clock.outside(until))
        charge_steps(self._budget, passes, parts, attempts, way_out)
        charge_gaps(self._budget, passes, whole, attempts, marks)


def _charge_ingress(budget: Budget, attempts: Attempts, front_end: FrontEnd) -> None:
    admitted = np.minimum(attempts.admitted, attempts.end)
    stalled = front_end.charge_entry(budget, attempts, admitted)
    budget.charge(INGRESS, attempts.row, np.where(known(admitted), admitted - attempts.arrival, 0) - stalled)


def _charge_in_flight(budget: Budget, passes: Passes, attempts: Attempts, held: Held, front_end: FrontEnd) -> None:
    """On its way to a worker that was in the middle of a step, or held up, and could not look."""
    clock = held.measure()
    step = passes.on(clock).measure(~passes.is_kind(StepKind.IDLE))
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
