"""Who waits: preempted requests first, then those let in as a batch, then new ones by the order that is configured."""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from engine.core import Head
from engine.scheduling.blocks import BlockPool
from engine.scheduling.deadlines import Deadlines
from engine.scheduling.forecast import Forecast
from engine.scheduling.order import Order
from engine.scheduling.rules import Queue, StartRule
from engine.scheduling.sequence import Sequence
from recorder.words import Phase, Reason


class WaitingLine:
    """The queue of one worker. `tokens` is what all in it have to compute before their next output token."""

    def __init__(self, rule: StartRule, order: Order, forecast: Forecast, pool: BlockPool, watermark: int) -> None:
        self._rule = rule
        self._new = order
        self._forecast = forecast
        self._deadlines = Deadlines()
        self._gap_ns = 0
        self._last_arrival: int | None = None
        self._pool = pool
        self._watermark = watermark
        self._batch: deque[Sequence] = deque()
        """Whom the rule has let in together: whatever comes meanwhile, they start next."""
        self._preempted: deque[Sequence] = deque()
        self._timer_since: int | None = None
        """Begin of the unbroken stretch of passes whose head waits for the batch timer."""
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._batch) + len(self._preempted)

    @property
    def front(self) -> Sequence | None:
        """Who starts next."""
        if again := self._preempted or self._batch:
            return again[0]
        return self._new.front if self._new else None

    def join(self, sequence: Sequence) -> None:
        """A new request takes its place in the order."""
        self._new.join(sequence)
        self._deadlines.join(sequence)
        self._note_gap(sequence.request.arrival)
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
        self._deadlines.leave(sequence)
        if sequence in self._new:
            self._new.leave(sequence)
        else:
            self._batch.remove(sequence)
        self._note_batch_wait(sequence)

    def start(self) -> Sequence:
        """Take the front out, to run."""
        sequence = self.front
        if sequence is None:
            raise ValueError("nobody waits")
        if not sequence.progress.preemptions and sequence in self._new:
            self._let_in(Reason.NONE)
        self.leave(sequence)
        return sequence

    @property
    def preempted(self) -> Iterable[Sequence]:
        """Those that have begun before, in the order in which they resume."""
        return self._preempted

    def served(self, sequence: Sequence, output_tokens: int) -> None:
        """One that has started was given output tokens: orders may count them."""
        self._new.served(sequence, output_tokens)

    def ask_rule(self, now: int, running: int) -> tuple[Reason, int | None]:
        """Why the front may not start, and when to ask again; NONE if it may.

        The rule is not asked about those it has let in, nor about preempted ones, whom it let in before.
        """
        if self._preempted or self._batch:
            return Reason.NONE, None
        verdict = self._rule(self._queue(now, running))
        for _ in range(verdict.start):
            self._let_in(verdict.reason)
        if verdict.start or verdict.open:
            return Reason.NONE, None
        wakes = [t for t in (verdict.wake_at, self._deadlines.earliest) if t is not None]
        return verdict.reason, min(wakes, default=None)

    def _queue(self, now: int, running: int) -> Queue:
        return Queue(
            now,
            len(self._new),
            self._new.oldest.request.arrival,
            running,
            self._fitting,
            self._start_by,
            bool(self._deadlines),
            self._gap_ns,
        )

    def passed(self, now: int) -> list[Sequence]:
        """Those never started whose deadline has passed; each is told once."""
        return self._deadlines.passed(now)

    def delay(self, sequence: Sequence) -> None:
        """Its deadline has passed: it waits on, behind all others. One that is let in already keeps its place."""
        if sequence in self._new:
            self._new.delay(sequence)

    def _let_in(self, reason: Reason) -> None:
        """The front of the order starts next; `reason` is why a batch leaves now."""
        why = self._new.why_front()
        sequence = self._new.start()
        sequence.let_in_for = reason if why is Reason.NONE else why
        self._batch.append(sequence)

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

    def _note_gap(self, arrival: int) -> None:
        if self._last_arrival is not None:
            gap = max(arrival - self._last_arrival, 0)
            self._gap_ns = (7 * self._gap_ns + gap) // 8 if self._gap_ns else gap
        self._last_arrival = arrival

    def _start_by(self, size: int) -> int | None:
        earliest = self._deadlines.earliest
        if earliest is None:
            return None
        takes = self._forecast.batch_ns(list(islice(self._new.in_order(), size)))
        return None if takes is None else earliest - takes

    def _fitting(self, limit: int) -> int:
        """How many of the `limit` that start next fit the free blocks together."""
        room = self._pool.free - self._watermark
        count = 0
        for sequence in islice(self._new.in_order(), limit):
            room -= self._pool.blocks_for(sequence.known)
            if count and room < 0:
                break
            count += 1
        return count
