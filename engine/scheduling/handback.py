"""What becomes of a request whose worker is lost: it goes on elsewhere, or it ends, and why (SPEC A7, C9). Pure."""

from dataclasses import dataclass
from typing import Final

from engine.config import RouterConfig
from recorder.words import Status


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A request as its worker was lost. `attempt` counts from 1, this one included, `losses` the workers that were
    lost while it ran on them; `sent_tokens` are those that its client has already, where the answer is streamed."""

    attempt: int
    losses: int
    deadline: int | None = None
    sent_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """Why it is not tried again; `code` is a word for programs."""

    status: Status
    code: str
    words: str


def lost_words(worker: int, *, silent: bool) -> str:
    """Why an attempt failed that another one goes on with."""
    return f"worker {worker} was silent for too long" if silent else f"worker {worker} died"


WORKER_LOST: Final = "worker_lost"
"""The code of those that it is safe to send again."""


def ending(case: HandedBack, config: RouterConfig, now: int) -> Ending | None:
    """Why a request ends with its worker; None if it is to go on elsewhere."""
    if case.losses >= config.max_worker_losses:
        words = f"it was running on {case.losses} workers when they were lost: isolated, as it may be what kills them"
        return Ending(Status.FAILED, "isolated", words)
    if case.deadline is not None and case.deadline <= now:
        return Ending(Status.EXPIRED, "deadline_exceeded", "its worker was lost, and its deadline has passed")
    if case.attempt >= config.max_attempts:
        words = f"{case.attempt} workers were lost with it, one after the other; it is safe to send it again"
        return Ending(Status.FAILED, WORKER_LOST, words)
    if case.sent_tokens and config.on_worker_lost == "fail":
        words = "its worker was lost when part of the answer was sent; it is safe to send it again"
        return Ending(Status.FAILED, WORKER_LOST, words)
    return None
