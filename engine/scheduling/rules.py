"""When waiting requests may start: one pure function per policy. The mechanics of starting are the scheduler's."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import SchedulerConfig
from recorder.words import Reason


@dataclass(frozen=True, slots=True)
class Queue:
    """What a rule may know: the requests never let in yet, and how many started ones are unfinished.

    `fitting(n)` tells how many of the first `n` waiting fit the free KV blocks together (at least one of an idle
    worker's queue).
    """

    now: int
    waiting: int
    oldest_arrival: int
    unfinished: int
    fitting: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first `start` of the queue may start as one batch, as soon as slots, tokens and blocks allow.

    `open`: whoever is in front may start, and nobody is held to a batch. If nobody may, the head waits for `reason`,
    and the rule is asked again at `wake_at` if nothing happens before.
    """

    start: int = 0
    open: bool = False
    reason: Reason = Reason.NONE
    wake_at: int | None = None


StartRule = Callable[[Queue], Verdict]
_BUSY = Verdict(reason=Reason.WORKER_BUSY)
_OPEN = Verdict(open=True)


def start_rule(config: SchedulerConfig) -> StartRule:
    """The rule of the configured policy (SPEC C3)."""
    if config.policy == "static":
        return static(config.batch_size, config.max_queue_delay_ns)
    return immediate if config.policy == "immediate" else continuous


def immediate(queue: Queue) -> Verdict:
    """One request at a time: the next starts when the one before has finished (SPEC E3)."""
    return _BUSY if queue.unfinished else Verdict(1)


def continuous(queue: Queue) -> Verdict:
    """Whoever waits may start, at every step."""
    return _OPEN


def static(batch_size: int, max_delay_ns: int) -> StartRule:
    """Whole batches: the next leaves when the one before has finished, and is full or has waited enough (SPEC A1, A2).

    The wait runs from the oldest request's arrival and is never restarted, so that a batch which has waited enough
    leaves at once when the worker frees. Memory can cut a batch short: the rest waits for the next one.
    """

    def rule(queue: Queue) -> Verdict:
        if queue.unfinished:
            return _BUSY
        leaves_at = queue.oldest_arrival + max_delay_ns
        if queue.waiting < batch_size and queue.now < leaves_at:
            return Verdict(reason=Reason.BATCH_TIMER, wake_at=leaves_at)
        return Verdict(queue.fitting(batch_size))

    return rule
