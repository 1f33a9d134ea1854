"""The one loop of a worker, real or virtual: take messages in, plan, execute or wait, commit, hand out, write down.

Pass i ends where pass i+1 begins, so that a worker's time is tiled without gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.core import (
    Clock,
    Commit,
    End,
    Event,
    Executor,
    Occupancy,
    Request,
    Scheduler,
    StepPlan,
    StepResult,
)
from engine.ledger import Ledger, Stamps
from engine.messages import Cancel, Drain, Finished, Outlook, Refused, StepOutput, Submit, ToWorker
from engine.scheduling.step_time import Prediction, StepTimeModel
from recorder.words import EventKind

_IDLE: Final = StepResult()
_UNKNOWN: Final = Prediction(None, None)
_BEGIN: Final = (EventKind.SCHEDULED, EventKind.RESUMED)


class Inbox(Protocol):
    """Where messages to the worker come in."""

    def poll(self) -> Sequence[ToWorker]:
        """All messages that are here, in order, without waiting."""
        ...

    def wait(self, until_ns: int | None) -> None:
        """Return when a message is here or the instant has come (None: no instant)."""
        ...


class StepTime(Protocol):
    """Tells what a step will take, and learns from what it took."""

    def predict(self, plan: StepPlan) -> Prediction:
        """What the execution of `plan` will take."""
        ...

    def observe(self, plan: StepPlan, exec_ns: int) -> None:
        """The execution of `plan` took `exec_ns`."""
        ...


class Outbox(Protocol):
    """Where the worker hands out what its steps gave. Must not block."""

    def send(self, message: StepOutput) -> None:
        """Hand over one step's output."""
        ...


class Watcher(Protocol):
    """Who has to know more of a worker than its steps: a front end that has others to send its requests to, or that
    decides by what it foresees whom to send."""

    @property
    def heartbeat_ns(self) -> int:
        """A worker that waits tells at least so often that it lives; 0: never."""
        ...

    def starting(self, rids: Sequence[int], outlook: Outlook | None) -> None:
        """The step about to run begins these requests; what the scheduler foresees then. Must not block."""
        ...

    def alive(self, occupancy: Occupancy) -> None:
        """It waits. Must not block."""
        ...


@dataclass(slots=True)
class _News:
    """What one pass has to write down and to hand out, beside its tokens."""

    events: list[Event] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def add(self, commit: Commit) -> None:
        self.events += commit.events
        self.ends.update(commit.finished)

    def __bool__(self) -> bool:
        return bool(self.ends or self.refused)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass that has begun: its plan is made, its execution (or its wait) is to come."""

    news: _News
    plan: StepPlan
    prediction: Prediction
    t_exec: int


class Loop:
    """Drives one worker. Everything it touches is handed in, so the virtual driver is this same code.

    `run` is the whole of it. Who drives several workers on one virtual clock calls `begin` and `end` instead.
    """

    def __init__(
        self,
        worker: int,
        *,
        scheduler: Scheduler,
        executor: Executor,
        clock: Clock,
        inbox: Inbox,
        outbox: Outbox,
        ledger: Ledger,
        step_time: StepTime | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._worker = worker
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._outbox = outbox
        self._ledger = ledger
        self._step_time = step_time or StepTimeModel()
        self._watcher = watcher
        self._draining = False
        self._t_sched = clock.now()
        self._pass: _Pass | None = None
        self.done = False
        """A `Drain` has come, and all that was in the house is finished."""

    def run(self) -> None:
        """Pass after pass, until done."""
        self._t_sched = self._clock.now()
        while not self.done:
            if self.begin():
                self._wait()
            self.end()

    @property
    def wake_at(self) -> int | None:
        """Until when the pass that has begun may wait; None: until a message comes."""
        return self._pass.plan.wake_at if self._pass else None

    def begin(self) -> bool:
        """Begin a pass: take in and plan. True if there is nothing to do until a message or `wake_at` comes."""
        news = _News()
        self._take_in(news)
        news.add(self._scheduler.expire(self._t_sched))
        plan = self._scheduler.plan(self._t_sched)
        prediction = self._step_time.predict(plan) if plan.slices else _UNKNOWN
        if self._watcher and (begun := [event.rid for event in plan.events if event.kind in _BEGIN]):
            self._watcher.starting(begun, self._scheduler.outlook())
        self._pass = _Pass(news, plan, prediction, self._clock.now())
        return not plan.slices and self._idle(plan, news)

    def end(self) -> None:
        """End the pass that has begun: execute, hand out, write down. The next begins where it ends."""
        if self._pass is None:
            raise RuntimeError("no pass has begun")
        news, plan, prediction, t_exec = self._pass.news, self._pass.plan, self._pass.prediction, self._pass.t_exec
        self._pass = None
        result = self._executor.execute(plan) if plan.slices else _IDLE
        t_done = self._clock.now()
        commit = self._scheduler.commit(plan, result, t_exec, t_done)
        news.add(commit)
        self._hand_out(plan, commit, news)
        self._ledger.details(plan, news.events, news.ends)
        if plan.slices:
            self._step_time.observe(plan, t_done - t_exec)
        t_end = self._clock.now()
        self._ledger.step(plan, Stamps(self._t_sched, t_exec, t_done, t_end), result.device_ns, prediction)
        self._t_sched = t_end

    def _wait(self) -> None:
        """Until a message or `wake_at` comes; whoever watches hears meanwhile that the worker lives."""
        while self._watcher and self._watcher.heartbeat_ns:
            beat = self._clock.now() + self._watcher.heartbeat_ns
            if self.wake_at is not None and self.wake_at <= beat:
                break
            self._inbox.wait(beat)
            if self._clock.now() < beat:
                return
            self._watcher.alive(self._scheduler.occupancy())
        self._inbox.wait(self.wake_at)

    def _take_in(self, news: _News) -> None:
        for message in self._inbox.poll():
            match message:
                case Submit():
                    self._submit(message, news)
                case Cancel(rid=rid):
                    news.add(self._scheduler.cancel(rid, self._clock.now()))
                case Drain():
                    self._draining = True

    def _submit(self, message: Submit, news: _News) -> None:
        request = Request(
            message.rid,
            len(message.prompt),
            message.max_tokens,
            message.arrival,
            message.attempt,
            message.tier,
            message.tenant,
            message.priority,
            message.deadline,
            message.prompt,
        )
        now = self._clock.now()
        admission = self._scheduler.add(request, now)
        if admission.accepted:
            self._executor.start(message.rid, message.prompt, message.sampling)
            news.events.append(Event(now, message.rid, EventKind.QUEUED))
        else:
            news.events.append(Event(now, message.rid, EventKind.REJECTED))
            news.refused.append(Refused(message.rid, admission.reason))

    def _idle(self, plan: StepPlan, news: _News) -> bool:
        """Whether an idle pass waits: unless there is something to hand out, or nothing to wait for."""
        self.done = self._draining and not plan.occupancy.waiting
        return not news and not self.done

    def _hand_out(self, plan: StepPlan, commit: Commit, news: _News) -> None:
        """Send one message for the whole pass; an idle pass without news sends none."""
        for rid in news.ends:
            self._executor.release(rid)
        if not plan.slices and not news:
            return
        now = self._scheduler.occupancy()
        tokens = [(sampled.rid, sampled.token) for sampled in commit.sampled]
        finished = [_finished(end) for end in news.ends.values()]
        kv_used = now.kv_total - now.kv_free
        sent = self._clock.now()
        self._outbox.send(
            StepOutput(
                self._worker,
                plan.step,
                sent,
                tokens,
                finished,
                news.refused,
                now.waiting,
                now.waiting_tokens,
                now.running,
                kv_used,
                self._scheduler.outlook(),
            )
        )


def _finished(end: End) -> Finished:
    progress = end.progress
    return Finished(
        progress.rid,
        end.reason,
        progress.queued,
        progress.first_scheduled,
        progress.first_token,
        progress.last_token,
        progress.output_tokens,
        progress.cached_tokens,
        progress.preemptions,
        progress.recomputed_tokens,
        progress.device_ns,
        end.spans[-1].end if end.spans else progress.queued,
    )
