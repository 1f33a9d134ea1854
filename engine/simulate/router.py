"""Which worker a request goes to: the one with the least queued tokens, as far as the front end can know (SPEC C6)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """What a worker has before it: prompt tokens without an answer yet; then, where those are equal, its requests."""

    queued_tokens: int
    unfinished: int


def least_queued(loads: Sequence[Load]) -> int:
    """The number of the least loaded worker, the first of equals."""
    return min(range(len(loads)), key=loads.__getitem__)


class Backlog:
    """The load of one worker as its front end sees it: what was sent, minus what answers have come back for.

    Answers may be told ahead of time; they count from the instant at which they are received.
    """

    def __init__(self) -> None:
        self._tokens = 0
        self._requests = 0
        self._coming: deque[tuple[int, int, int]] = deque()

    def sent(self, prompt_tokens: int) -> None:
        """A request went to the worker."""
        self._tokens += prompt_tokens
        self._requests += 1

    def answered(self, received: int, prompt_tokens: int) -> None:
        """The first token of a request (or its refusal) is received at that instant; instants never fall."""
        self._coming.append((received, prompt_tokens, 0))

    def finished(self, received: int) -> None:
        """A request has ended, as the front end learns at that instant."""
        self._coming.append((received, 0, 1))

    def at(self, t: int) -> Load:
        """The load at `t`; asked with `t` never falling."""
        while self._coming and self._coming[0][0] <= t:
            _, tokens, requests = self._coming.popleft()
            self._tokens -= tokens
            self._requests -= requests
        return Load(self._tokens, self._requests)
