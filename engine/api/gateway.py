"""Between the handlers and the workers: numbers requests, hands them over, brings every token to its attempt."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from engine.api.attempt import Attempt, Detokenizer, Submission, Verdict
from engine.api.errors import (
    context_exceeded,
    ended_with_worker,
    expired,
    never_fits,
    turned_away,
    unavailable,
    worker_lost,
)
from engine.api.fleet import Fleet
from engine.api.ledger import FrontLedger
from engine.api.retries import Latest
from engine.config import Config
from engine.core import EXPIRED, Request
from engine.messages import Cancel, Heartbeat, Ready, Starting, StepOutput, Submit
from engine.scheduling.deadlines import deadline_of
from engine.scheduling.gate import Gate
from engine.scheduling.handback import HandedBack, ending, lost_words
from engine.scheduling.router import Choice, Lease
from recorder.words import EventKind, Reason, Status


class Gateway:
    """Holds every attempt that is in a worker's hands. Lives in the event loop; nothing here waits."""

    def __init__(
        self, ledger: FrontLedger, detokenizer: Callable[[], Detokenizer], config: Config, fleet: Fleet
    ) -> None:
        self.closed_because = "the model is still loading; try again when /health answers 200"
        """Why requests are not taken; empty while they are."""
        self._config = config.scheduler
        self._gate = Gate(config.scheduler)
        self._ledger = ledger
        self._detokenizer = detokenizer
        self._fleet = fleet
        self._live: dict[int, Attempt] = {}
        self._rids = itertools.count(1)
        self._latest = Latest()
        self._cut = ""

    @property
    def ready(self) -> Ready | None:
        """What the worker with the least room has told of itself; None until all are ready."""
        return self._fleet.ready

    def check_open(self) -> Ready:
        """As `ready`. Raises ApiError 503 while requests are not taken."""
        if self.closed_because or self.ready is None:
            raise unavailable(self.closed_because)
        return self.ready

    def submit(self, submission: Submission) -> Attempt:
        """Hand a request to a worker, if the gate takes it in; else the attempt has failed already.

        Raises ApiError 503 when closed, 400 when it can never fit.
        """
        self.check_open()
        deadline = deadline_of(submission.deadline, submission.arrival, self._config)
        attempt = Attempt(next(self._rids), replace(submission, deadline=deadline), self._detokenizer())
        if submission.attempt > 1:
            attempt.retry_of = self._latest.of(submission.tenant, submission.request_id)
        self._latest.note(submission.tenant, submission.request_id, attempt.rid)
        self._check_length(attempt)
        choice = self._choose(attempt)
        self._ledger.arrived(attempt, self._fleet.state(choice.replica))
        admission = self._gate.judge(_request(attempt), choice.replica, time.monotonic_ns())
        if not admission.accepted:
            self._ledger.turned_away(attempt, admission.why)
            attempt.fail(turned_away(admission), Status.REJECTED)
            return attempt
        self._hand_over(attempt, choice)
        return attempt

    def _choose(self, attempt: Attempt) -> Choice:
        """Which worker an attempt goes to."""
        choice = self._fleet.router.choose(attempt.prompt, time.monotonic_ns())
        if choice is None:
            raise unavailable("no worker is left to take requests")
        attempt.worker = choice.replica
        return choice

    def _hand_over(self, attempt: Attempt, choice: Choice) -> None:
        self._live[attempt.rid] = attempt
        self._fleet.router.send(attempt.rid, choice, len(attempt.prompt))
        attempt.admitted = time.monotonic_ns()
        self._fleet.send(choice.replica, _submit(attempt))
        self._ledger.sent(attempt)
        if self._fleet.size > 1:
            self._ledger.routed(attempt, choice.reason)

    def settle(self, attempt: Attempt, verdict: Verdict) -> None:
        """The client has its answer, or won't get one. What a worker still holds of it is called back."""
        attempt.close(verdict)
        if attempt.rid in self._live:
            self._fleet.send(attempt.worker, Cancel(attempt.rid))
        else:
            self._ledger.ended(attempt, verdict)

    def client_left(self, attempt: Attempt) -> None:
        """Its connection is closed; what a worker holds of it is called back."""
        self.settle(attempt, Verdict(Status.CANCELLED, self._cut or "the client went away"))

    def cut_off(self, reason: str) -> None:
        """End every attempt that is still in a worker's hands."""
        self._cut = reason
        for attempt in self._live.values():
            attempt.fail(unavailable(reason), Status.CANCELLED)

    # -- what workers tell ---------------------------------------------------------------------------------------------

    def on_message(self, message: Ready | StepOutput | Heartbeat | Starting, now: int) -> None:
        """Take a message of a worker that was read at `now` (ns)."""
        if self._fleet.heard(message.worker, now):
            self._joins(message.worker)
        match message:
            case StepOutput():
                output = self._current(message)
                self._gate.told(output, now)
                self._dispatch(output, now)
            case Starting():
                owned = [rid for rid in message.rids if self._fleet.router.owns(message.worker, rid)]
                starting = Starting(message.worker, message.t_sent, owned, message.outlook)
                self._fleet.router.started(starting.rids)
                self._gate.told(starting, now)
            case Heartbeat():
                self._fleet.take_report(message)
            case Ready():
                complete = self._fleet.take_ready(message, now)
                self._joins(message.worker)
                if complete:
                    self.closed_because = ""

    def _joins(self, worker: int) -> None:
        self._ledger.worker_event(EventKind.WORKER_READY, worker)
        self._gate.joins(worker, self._fleet.room(worker))

    def _current(self, output: StepOutput) -> StepOutput:
        """The same without what is said of attempts that were handed back meanwhile: late results (SPEC A7)."""
        if self._fleet.size == 1:
            return output
        owns = partial(self._fleet.router.owns, output.worker)
        return msgspec.structs.replace(
            output,
            tokens=[(rid, token) for rid, token in output.tokens if owns(rid)],
            finished=[end for end in output.finished if owns(end.rid)],
            refused=[refused for refused in output.refused if owns(refused.rid)],
        )

    def _dispatch(self, output: StepOutput, now: int) -> None:
        delivery, router = self._ledger.delivery(output, now), self._fleet.router
        for rid, token in output.tokens:
            router.answered(rid, now)
            if self._live[rid].push(token, delivery):
                self._fleet.send(output.worker, Cancel(rid))
        for refused in output.refused:
            router.ended(refused.rid, now)
            attempt = self._live.pop(refused.rid)
            attempt.fail(never_fits(refused), Status.REJECTED)
            self._close_if_settled(attempt)
        for finished in output.finished:
            router.ended(finished.rid, now)
            attempt = self._live.pop(finished.rid)
            attempt.finish(finished, delivery)
            if finished.finish_reason == EXPIRED:
                attempt.fail(expired(), Status.EXPIRED)
            self._close_if_settled(attempt)
        delivery.dispatched()
        self._fleet.take_report(output)

    def _close_if_settled(self, attempt: Attempt) -> None:
        if attempt.verdict:
            self._ledger.ended(attempt, attempt.verdict)

    # -- workers that are lost -----------------------------------------------------------------------------------------

    def on_gone(self, worker: int, *, died: bool) -> None:
        """A worker is gone; `died` unless it was let go. Others go on with what it held."""
        if died:
            self._ledger.worker_event(EventKind.WORKER_LOST, worker)
        self._gate.leaves(worker)
        held = self._fleet.lose(worker, gone=True)
        if not self._fleet.router.living:
            self.closed_because = "the worker is gone; the server is stopping"
        self._take_back(held, lost_words(worker, silent=False))

    def take_out_silent(self, now: int) -> None:
        """Take workers out that were not heard for too long. Should one be heard again, it is in again."""
        for worker in self._fleet.router.silent(now):
            self._ledger.worker_event(EventKind.WORKER_LOST, worker, Reason.HEARTBEAT)
            self._gate.leaves(worker)
            held = self._fleet.lose(worker, gone=False)
            for lease in held:
                self._fleet.send(worker, Cancel(lease.rid))
            self._take_back(held, lost_words(worker, silent=True))

    def _take_back(self, held: Sequence[Lease], why: str) -> None:
        for lease in held:
            attempt = self._live.pop(lease.rid)
            attempt.losses += lease.running
            self._ledger.lost(attempt)
            if attempt.verdict:
                self._ledger.ended(attempt, attempt.verdict)
            elif not attempt.failure:
                self._try_again(attempt, why)

    def _try_again(self, attempt: Attempt, why: str) -> None:
        """Hand a request that its worker took with it to another one, or end it (SPEC A7, C9)."""
        asked = attempt.submission
        sent = len(attempt.tokens) if asked.stream else 0
        case = HandedBack(attempt.workers, attempt.losses, asked.deadline, sent)
        if not self._fleet.router.living:
            attempt.fail(worker_lost(), Status.FAILED)
        elif end := ending(case, self._fleet.config, time.monotonic_ns()):
            attempt.fail(ended_with_worker(end), end.status)
        else:
            self._ledger.handed_on(attempt, why)
            attempt.again(next(self._rids), self._detokenizer())
            self._latest.note(asked.tenant, asked.request_id, attempt.rid)
            choice = replace(self._choose(attempt), reason=Reason.HANDED_BACK)
            self._ledger.arrived(attempt, self._fleet.state(choice.replica))
            self._gate.hands_over(_request(attempt), choice.replica)
            self._hand_over(attempt, choice)

    # -- limits --------------------------------------------------------------------------------------------------------

    def _check_length(self, attempt: Attempt) -> None:
        asked, limit = attempt.submission, self.context()
        if len(asked.prompt) + asked.max_tokens <= limit:
            return
        field = "max_tokens" if len(asked.prompt) < limit else asked.prompt_field
        failure = context_exceeded(len(asked.prompt), asked.max_tokens, limit, field)
        self._ledger.refused(attempt, failure.message, failure.status)
        raise failure

    def context(self) -> int:
        """Most tokens of prompt and output together: the model's limit, or the whole KV cache where that is less."""
        ready = self.check_open()
        return min(ready.max_model_len, ready.kv_blocks * ready.block_size)


def _request(attempt: Attempt) -> Request:
    asked = attempt.submission
    return Request(
        attempt.rid,
        len(attempt.prompt),
        attempt.max_tokens,
        asked.arrival,
        tier=asked.tier,
        tenant=asked.tenant,
        priority=asked.priority,
        deadline=asked.deadline,
    )


def _submit(attempt: Attempt) -> Submit:
    asked = attempt.submission
    return Submit(
        rid=attempt.rid,
        attempt=attempt.number,
        prompt=list(attempt.prompt),
        max_tokens=attempt.max_tokens,
        sampling=asked.sampling,
        arrival=asked.arrival,
        tier=asked.tier,
        tenant=asked.tenant,
        priority=asked.priority,
        deadline=asked.deadline,
    )
