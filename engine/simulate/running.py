"""Running requests of a jump: prompts one by one, and all decodes together, as sums that a pass changes as one."""

import heapq
from bisect import bisect_left

from engine.scheduling.sequence import Phases
from recorder.words import Role


class Running:
    """One request in flight. While it decodes, its counts stand still: `base + Decodes.count` tokens are computed."""

    __slots__ = (
        "base",
        "blocks",
        "computed",
        "given",
        "high_water",
        "index",
        "known",
        "order",
        "phases",
        "preemptions",
        "recomputed",
        "total",
    )

    def __init__(self, index: int, prompt: int, total: int) -> None:
        self.index = index
        self.total = total
        """True length of its output."""
        self.known = prompt
        """Tokens of prompt and output, as of when it last began to decode."""
        self.given = 0
        """Output tokens, as of then."""
        self.computed = self.high_water = self.blocks = self.base = 0
        self.order = -1
        """Its place among all starts; -1 while it waits."""
        self.preemptions = self.recomputed = 0
        self.phases: Phases | None = None

    @property
    def role(self) -> Role:
        """What a slice of its prompt does."""
        return Role.RECOMPUTE if self.computed < self.high_water else Role.PREFILL

    def advance(self, tokens: int) -> None:
        """Count `tokens` as computed."""
        before, self.computed = self.computed, self.computed + tokens
        if before < self.high_water:
            self.recomputed += min(self.computed, self.high_water) - before
        self.high_water = max(self.high_water, self.computed)

    def stop_decoding(self, count: int) -> None:
        """Its own counts hold again, after `count` passes of `Decodes`."""
        tokens = self.base + count - self.computed
        self.computed += tokens
        self.known += tokens
        self.given += tokens
        self.high_water = max(self.high_water, self.computed)

    def lose(self) -> None:
        """Preempted: nothing of it is computed any more."""
        self.computed = self.blocks = 0
        self.order = -1
        self.preemptions += 1


class Decodes:
    """All requests that decode, in the order of their starts. One pass gives each a token: it only counts."""

    __slots__ = ("_size", "base", "count", "due", "ends", "members", "orders")

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self.count = 0
        """Passes so far in which decodes took part."""
        self.members: list[Running] = []
        self.orders: list[int] = []
        """Their `order`s, to find them by."""
        self.base = 0
        """Sum of their `base`s."""
        self.due = [0] * (2 * block_size)
        """How many need a block in a pass, by `count` modulo the block size; written twice, so that sums never wrap."""
        self.ends: list[tuple[int, int, Running]] = []
        """Heap of (`count` after which it has its last token, order, request); entries of other orders are void."""

    def add(self, running: Running) -> None:
        """From the next pass on it decodes."""
        count, size = self.count, self._size
        base = running.base = running.computed - count
        if not self.orders or running.order > self.orders[-1]:
            self.orders.append(running.order)
            self.members.append(running)
        else:
            at = bisect_left(self.orders, running.order)
            self.orders.insert(at, running.order)
            self.members.insert(at, running)
        self.base += base
        phase = -base % size
        self.due[phase] += 1
        self.due[phase + size] += 1
        heapq.heappush(self.ends, (count + running.total - running.given, running.order, running))

    def remove(self, at: int) -> Running:
        """Take out the one at that place."""
        running, size = self.members.pop(at), self._size
        del self.orders[at]
        self.base -= running.base
        phase = -running.base % size
        self.due[phase] -= 1
        self.due[phase + size] -= 1
        return running

    def next_end(self) -> int:
        """The `count` after which the first of them ends."""
        ends = self.ends
        while ends[0][1] != ends[0][2].order:
            heapq.heappop(ends)
        return ends[0][0]

    def blocks(self, running: Running) -> int:
        """Blocks that one of them holds between passes."""
        return -(-(running.base + self.count) // self._size)

    def needed(self, passes: int) -> int:
        """Blocks that the next `passes` passes take."""
        phase = self.count % self._size
        if passes < self._size:
            return sum(self.due[phase : phase + passes])
        whole, rest = divmod(passes, self._size)
        return whole * len(self.members) + sum(self.due[phase : phase + rest])

    def affordable(self, free: int) -> int:
        """Passes for which `free` blocks are enough."""
        whole, left = divmod(free, len(self.members))
        phase, rest = self.count % self._size, 0
        while self.due[phase + rest] <= left:
            left -= self.due[phase + rest]
            rest += 1
        return whole * self._size + rest
