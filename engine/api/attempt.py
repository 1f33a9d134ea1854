"""One request on its way through the front end: tokens come in from the worker, text waits for its socket."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.api.deliveries import Delivery
from engine.api.errors import ApiError
from engine.api.stops import StopFinder
from engine.messages import Finished, Sampling
from recorder.words import Status


class Detokenizer(Protocol):
    """Turns the tokens of one sequence into text as they come."""

    def push(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete; empty while a character is unfinished."""
        ...

    def flush(self) -> str:
        """What is left at the end of the sequence."""
        ...


@dataclass(frozen=True)
class Tokenised:
    """When a prompt was tokenised, in ns, and whether it held the event loop up meanwhile."""

    begin: int
    end: int
    on_loop: bool


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is known of a request when it is handed to the worker; `arrival` in ns."""

    request_id: str
    arrival: int
    prompt: Sequence[int]
    tokenised: Tokenised | None = None
    """None where the prompt came as tokens."""
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...]
    stream: bool
    model: str
    prompt_field: str = "prompt"
    tenant: str = ""
    tier: str = ""
    priority: int = 0
    deadline: int | None = None
    """Instant in ns after which the answer is worthless."""
    attempt: int = 1
    """Of its client: more than 1 where it has tried before."""


@dataclass(frozen=True)
class Batch:
    """What has gathered since the socket last took something: it goes out in one write."""

    text: str
    finish_reason: str | None


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended for its client; `returned` in ns, None where nothing complete went back."""

    status: Status
    reason: str = ""
    returned: int | None = None


class Attempt:
    """The state of one attempt. The link pushes into it, the handler of the request takes from it."""

    def __init__(self, rid: int, submission: Submission, detokenizer: Detokenizer) -> None:
        self.rid = rid
        self.submission = submission
        self.number = submission.attempt
        """Counts its client's attempts, and the workers that it was given to, one after the loss of the other."""
        self.retry_of: int | None = None
        """The rid of the attempt before."""
        self.worker = 0
        self.losses = 0
        """Workers that were lost while it ran on them."""
        self.before = 0
        """Tokens of earlier attempts that its client keeps: they are part of the prompt now."""
        self.admitted: int | None = None
        self.end: Finished | None = None
        self.failure: ApiError | None = None
        self.failed_as = Status.FAILED
        self.verdict: Verdict | None = None
        """Once there is one, what still comes from the worker is for the ledger only."""
        self.http_status: int | None = None
        self.tokens: list[int] = []
        """Tokens whose text was delivered; after a stop string the worker may have computed a few more."""
        self.last_delivery: Delivery | None = None
        self._detokenizer = detokenizer
        self._stops = StopFinder(submission.stop)
        self._text: list[str] = []
        self._owed: list[Delivery] = []
        self._writing: list[Delivery] = []
        self._finish_reason: str | None = None
        self._wake = asyncio.Event()

    @property
    def workers(self) -> int:
        """How many it was given to, this one included."""
        return self.number - self.submission.attempt + 1

    @property
    def output_tokens(self) -> int:
        """How many tokens were delivered."""
        return len(self.tokens)

    @property
    def prompt(self) -> Sequence[int]:
        """What the worker has to go on from."""
        return [*self.submission.prompt, *self.tokens[: self.before]] if self.before else self.submission.prompt

    @property
    def max_tokens(self) -> int:
        """Output that is still asked for. Who has found its stop string only needs an end."""
        return 1 if self._stops.found else self.submission.max_tokens - self.before

    def again(self, rid: int, fresh: Detokenizer) -> None:
        """Its worker is lost: from now on it is another attempt, `rid`, that no worker has yet.

        A stream goes on after the tokens it has; an answer of which nobody has seen anything begins anew.
        """
        self.retry_of, self.rid, self.number = self.rid, rid, self.number + 1
        if self.submission.stream:
            self.before = len(self.tokens)
        else:
            self.tokens.clear()
            self._text.clear()
            self._detokenizer, self._stops = fresh, StopFinder(self.submission.stop)

    def push(self, token: int, delivery: Delivery) -> bool:
        """Take one token of a step. True when it completes a stop string, so that the worker may be told to stop."""
        if self.verdict or self._stops.found:
            return False
        self.tokens.append(token)
        self._text.append(self._stops.feed(self._detokenizer.push([token])))
        if self.submission.stream:
            self._owe(delivery)
            self._wake.set()
        return self._stops.found

    def finish(self, end: Finished, delivery: Delivery) -> None:
        """The worker has ended the attempt with this step."""
        self.end = end
        self.last_delivery = delivery
        if self.verdict:
            return
        self._text.append(self._stops.feed(self._detokenizer.flush()))
        self._text.append(self._stops.rest())
        self._finish_reason = "stop" if self._stops.found else end.finish_reason
        self._owe(delivery)
        self._wake.set()

    def fail(self, failure: ApiError, status: Status) -> None:
        """The attempt can't be completed and ends as `status`; its client is told why."""
        self.failure = failure
        self.failed_as = status
        self._wake.set()

    async def take(self) -> Batch:
        """Wait for something to write and take all of it. Raises the failure of an attempt that has failed."""
        await self._wake.wait()
        self._wake.clear()
        if self.failure:
            raise self.failure
        batch = Batch("".join(self._text), self._finish_reason)
        self._writing += self._owed
        self._text, self._owed = [], []
        return batch

    def wrote(self, now: int) -> None:
        """The socket has taken all that was last handed out."""
        for delivery in self._writing:
            delivery.written(now)
        self._writing = []

    def close(self, verdict: Verdict) -> None:
        """Nothing more will be written: the steps on their way don't wait for this socket any longer."""
        self.verdict = verdict
        for delivery in self._owed + self._writing:
            delivery.abandoned()
        self._owed, self._writing = [], []

    def _owe(self, delivery: Delivery) -> None:
        if not self._owed or self._owed[-1] is not delivery:
            self._owed.append(delivery)
            delivery.expect()
