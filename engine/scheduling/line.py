"""Who waits: preempted requests first, then new ones, first come first served; and the rule that lets those in."""

from collections import deque
from itertools import islice

from engine.core import Head
from engine.scheduling.blocks import BlockPool
from engine.scheduling.rules import Queue, StartRule
from engine.scheduling.sequence import Sequence
from recorder.words import Phase, Reason


class WaitingLine:
    """The queue of one worker. `tokens` is what all in it have to compute before their next output token."""

    def __init__(self, rule: StartRule, pool: BlockPool, watermark: int) -> None:
        self._rule = rule
        self._pool = pool
        self._watermark = watermark
        self._new: deque[Sequence] = deque()
        self._preempted: deque[Sequence] = deque()
        self._let_in = 0
        """How many at the front of `_new` the rule has already allowed to start."""
        self._timer_since: int | None = None
        """Begin of the unbroken stretch of passes whose head waits for the batch timer."""
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._preempted)

    @property
    def front(self) -> Sequence | None:
        """Who starts next."""
        if self._preempted:
            return self._preempted[0]
        return self._new[0] if self._new else None

    def join(self, sequence: Sequence) -> None:
        """A new request goes to the end."""
        self._new.append(sequence)
        self.tokens += sequence.remaining

    def join_again(self, sequence: Sequence) -> None:
        """A preempted one goes to the front: victims leave newest first, so the oldest of them resumes first."""
        self._preempted.appendleft(sequence)
        self.tokens += sequence.remaining

    def leave(self, sequence: Sequence) -> None:
        """Out of the queue, to run or because it was cancelled."""
        self.tokens -= sequence.remaining
        if sequence.progress.preemptions:
            self._preempted.remove(sequence)
            return
        if self._new.index(sequence) < self._let_in:
            self._let_in -= 1
        self._new.remove(sequence)
        self._note_batch_wait(sequence)

    def ask_rule(self, now: int, running: int) -> tuple[Reason, int | None]:
        """Why the front may not start, and when to ask again; NONE if it may.

        The rule is not asked about those it has let in, nor about preempted ones, whom it let in before.
        """
        if self._preempted or self._let_in:
            return Reason.NONE, None
        verdict = self._rule(Queue(now, len(self._new), self._new[0].request.arrival, running, self._fitting))
        self._let_in = verdict.start
        return (Reason.NONE, None) if verdict.start else (verdict.reason, verdict.wake_at)

    def watch_timer(self, head: Head | None, now: int) -> None:
        """Remember since when, without a break, the head has been waiting for the batch timer."""
        if head is None or head.reason is not Reason.BATCH_TIMER:
            self._timer_since = None
        elif self._timer_since is None:
            self._timer_since = now

    def _note_batch_wait(self, sequence: Sequence) -> None:
        """A wait that ends while the batch timer runs (or because it ran out) was a batch wait since it began."""
        if self._timer_since is not None:
            since = max(sequence.progress.queued, self._timer_since)
            sequence.progress.batch_wait_from = since
            sequence.phases.enter(Phase.BATCH_WAIT, since)

    def _fitting(self, limit: int) -> int:
        """How many of the first `limit` new ones fit the free blocks together."""
        room = self._pool.free - self._watermark
        count = 0
        for sequence in islice(self._new, limit):
            room -= self._pool.blocks_for(sequence.known)
            if count and room < 0:
                break
            count += 1
        return count
