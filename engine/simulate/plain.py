"""A jumping worker of which nobody asks for more than stamps: the passes that are most frequent, by shorter ways.

They are a request that finds nobody waiting and room for its whole prompt, and decodes until something happens. All
else is done as `engine.simulate.jump` has it; the same property tests hold both to step by step.
"""

from heapq import heappop

from engine.scheduling.router import Backlog
from engine.simulate.clock import PS_PER_NS
from engine.simulate.jump import DRAIN, JumpWorker
from engine.simulate.results import Results
from engine.simulate.running import Running
from engine.simulate.series import passes_within, series
from engine.simulate.setup import Setup


class PlainWorker(JumpWorker):
    """For open loops without tables, where calls of attention have no cost of their own."""

    def __init__(self, number: int, setup: Setup, results: Results, backlog: Backlog | None = None) -> None:
        super().__init__(number, setup, results, backlog=backlog)
        self._paces = [each + self._host_ps for each in self._prices.alone]
        """Of a pass of n decodes alone, without their contexts."""
        self._kv, self._mixed = self._prices.alone_kv, self._prices.mixed
        self._whole = self._threshold or self._max_tokens
        """The longest prompt that one pass may compute."""

    def advance(self, until: float, *, one: bool = False) -> None:
        """Live through every pass that begins before `until`."""
        limit, incoming = until * PS_PER_NS, self._incoming
        while not self._done:
            if self._idle and not self._wake(limit):
                return
            if self._t >= limit:
                return
            if incoming and incoming[0][0] <= self._t:
                if self._finds_room():
                    self._come_through()
                    continue
                self._take_in()
            if not self._settled:
                self._pass()
            elif self._refusals:
                self._stretch(limit)
            else:
                self._glide(limit)

    def _finds_room(self) -> bool:
        """Whether one request has come, nobody waits, and its prompt fits what the decodes leave of pass and memory."""
        incoming, decodes, index = self._incoming, self._decodes, self._incoming[0][1]
        if index == DRAIN or self._waiting or self._evicted or self._prompts or self._prepaid or self._refusals:
            return False
        if (len(incoming) > 1 and incoming[1][0] <= self._t) or index in self._demand.refused:
            return False
        n, prompt = len(decodes.members), self._demand.prompt[index]
        if n >= self._max_seqs or prompt > self._max_tokens - n or prompt > self._whole:
            return False
        return not self._counts or self._blocks(prompt) + (self._watermark if n else 0) <= self.free

    def _blocks(self, prompt: int) -> int:
        """What the next pass takes if this prompt starts in it."""
        decodes = self._decodes
        return -(-prompt // self._block_size) + decodes.due[decodes.count % self._block_size]

    def _come_through(self) -> None:
        """Take it in, compute its prompt beside the decodes, end who ends: what `_take_in` and `_pass` do, at once."""
        t, index, decodes = self._t, self._incoming.popleft()[1], self._decodes
        n, prompt = len(decodes.members), self._demand.prompt[index]
        running = Running(index, prompt, self._demand.total[index])
        price = self._prices.beside[n] + self._mixed.decode_kv * (decodes.base + n * decodes.count)
        price += prompt * self._mixed.prefill + prompt * (prompt - 1) // 2 * self._mixed.prefill_pair
        self._t = t + self._host_ps + price
        self._queued[index] = t // PS_PER_NS
        self._first_scheduled[index] = (t + self._plan_ps) // PS_PER_NS
        if self._counts:
            self.free -= self._blocks(prompt)
            running.blocks = -(-prompt // self._block_size)
        decodes.count += 1
        if decodes.ends and decodes.ends[0][0] <= decodes.count:
            self._end_decodes()
        running.computed = running.high_water = prompt
        running.order = self._starts
        self._starts += 1
        self._take_token(running, n)
        self._settled = bool(decodes.members)

    def _glide(self, limit: float) -> None:
        """Passes of decodes alone, until one of them ends or something else may happen."""
        decodes, ends, t = self._decodes, self._decodes.ends, self._t
        while ends[0][1] != ends[0][2].order:
            heappop(ends)
        n, count = len(decodes.members), decodes.count
        passes = ends[0][0] - count
        if self._counts and self.free < n * (passes // self._block_size + 1):
            self._stretch(limit)
            return
        slope = self._kv * n
        pace = self._paces[n] + self._kv * decodes.base + slope * count
        last = t + (passes - 1) * pace + slope * ((passes - 1) * (passes - 2) // 2)  # where the last one begins
        if self._incoming and self._incoming[0][0] < limit:
            limit = self._incoming[0][0]
        if last >= limit:
            passes = passes_within(int(limit) - t, pace, slope)
            self._t = t + series(passes, pace, slope)
        else:
            self._t = last + pace + slope * (passes - 1)
        if self._counts:
            self.free -= decodes.needed(passes)
        decodes.count = count + passes
        if last < limit:
            self._end_decodes()
            self._settled = bool(decodes.members) and not self._waiting and not self._evicted
