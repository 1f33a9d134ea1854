"""The prefix cache: KV blocks whose content is known are found again by whoever begins with the same tokens (SPEC C4).

The key of a block is its tokens and the block before it, so that a chain of keys stands for a whole prefix, exactly.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from engine.scheduling.blocks import BlockPool

_ROOT: Final = 0
"""What is before a first block."""


@dataclass(slots=True)
class Chain:
    """The tokens of one sequence as keys of whole blocks, and how far its own blocks are known to the cache."""

    block_size: int
    keys: list[bytes] = field(default_factory=list)
    learnt: int = 0
    """Blocks, from the first, that the cache knows."""
    last: int = _ROOT
    """What the next block's key hangs on."""
    _rest: list[int] = field(default_factory=list)

    def extend(self, tokens: Sequence[int]) -> None:
        """More tokens are known."""
        self._rest += tokens
        size = self.block_size
        whole = len(self._rest) // size * size
        for start in range(0, whole, size):
            self.keys.append(array("q", self._rest[start : start + size]).tobytes())
        del self._rest[:whole]

    def forget(self) -> None:
        """Its blocks are gone; its tokens stay known."""
        self.learnt, self.last = 0, _ROOT


class PrefixPool(BlockPool):
    """A pool that remembers what is in its blocks. Nobody's blocks are free, but the oldest of them is reused last.

    A block may have several holders. Only one that has none is ever evicted, least recently held first.
    """

    def __init__(self, total: int, block_size: int) -> None:
        super().__init__(total, block_size)
        self._holders = [0] * total
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Blocks without holders whose content is known, least recently held first."""
        self._found: dict[tuple[int, bytes], int] = {}
        self._key_of: dict[int, tuple[int, bytes]] = {}
        self._serial_of: dict[int, int] = {}
        self._serials = count(_ROOT + 1)
        """A block that is reused is another link, though its number is the same."""

    @property
    def free(self) -> int:
        """Blocks nobody holds, with content or without."""
        return super().free + len(self._idle)

    def chain(self, tokens: Sequence[int]) -> Chain:
        """The keys of a sequence that begins with these tokens."""
        chain = Chain(self.block_size)
        chain.extend(tokens)
        return chain

    def find(self, chain: Chain | None, most: int) -> tuple[int, ...]:
        """The longest run of at most `most` known blocks that the sequence begins with."""
        blocks, before = [], _ROOT
        for key in chain.keys[:most] if chain else ():
            block = self._found.get((before, key))
            if block is None:
                break
            blocks.append(block)
            before = self._serial_of[block]
        return tuple(blocks)

    def unheld(self, blocks: Sequence[int]) -> int:
        """How many of these are free."""
        return sum(not self._holders[block] for block in blocks)

    def share(self, chain: Chain | None, blocks: Sequence[int]) -> None:
        """One more holder for blocks that `find` gave."""
        for block in blocks:
            if not self._holders[block]:
                del self._idle[block]
            self._holders[block] += 1
        if chain and blocks:
            chain.learnt, chain.last = len(blocks), self._serial_of[blocks[-1]]

    def take(self, count: int) -> tuple[int, ...]:
        """Give out `count` blocks, those without content first."""
        if count > self.free:
            raise ValueError(f"{count} blocks asked for, {self.free} are free")
        for _ in range(count - super().free):
            self._evict()
        blocks = super().take(count)
        for block in blocks:
            self._holders[block] = 1
        return blocks

    def give_back(self, blocks: Sequence[int]) -> int:
        """One holder less. The end of a prefix is evicted before its beginning, without which it can't be found."""
        unknown = []
        freed = 0
        for block in reversed(blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                freed += 1
                if block in self._key_of:
                    self._idle[block] = None
                else:
                    unknown.append(block)
        super().give_back(unknown[::-1])
        return freed

    def learn(self, chain: Chain | None, blocks: Sequence[int], computed: int) -> None:
        """The first `computed` tokens of a sequence are in its blocks now: whole blocks can be found from here on.

        Where the same content is in another block already, that one stays the one that is found.
        """
        if chain is None:
            return
        for place in range(chain.learnt, min(computed // self.block_size, len(chain.keys))):
            key = (chain.last, chain.keys[place])
            block = self._found.setdefault(key, blocks[place])
            if block not in self._serial_of:
                self._key_of[block] = key
                self._serial_of[block] = next(self._serials)
            chain.learnt, chain.last = place + 1, self._serial_of[block]

    def _evict(self) -> None:
        block, _ = self._idle.popitem(last=False)
        del self._found[self._key_of.pop(block)]
        del self._serial_of[block]
        super().give_back([block])
