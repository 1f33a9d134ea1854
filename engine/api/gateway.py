"""Between the handlers and the worker: numbers requests, hands them over, brings every token to its attempt."""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from engine.api.attempt import Attempt, Detokenizer, Submission, Verdict
from engine.api.errors import context_exceeded, expired, never_fits, turned_away, unavailable, worker_lost
from engine.api.ledger import FrontLedger, State
from engine.config import Config
from engine.core import EXPIRED, Request
from engine.messages import Cancel, Failed, FromWorker, Ready, Starting, StepOutput, Submit, ToWorker
from engine.scheduling.deadlines import deadline_of
from engine.scheduling.gate import Gate
from recorder.words import EventKind, Status


class Link(Protocol):
    """The way to the worker."""

    def send(self, message: ToWorker) -> None:
        """Hand over one message without waiting."""
        ...


class Gateway:
    """Holds every attempt that is in the worker's hands. Lives in the event loop; nothing here waits."""

    def __init__(self, ledger: FrontLedger, detokenizer: Callable[[], Detokenizer], config: Config) -> None:
        self.ready: Ready | None = None
        self.failure = ""
        """Why the worker can't go on, in its own words."""
        self.closed_because = "the model is still loading; try again when /health answers 200"
        """Why requests are not taken; empty while they are."""
        self._config = config.scheduler
        self._gate = Gate(config)
        self._ledger = ledger
        self._detokenizer = detokenizer
        self._link: Link | None = None
        self._live: dict[int, Attempt] = {}
        self._rids = itertools.count(1)
        self._state = State()
        self._cut = ""

    def connect(self, link: Link) -> None:
        """Use this way to the worker."""
        self._link = link

    def check_open(self) -> Ready:
        """What the worker has told of itself. Raises ApiError 503 while requests are not taken."""
        if self.closed_because or self.ready is None:
            raise unavailable(self.closed_because)
        return self.ready

    def submit(self, submission: Submission) -> Attempt:
        """Hand a request to the worker, if the gate takes it in; else the attempt has failed already.

        Raises ApiError 503 when closed, 400 when it can never fit.
        """
        self.check_open()
        deadline = deadline_of(submission.deadline, submission.arrival, self._config)
        attempt = Attempt(next(self._rids), replace(submission, deadline=deadline), self._detokenizer())
        self._check_length(attempt)
        self._ledger.arrived(attempt, self._state)
        admission = self._gate.judge(_request(attempt), 0, time.monotonic_ns())
        if not admission.accepted:
            self._ledger.turned_away(attempt, admission.why)
            attempt.fail(turned_away(admission), Status.REJECTED)
            return attempt
        self._live[attempt.rid] = attempt
        attempt.admitted = time.monotonic_ns()
        self._send(_submit(attempt))
        self._ledger.sent(attempt)
        return attempt

    def settle(self, attempt: Attempt, verdict: Verdict) -> None:
        """The client has its answer, or won't get one. What the worker still holds of it is called back."""
        attempt.close(verdict)
        if attempt.rid in self._live:
            self._send(Cancel(attempt.rid))
        else:
            self._ledger.ended(attempt, verdict)

    def client_left(self, attempt: Attempt) -> None:
        """Its connection is closed; what the worker holds of it is called back."""
        self.settle(attempt, Verdict(Status.CANCELLED, self._cut or "the client went away"))

    def cut_off(self, reason: str) -> None:
        """End every attempt that is still in the worker's hands."""
        self._cut = reason
        for attempt in self._live.values():
            attempt.fail(unavailable(reason), Status.CANCELLED)

    def on_message(self, message: FromWorker, now: int) -> None:
        """Take a message of the worker that was read at `now` (ns)."""
        match message:
            case StepOutput():
                self._gate.told(message, now)
                self._dispatch(message, now)
            case Starting():
                self._gate.told(message, now)
            case Ready():
                self.ready, self.closed_because = message, ""
                self._gate.joins(message.worker, token_bytes=message.token_bytes)
                self._ledger.worker_event(EventKind.WORKER_READY)
            case Failed():
                self.failure = message.error

    def on_lost(self, *, died: bool) -> None:
        """The worker is gone, and what it held with it; `died` unless it was let go."""
        self._link = None
        self._gate.leaves(0)
        self.closed_because = "the worker is gone; the server is stopping"
        lost, self._live = self._live, {}
        if died:
            self._ledger.worker_event(EventKind.WORKER_LOST)
        for attempt in lost.values():
            if attempt.verdict:
                self._ledger.ended(attempt, attempt.verdict)
            else:
                attempt.fail(worker_lost(), Status.FAILED)

    def _dispatch(self, output: StepOutput, now: int) -> None:
        delivery = self._ledger.delivery(output, now)
        for rid, token in output.tokens:
            attempt = self._live.get(rid)
            if attempt and attempt.push(token, delivery):
                self._send(Cancel(rid))
        for refused in output.refused:
            attempt = self._live.pop(refused.rid)
            attempt.fail(never_fits(refused), Status.REJECTED)
            self._close_if_settled(attempt)
        for finished in output.finished:
            attempt = self._live.pop(finished.rid)
            attempt.finish(finished, delivery)
            if finished.finish_reason == EXPIRED:
                attempt.fail(expired(), Status.EXPIRED)
            self._close_if_settled(attempt)
        delivery.dispatched()
        self._state.take(output)

    def _close_if_settled(self, attempt: Attempt) -> None:
        if attempt.verdict:
            self._ledger.ended(attempt, attempt.verdict)

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

    def _send(self, message: ToWorker) -> None:
        if self._link:
            self._link.send(message)


def _request(attempt: Attempt) -> Request:
    asked = attempt.submission
    return Request(
        attempt.rid,
        len(asked.prompt),
        asked.max_tokens,
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
        attempt=1,
        prompt=list(asked.prompt),
        max_tokens=asked.max_tokens,
        sampling=asked.sampling,
        arrival=asked.arrival,
        tier=asked.tier,
        tenant=asked.tenant,
        priority=asked.priority,
        deadline=asked.deadline,
    )
