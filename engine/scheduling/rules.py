"""When waiting requests may start: one pure function per policy. The mechanics of starting are the scheduler's."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import SchedulerConfig
from recorder.words import Reason


@dataclass(frozen=True, slots=True)
class Queue:
    """What a rule may know: the requests never let in yet, and how many started ones are unfinished.

    `fitting(n)` tells how many of the first `n` waiting fit the free KV blocks together (at least one of an idle
    worker's queue). `start_by(n)` is the last instant at which a batch of the first `n` can start and still meet the
    deadlines of all `waiting`; None where there are none, or where it can't be told. `gap_ns` is the mean time between
    arrivals of late, 0 before there were two.
    """

    now: int
    waiting: int
    oldest_arrival: int
    unfinished: int
    fitting: Callable[[int], int]
    start_by: Callable[[int], int | None] = lambda size: None
    has_deadlines: bool = False
    gap_ns: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first `start` of the queue may start as one batch, as soon as slots, tokens and blocks allow.

    `reason` is then why it leaves. `open`: whoever is in front may start, and nobody is held to a batch. If nobody may,
    the head waits for `reason`, and the rule is asked again at `wake_at` if nothing happens before.
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
    if config.policy == "dynamic":
        return dynamic(config)
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
        full = queue.waiting >= batch_size
        return Verdict(queue.fitting(batch_size), reason=Reason.BATCH_FULL if full else Reason.BATCH_TIMER)

    return rule


def dynamic(config: SchedulerConfig) -> StartRule:
    """A batch for a free worker: full, of a preferred size, waited enough, or a deadline in danger (SPEC A1, A2).

    As with `static`, the wait runs from the oldest arrival. With `adaptive_wait` it fits the load (SPEC D4).
    """
    preferred = sorted(
        {size for size in config.preferred_batch_size if size <= config.batch_size} | {config.batch_size}
    )

    def rule(queue: Queue) -> Verdict:
        if queue.unfinished:
            return _BUSY
        reached = [size for size in preferred if size <= queue.waiting]
        if reached:
            return Verdict(queue.fitting(reached[-1]), reason=Reason.BATCH_FULL)
        missing = preferred[0] - queue.waiting
        waited_at = queue.oldest_arrival + _longest_wait(config, queue, missing)
        if queue.now >= waited_at:
            return Verdict(queue.fitting(queue.waiting), reason=Reason.BATCH_TIMER)
        start_by = queue.start_by(queue.waiting)
        if start_by is not None and queue.now >= start_by:
            return Verdict(queue.fitting(queue.waiting), reason=Reason.DEADLINE)
        wake_at = waited_at if start_by is None else min(waited_at, start_by)
        return Verdict(reason=Reason.BATCH_TIMER, wake_at=wake_at)

    return rule


def _longest_wait(config: SchedulerConfig, queue: Queue, missing: int) -> int:
    """How long the oldest may wait for `missing` more (SPEC D4): never longer than the configured delay.

    Where all that wait are offline (none has a deadline), all of it. Else no longer than twice the time in which the
    batch should fill, which is short at peak; and not at all where it would not fill in time anyway.
    """
    delay = config.max_queue_delay_ns
    if not config.adaptive_wait or not queue.has_deadlines:
        return delay
    fills_ns = missing * queue.gap_ns
    return min(delay, 2 * fills_ns) if 0 < fills_ns <= delay else 0
