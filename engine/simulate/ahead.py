"""A jumping worker that plans each pass while the one before it runs, as vLLM does with asynchronous scheduling.

A plan is made when the pass before it begins, with what is known then. So who comes during a pass, and what is given
back at its end, can make a difference only to the pass after the next. A worker that has nothing to do plans at once.
"""

from engine.simulate.clock import PS_PER_NS
from engine.simulate.jump import JumpWorker
from engine.simulate.running import Running
from recorder.words import Reason


class AheadWorker(JumpWorker):
    """When each start was decided goes into `Results.planned`. Decodes may take blocks as soon as those are free."""

    _planned_ps = 0
    """When the pass in progress was planned."""
    _come: tuple[Running, ...] = ()
    """Who came after the next pass was planned."""
    _slots = _blocks = 0
    """What those gave back that ended after the next pass was planned."""
    _caught_up = False

    @property
    def _is_busy(self) -> bool:
        return bool(self._decodes.members or self._prompts)

    def _queue(self, running: Running, now: int) -> None:
        if self._is_busy:
            self._come += (running,)
            self._queued[running.index] = now
            if self._book:
                self._book.queued(running, now)
        else:
            self._catch_up()
            super()._queue(running, now)

    def _catch_up(self) -> bool:
        """Know what has happened since the last plan; True if something has."""
        some = bool(self._come or self._slots)
        self._waiting += self._come
        self.waiting_tokens += sum(running.known for running in self._come)
        self._come, self._slots, self._blocks = (), 0, 0
        return some

    def _stretch(self, limit: float) -> bool:
        if self._come or (self._slots and self.waiting):
            return self._pass()
        self._catch_up()
        return super()._stretch(limit)

    def _pass(self) -> bool:
        self._planned_ps = self._began if self._is_busy else self._t
        if not self._is_busy:
            self._catch_up()
        ended = super()._pass()
        self._settled = self._settled and not self._caught_up
        return ended

    def _has_planned(self) -> None:
        self._caught_up = self._catch_up()

    def _obstacle(self, tokens: int, blocks: int) -> Reason:
        running = len(self._decodes.members) + len(self._prompts) + self._slots
        if running >= self._max_seqs:
            return Reason.SEQ_SLOTS
        if not tokens:
            return Reason.TOKEN_BUDGET
        if self._counts and blocks + (self._watermark if running else 0) > self.free - self._blocks:
            return Reason.KV_BLOCKS
        return Reason.NONE

    def _start(self, running: Running, blocks: int, t_exec: int) -> None:
        super()._start(running, blocks, t_exec)
        if not running.preemptions:
            self._results.planned[running.index] = self._planned_ps // PS_PER_NS

    def _end(self, running: Running, rank: int, blocks: int) -> None:
        super()._end(running, rank, blocks)
        self._slots += 1
        self._blocks += blocks
