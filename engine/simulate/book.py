"""What a jumping worker takes down for the tables of a run: stretches, events and ends, still folded together.

`engine.simulate.unfold` makes rows of it, many at once.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.scheduling.sequence import Phases
from engine.simulate.running import Decodes, Running
from recorder.schema import NONE, code
from recorder.words import EventKind, Phase, Reason, Role

if TYPE_CHECKING:
    from engine.simulate.jump import JumpWorker, Part

_ROWS: Final = 1_000_000
"""Slices that are held folded before they are unfolded and written: bounds the memory."""
_STRETCHES: Final = 100_000
_DECODE: Final = code(Role.DECODE)
_NO_REASON: Final = code(Reason.NONE)

EventRow = tuple[int, int, int, int, int, int, int, int]
"""t, step, rid, kind, other_rid, reason, lost_tokens, freed_blocks."""
SpanRow = tuple[int, int, int, int, int, int]
"""rid, name, start, end, first_step, last_step."""
PartRow = tuple[int, int, int, int, int, int]
"""Stretch, place in it, role, tokens, computed_before, new_blocks."""


class Pace(NamedTuple):
    """Times of a stretch, in ps."""

    t: int
    """When it begins."""
    first: int
    """Execution of its first pass; each further one takes `slope` more."""
    slope: int
    alone: int
    """Execution of its first pass without its prefills."""


class Stretch(NamedTuple):
    """Passes alike; times in ps. An idle pass is a stretch of its own, whose `first` is its wait."""

    passes: int
    t: int
    first: int
    """Execution of the first pass; each further one takes `slope` more."""
    slope: int
    decode_only: int
    """Of the first pass without its prefills; -1 where there are no decodes."""
    counted: int
    """`Decodes.count` as it begins."""
    parts: int
    """Slices of each pass."""
    streams: int
    """Tokens of each pass."""
    waiting: int
    waiting_tokens: int
    running: int
    free: int
    """Free blocks after the last plan."""
    head: int
    reason: int
    ended: int
    """Requests that end with the last pass, and the blocks they give back."""
    freed: int
    sends: bool
    idle: bool


class Book:
    """Everything since the last `clear`. `full` is called when there is enough to write."""

    def __init__(self, full: Callable[["Book"], None]) -> None:
        self._full = full
        self.step = 0
        """Number of the pass that is planned."""
        self._last = 0
        """Number of the last pass of the stretch in progress."""
        self.first_step = 0
        self.stretches: list[Stretch] = []
        self.rids: list[int] = []
        """Of every slice of one pass of each stretch, in order."""
        self.bases: list[int] = []
        """Tokens computed before it, less `count`."""
        self.exceptions: list[PartRow] = []
        """Slices that are not plain decodes."""
        self.events: list[EventRow] = []
        self.spans: list[SpanRow] = []
        self.taken_in: list[int] = []
        self.closed: list[int] = []
        """Places of the requests that came in, and of those that ended or were refused."""
        self._rows = 0
        self._begun = (0,) * 8

    def clear(self) -> None:
        """Forget what has been written."""
        for held in (self.stretches, self.rids, self.bases, self.exceptions, self.events, self.spans):
            held.clear()
        self.taken_in.clear()
        self.closed.clear()
        self.first_step = self.step
        self._rows = 0

    # -- passes ----------------------------------------------------------------------------------------------------

    def idle(self, t: int, waited: int, free: int, *, sends: bool) -> None:
        """A pass without work that waited so long."""
        nobody = (free, NONE, _NO_REASON, 0, 0)
        self.stretches.append(Stretch(1, t, waited, 0, -1, 0, 0, 0, 0, 0, 0, *nobody, sends, True))
        self.step += 1

    def room(self, parts: int) -> int:
        """Passes with so many slices that one stretch may fold."""
        return max(1, _ROWS // parts)

    def begin(
        self, passes: int, decodes: Decodes, pace: Pace, parts: Sequence["Part"] = (), prepaid: Sequence[Running] = ()
    ) -> None:
        """A stretch, or a single pass with `parts` of prompts, is planned and not executed."""
        members, count = decodes.members, decodes.count
        self.rids += [running.index + 1 for running in members]
        self.bases += [running.base for running in members]
        n, streams = len(members), len(members)
        for place, (running, tokens, blocks) in enumerate(parts, n):
            self.rids.append(running.index + 1)
            self.bases.append(running.computed - count)
            self.exceptions.append((len(self.stretches), place, code(running.role), tokens, running.computed, blocks))
            streams += tokens == running.known - running.computed
        for running in prepaid:
            exception = (len(self.stretches), members.index(running), _DECODE, 1, running.base + count, 0)
            self.exceptions.append(exception)
        alone = pace.alone if n else -1
        self._begun = (passes, pace.t, pace.first, pace.slope, alone, count, n + len(parts), streams)
        self._rows += passes * (n + len(parts))
        self._last = self.step + passes - 1

    def end(self, worker: "JumpWorker", running: int, free: int, ended: int) -> None:
        """The stretch begun is over; `free` blocks were left before `ended` requests gave theirs back."""
        head = NONE if worker.head is None else worker.head.index + 1
        queue = (worker.waiting, worker.waiting_tokens, running)
        after = (free, head, code(worker.reason), ended, worker.free - free)
        self.stretches.append(Stretch(*self._begun, *queue, *after, True, False))
        self.step = self._last + 1
        if self._rows >= _ROWS or len(self.stretches) >= _STRETCHES:
            self._full(self)

    # -- requests --------------------------------------------------------------------------------------------------

    def queued(self, running: Running, t: int) -> None:
        """It was taken into the queue."""
        running.phases = Phases()
        running.phases.enter(Phase.QUEUE, t)
        self.taken_in.append(running.index)
        self._event(t, self.step, running, EventKind.QUEUED)

    def refused(self, index: int, t: int) -> None:
        """It was not."""
        self.taken_in.append(index)
        self.closed.append(index)
        self.events.append((t, self.step, index + 1, code(EventKind.REJECTED), NONE, _NO_REASON, 0, 0))

    def started(self, running: Running, t_exec: int) -> None:
        """It starts, or resumes."""
        phase = Phase.DECODE if running.given else Phase.PREFILL
        _phases(running).enter(phase, t_exec, self.step)
        self._event(t_exec, self.step, running, EventKind.RESUMED if running.preemptions else EventKind.SCHEDULED)

    def preempted(self, victim: Running, culprit: Running, held: int, t_exec: int) -> None:
        """It is about to lose what it has computed."""
        _phases(victim).enter(Phase.PREEMPTED, t_exec, self.step)
        kind, reason = code(EventKind.PREEMPTED), code(Reason.KV_BLOCKS)
        event = (t_exec, self.step, victim.index + 1, kind, culprit.index + 1, reason, victim.computed, held)
        self.events.append(event)

    def first_token(self, running: Running, t_done: int) -> None:
        """Its prompt is computed."""
        _phases(running).enter(Phase.DECODE, t_done, self._last + 1)
        self._event(t_done, self._last, running, EventKind.FIRST_TOKEN)

    def ended(self, running: Running, t_done: int, freed: int) -> None:
        """It has its last token."""
        phases, rid = _phases(running), running.index + 1
        phases.close(t_done, self._last)
        for span in phases.closed:
            first = NONE if span.first_step is None else span.first_step
            last = NONE if span.last_step is None else span.last_step
            self.spans.append((rid, code(span.phase), span.start, span.end, first, last))
        self.closed.append(running.index)
        self._event(t_done, self._last, running, EventKind.FINISHED, freed)

    def _event(self, t: int, step: int, running: Running, kind: EventKind, freed: int = 0) -> None:
        self.events.append((t, step, running.index + 1, code(kind), NONE, _NO_REASON, 0, freed))


def _phases(running: Running) -> Phases:
    if running.phases is None:
        raise RuntimeError(f"request {running.index + 1} was never queued")
    return running.phases
