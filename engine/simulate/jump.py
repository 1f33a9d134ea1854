"""Virtual time in jumps: stretches of passes whose plan can't change are lived at once, to the same integers.

While no request comes, ends, or runs out of blocks, every pass gives one token to each decode. Its cost grows by the
same amount from pass to pass, so that a stretch is an arithmetic series. All other passes are planned one by one, by
the rules of `engine.scheduling.scheduler`, but with sums over decodes in place of a walk over them. `covered.py` tells
for which configurations; property tests hold both to the same stamps.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop
from typing import Final

from engine.scheduling.router import Backlog
from engine.simulate.book import Book, Pace
from engine.simulate.clock import PS_PER_NS
from engine.simulate.cost import KnownTime
from engine.simulate.prices import Prices
from engine.simulate.results import Results
from engine.simulate.running import Decodes, Running
from engine.simulate.series import passes_within
from engine.simulate.setup import Setup
from recorder.schema import code
from recorder.words import Reason, Status

_STABLE: Final = (Reason.SEQ_SLOTS, Reason.KV_BLOCKS)
"""Why the head of the queue can't start until a request ends."""
DRAIN: Final = -1
"""In place of a request: nobody comes after it."""
_OK, _REJECTED = code(Status.OK), code(Status.REJECTED)

Part = tuple[Running, int, int]
"""A slice of a prompt in a plan: whose, tokens, new blocks."""


class JumpWorker:
    """One worker in virtual time. Implements `engine.simulate.drive.Worker`; what it does goes into `results`.

    `book` takes down what tables need, `backlog` what the router has to know, `ended` is called with each answer.
    """

    def __init__(
        self,
        number: int,
        setup: Setup,
        results: Results,
        *,
        book: Book | None = None,
        backlog: Backlog | None = None,
        ended: Callable[[int, int], None] | None = None,
    ) -> None:
        if not isinstance(setup.cost, KnownTime):
            raise TypeError("a jump needs a linear cost, in one regime or two")
        config, delays = setup.config, setup.delays
        self._number = number
        self._plan_ps = delays.plan_ns * PS_PER_NS
        self._commit_ps = delays.commit_ns * PS_PER_NS
        self._host_ps = self._plan_ps + self._commit_ps
        self._link_ns, self._write_ns = delays.link_ns, delays.write_ns
        self._max_seqs = config.scheduler.max_num_seqs
        self._max_tokens = config.scheduler.max_num_batched_tokens
        self._chunked = config.scheduler.enable_chunked_prefill
        self._threshold = config.scheduler.long_prefill_token_threshold
        self._block_size = config.kv.block_size
        self._watermark = config.kv.watermark_blocks(setup.num_blocks)
        self.free = setup.num_blocks
        self._results, self._demand = results, results.demand
        self._counts = book is not None or not self._is_roomy(setup)
        """Blocks are counted: for the book, or because they may run out."""
        self._queued, self._first_scheduled = results.queued, results.first_scheduled
        self._first_token, self._last_token = results.first_token, results.last_token
        self._returned, self._status = results.returned, results.status
        self._book, self._backlog, self._ended = book, backlog, ended

        self._t = 0
        self._incoming: deque[tuple[int, int]] = deque()
        """What is to come: when, in ps, and the request's place."""
        self._waiting: deque[Running] = deque()
        self._evicted: deque[Running] = deque()
        self.waiting_tokens = 0
        self._prompts: list[Running] = []
        self._decodes = Decodes(self._block_size)
        self._prices = Prices(setup.cost.regimes, self._max_seqs, self._decodes)
        self._prepaid: list[Running] = []
        """New decodes that already hold the block of their next token."""
        self._starts = 0
        self.head: Running | None = None
        self.reason = Reason.NONE
        self._settled = False
        """Until something comes, ends or runs out, each pass is like the last: decodes only, and nobody may start."""
        self._refusals: list[int] = []
        self._began = 0
        """When the last pass began, in ps."""
        self._idle = self._draining = self._done = False

    def _is_roomy(self, setup: Setup) -> bool:
        """Whether as many requests as run at once have room, whichever of them these are."""
        longest = max(map(int.__add__, self._demand.prompt, self._demand.total), default=1)
        return setup.num_blocks - self._watermark >= self._max_seqs * -(-longest // self._block_size)

    # -- from outside ----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> int | None:
        """When it goes on, in ns; None while nothing is to come."""
        if self._done:
            return None
        if self._idle:
            return self._incoming[0][0] // PS_PER_NS if self._incoming else None
        return self._t // PS_PER_NS

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting) + len(self._evicted)

    def submit(self, index: int, instant: int) -> None:
        """Let a request reach it at `instant`; instants never fall."""
        self._incoming.append((instant * PS_PER_NS, index))

    def submit_all(self, instants: Sequence[int], first: int) -> None:
        """The same for requests in a row, of which `first` is the place of the first."""
        places = range(first, first + len(instants))
        self._incoming.extend(zip(map(PS_PER_NS.__mul__, instants), places, strict=True))

    def drain(self, instant: int) -> None:
        """Nothing comes after `instant`."""
        self._incoming.append((instant * PS_PER_NS, DRAIN))

    def advance(self, until: float, *, one: bool = False) -> None:
        """Live through every pass that begins before `until`; with `one`, only until a request may have ended."""
        limit, incoming = until * PS_PER_NS, self._incoming
        while not self._done:
            if self._idle and not self._wake(limit):
                return
            if self._t >= limit:
                return
            if incoming and incoming[0][0] <= self._t:
                self._take_in()
            ended = self._stretch(limit) if self._settled else self._pass()
            if ended and one:
                return

    # -- waiting for work ------------------------------------------------------------------------------------------

    def _wake(self, limit: float) -> bool:
        """End the idle pass with the next message, if that comes before `limit`."""
        if not self._incoming or self._incoming[0][0] >= limit:
            return False
        self._idle = False
        self._rest(self._incoming[0][0])
        return True

    def _rest(self, until_ps: int) -> None:
        """An idle pass that waits until `until_ps`, or for nothing."""
        t_exec = self._t + self._plan_ps
        t_done = max(t_exec, until_ps)
        if self._book:
            self._book.idle(self._t, t_done - t_exec, self.free, sends=bool(self._refusals))
        self._t = t_done + self._commit_ps

    def _take_in(self) -> None:
        t, incoming, demand = self._t, self._incoming, self._demand
        now = t // PS_PER_NS
        while incoming and incoming[0][0] <= t:
            index = incoming.popleft()[1]
            if index == DRAIN:
                self._draining = True
            elif index in demand.refused:
                self._refuse(index, now)
            else:
                self._queue(Running(index, demand.prompt[index], demand.total[index]), now)

    def _queue(self, running: Running, now: int) -> None:
        if not self._waiting and not self._evicted:
            self._settled = False
        self._waiting.append(running)
        self.waiting_tokens += running.known
        self._queued[running.index] = now
        if self._book:
            self._book.queued(running, now)

    def _refuse(self, index: int, now: int) -> None:
        self._refusals.append(index)
        self._status[index] = _REJECTED
        if self._book:
            self._book.refused(index, now)

    def _tell_refusals(self) -> None:
        """The pass that ends now has handed them out."""
        received = self._t // PS_PER_NS + self._link_ns
        for index in self._refusals:
            if self._backlog:
                self._backlog.answered(received, self._demand.prompt[index])
                self._backlog.finished(received)
            if self._ended:
                self._ended(index + 1, received)
        self._refusals.clear()

    # -- many passes at once ---------------------------------------------------------------------------------------

    def _stretch(self, limit: float) -> bool:
        """All passes until a decode ends, blocks run out, or one would begin at `limit` or when something comes. True
        if a request ended."""
        decodes, t = self._decodes, self._t
        n, count = len(decodes.members), decodes.count
        if self._incoming and self._incoming[0][0] < limit:
            limit = self._incoming[0][0]
        passes = 1 if self._refusals else decodes.next_end() - count
        if self._book:
            passes = min(passes, self._book.room(n))
        if self._counts and self.free < n * (passes // self._block_size + 1):
            passes = min(passes, decodes.affordable(self.free))
            if not passes:
                return self._pass()
        prices = self._prices
        slope = prices.alone_kv * n
        first = prices.alone[n] + prices.alone_kv * decodes.base + slope * count
        if prices.has_calls:
            calls, lasting = prices.calls()
            first, passes = first + calls, min(passes, lasting)
        pace = first + self._host_ps
        last = t + (passes - 1) * pace + slope * ((passes - 1) * (passes - 2) // 2)  # where the last one begins
        if last >= limit:
            passes = passes_within(int(limit) - t, pace, slope)
            last = t + (passes - 1) * pace + slope * ((passes - 1) * (passes - 2) // 2)
        if self._book:
            self._book.begin(passes, decodes, Pace(t, first, slope, first))
        if self._counts:
            self.free -= decodes.needed(passes)
        decodes.count, self._began = count + passes, last
        self._t = last + pace + slope * (passes - 1)
        if decodes.ends[0][0] > decodes.count and not self._book and not self._refusals:
            return False  # nothing has changed
        return self._close(n, n)

    # -- one pass --------------------------------------------------------------------------------------------------

    def _pass(self) -> bool:
        """Plan one pass and live through it. True if a request ended."""
        decodes, t = self._decodes, self._t
        t_exec = (t + self._plan_ps) // PS_PER_NS
        evicted = self._counts and self._pay_blocks(t_exec)
        n = len(decodes.members)
        parts: list[Part] = []
        budget = self._max_tokens - n
        for running in self._prompts:
            tokens = self._chunk(running, budget)
            if tokens:
                parts.append((running, tokens, 0))
                budget -= tokens
        self.head, self.reason = None, Reason.NONE
        if self._waiting or self._evicted:
            self._start_waiting(parts, budget, evicted, t_exec)
        self._has_planned()
        if not n and not parts:
            return self._pause()
        first = self._prices.of_mixed(parts) if parts else self._prices.of_decodes()
        if self._book:
            alone = self._prices.of_decodes() if parts else first
            self._book.begin(1, decodes, Pace(t, first, 0, alone), parts, self._prepaid)
        self._prepaid.clear()
        started, self._began = n + len(self._prompts), t
        decodes.count += 1
        self._t = t + self._host_ps + first
        return self._close(n, started, parts)

    def _has_planned(self) -> None:
        """A plan is made; of no importance to who makes it only when the pass begins."""

    def _close(self, n: int, running: int, parts: Sequence[Part] = ()) -> bool:
        """Commit the passes until now: end what has its last token, and see whether the next pass is like the last."""
        decodes, free = self._decodes, self.free
        ended = self._end_decodes() if decodes.ends and decodes.ends[0][0] <= decodes.count else 0
        if parts:
            ended += self._commit_parts(parts, n)
        if self._book:
            self._book.end(self, running, free, ended)
        answered = ended + len(self._refusals)
        if self._refusals:
            self._tell_refusals()
        nobody_starts = not (self._waiting or self._evicted) or (not ended and self._is_blocked(parts))
        self._settled = nobody_starts and not self._prompts and not self._prepaid and bool(decodes.members)
        return answered > 0

    def _is_blocked(self, parts: Sequence[Part]) -> bool:
        """Whether the head of the queue can't start before a request ends."""
        return self.reason in _STABLE or (self.reason is Reason.TOKEN_BUDGET and not parts)

    def _pause(self) -> bool:
        """Nothing to do: wait for a message, unless there is something to hand out or nothing to wait for."""
        self._done = self._draining
        if not self._done and not self._refusals:
            self._idle = True
            return False
        self._rest(0)
        self._tell_refusals()
        return True

    def _chunk(self, running: Running, budget: int) -> int:
        """Tokens of a prompt that a step with `budget` tokens left computes; 0 if none."""
        remaining = running.known - running.computed
        if self._chunked:
            tokens = budget if budget < remaining else remaining
            return min(tokens, self._threshold) if self._threshold else tokens
        return 0 if running.high_water == 0 and remaining > budget else min(remaining, budget)

    def _start_waiting(self, parts: list[Part], budget: int, evicted: bool, t_exec: int) -> None:
        """Start from the front of the queue, preempted ones first, until someone can't: the head, with its reason."""
        while line := self._evicted or self._waiting:
            running = line[0]
            tokens = self._chunk(running, budget)
            blocks = -(-running.known // self._block_size)
            self.reason = Reason.PREEMPTION if evicted else self._obstacle(tokens, blocks)
            if self.reason is not Reason.NONE:
                self.head = running
                return
            line.popleft()
            self._start(running, blocks, t_exec)
            parts.append((running, tokens, blocks))
            budget -= tokens

    def _obstacle(self, tokens: int, blocks: int) -> Reason:
        """Why someone who would compute `tokens` in `blocks` can't start; NONE if it can."""
        running = len(self._decodes.members) + len(self._prompts)
        if running >= self._max_seqs:
            return Reason.SEQ_SLOTS
        if not tokens:
            return Reason.TOKEN_BUDGET
        if self._counts and blocks + (self._watermark if running else 0) > self.free:
            return Reason.KV_BLOCKS
        return Reason.NONE

    def _start(self, running: Running, blocks: int, t_exec: int) -> None:
        self.waiting_tokens -= running.known
        self.free -= blocks
        running.blocks = blocks
        running.order = self._starts
        self._starts += 1
        self._prompts.append(running)
        if not running.preemptions:
            self._first_scheduled[running.index] = t_exec
        if self._book:
            self._book.started(running, t_exec)

    # -- blocks and preemption -------------------------------------------------------------------------------------

    def _pay_blocks(self, t_exec: int) -> bool:
        """Give each decode the block that its next token may need; True if someone had to give up its own for that."""
        decodes = self._decodes
        due = decodes.due[decodes.count % self._block_size] - len(self._prepaid)
        if due <= self.free:
            self.free -= due
            return False
        for place, running in enumerate(decodes.members):  # shrinks from its end meanwhile
            if (running.base + decodes.count) % self._block_size or running in self._prepaid:
                continue
            while not self.free:
                if self._preempt(running, place, t_exec) is running:
                    return True
            self.free -= 1
        return True

    def _preempt(self, needed_by: Running, place: int, t_exec: int) -> Running:
        """Throw the newest one's computed tokens away for the decode at `place`."""
        decodes, prompts = self._decodes, self._prompts
        if prompts and prompts[-1].order > decodes.orders[-1]:
            victim = prompts.pop()
            held = victim.blocks
        else:
            held = decodes.blocks(decodes.members[-1])
            victim = decodes.remove(len(decodes.members) - 1)
            held += victim in self._prepaid
            victim.stop_decoding(decodes.count)
        if victim in self._prepaid:
            self._prepaid.remove(victim)
        if self._book:
            culprit = self._largest(place) if victim is needed_by else needed_by
            self._book.preempted(victim, culprit, held, t_exec)
        self.free += held
        victim.lose()
        self._evicted.appendleft(victim)
        self.waiting_tokens += victim.known
        return victim

    def _largest(self, place: int) -> Running:
        """Who holds the most blocks while the plan has served the decodes before `place`; the oldest of equals."""
        decodes = self._decodes
        held = [(-running.blocks, running.order, running) for running in self._prompts]
        for at, running in enumerate(decodes.members):
            tokens = running.base + decodes.count + (at < place or running in self._prepaid)
            held.append((-tokens // self._block_size, running.order, running))  # minus the blocks, rounded up
        return min(held)[2]

    # -- what passes gave ------------------------------------------------------------------------------------------

    def _end_decodes(self) -> int:
        """End those that have their last token; returns how many."""
        decodes, ended = self._decodes, 0
        ends, count = decodes.ends, decodes.count
        while ends and ends[0][0] <= count:
            _, order, running = heappop(ends)
            if running.order == order:  # it has not been preempted since
                place = bisect_left(decodes.orders, order)
                blocks = decodes.blocks(running)
                decodes.remove(place)
                self._end(running, place + ended, blocks)
                ended += 1
        return ended

    def _commit_parts(self, parts: Sequence[Part], rank: int) -> int:
        """Count what prompts computed; their tokens come after `rank` others. Returns how many requests ended."""
        ended, gone = 0, []
        for running, tokens, _ in parts:
            running.advance(tokens)
            left = running.known - running.computed
            if not left:
                gone.append(running)
                ended += self._take_token(running, rank)
                rank += 1
            elif left == 1 and running.given and running.computed >= running.high_water:
                gone.append(running)
                self._decodes.add(running)
                if running.computed % self._block_size == 0:
                    self._prepaid.append(running)
        if len(gone) == len(self._prompts):
            self._prompts = []
        elif gone:
            self._prompts = [running for running in self._prompts if running not in gone]
        return ended

    def _take_token(self, running: Running, rank: int) -> bool:
        """A prompt is computed and gives a token, the `rank`-th of its pass; True if it was the last one."""
        running.given += 1
        running.known += 1
        if running.given == 1:
            self._first_token[running.index] = t_done = (self._t - self._commit_ps) // PS_PER_NS
            if self._book:
                self._book.first_token(running, t_done)
            if self._backlog:
                received = self._t // PS_PER_NS + self._link_ns
                self._backlog.answered(received, self._demand.prompt[running.index])
        if running.given == running.total:
            self._end(running, rank, running.blocks)
            return True
        self._decodes.add(running)
        return False

    def _end(self, running: Running, rank: int, blocks: int) -> None:
        """Its last token was the `rank`-th of the pass that ends now."""
        index, t = running.index, self._t
        self._last_token[index] = t_done = (t - self._commit_ps) // PS_PER_NS
        received = t // PS_PER_NS + self._link_ns
        self._returned[index] = returned = received + (rank + 1) * self._write_ns
        self._status[index] = _OK
        running.order = -1
        self.free += blocks
        if running.preemptions:
            self._results.preemptions[index] = running.preemptions
            self._results.recomputed[index] = running.recomputed
        if self._book:
            self._book.ended(running, t_done, blocks)
        if self._backlog:
            self._backlog.finished(received)
        if self._ended:
            self._ended(index + 1, returned)
