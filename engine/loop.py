"""The one loop of a worker, real or virtual: take messages in, plan, execute or wait, commit, hand out, write down.

Pass i ends where pass i+1 begins, so that a worker's time is tiled without gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.core import Clock, Commit, End, Event, Executor, Request, Scheduler, StepPlan, StepResult
from engine.ledger import Ledger, Stamps
from engine.messages import Cancel, Drain, Finished, Refused, StepOutput, Submit, ToWorker
from engine.scheduling.step_time import Prediction, StepTimeModel
from recorder.words import EventKind

_IDLE: Final = StepResult()
_UNKNOWN: Final = Prediction(None, None)


class Inbox(Protocol):
    """Where messages to the worker come in."""

    def poll(self) -> Sequence[ToWorker]:
        """All messages that are here, in order, without waiting."""
        ...

    def wait(self, until_ns: int | None) -> None:
        """Return when a message is here or the instant has come (None: no instant)."""
        ...


class Outbox(Protocol):
    """Where the worker hands out what its steps gave. Must not block."""

    def send(self, message: StepOutput) -> None:
        """Hand over one step's output."""
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


class Loop:
    """Drives one worker. Everything it touches is handed in, so the virtual driver is this same code."""

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
    ) -> None:
        self._worker = worker
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._outbox = outbox
        self._ledger = ledger
        self._step_time = StepTimeModel()
        self._draining = False
        self._done = False

    def run(self) -> None:
        """Pass after pass, until a `Drain` has come and all that was in the house is finished."""
        t = self._clock.now()
        while not self._done:
            t = self._pass(t)

    def _pass(self, t_sched: int) -> int:
        """One pass from `t_sched`; returns its end."""
        news = _News()
        self._take_in(news)
        plan = self._scheduler.plan(t_sched)
        prediction = self._step_time.predict(plan) if plan.slices else _UNKNOWN
        t_exec = self._clock.now()
        result = self._executor.execute(plan) if plan.slices else self._idle(plan, news)
        t_done = self._clock.now()
        commit = self._scheduler.commit(plan, result, t_exec, t_done)
        news.add(commit)
        self._hand_out(plan, commit, news)
        self._ledger.details(plan, news.events, news.ends)
        if plan.slices:
            self._step_time.observe(plan, t_done - t_exec)
        t_end = self._clock.now()
        self._ledger.step(plan, Stamps(t_sched, t_exec, t_done, t_end), result.device_ns, prediction)
        return t_end

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
        )
        now = self._clock.now()
        admission = self._scheduler.add(request, now)
        if admission.accepted:
            self._executor.start(message.rid, message.prompt, message.sampling)
            news.events.append(Event(now, message.rid, EventKind.QUEUED))
        else:
            news.events.append(Event(now, message.rid, EventKind.REJECTED))
            news.refused.append(Refused(message.rid, admission.reason))

    def _idle(self, plan: StepPlan, news: _News) -> StepResult:
        """Wait for a message or the plan's instant, unless there is something to hand out or nothing to wait for."""
        self._done = self._draining and not plan.occupancy.waiting
        if not news and not self._done:
            self._inbox.wait(plan.wake_at)
        return _IDLE

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
