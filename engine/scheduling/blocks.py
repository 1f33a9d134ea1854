"""The pool of KV blocks: a free list of block numbers, and nothing else (SPEC C3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.scheduling.prefix import Chain


class BlockPool:
    """`total` blocks of `block_size` tokens. What is given out comes back in full, by `give_back`."""

    def __init__(self, total: int, block_size: int) -> None:
        self.total = total
        self.block_size = block_size
        self._free = list(range(total - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks nobody holds."""
        return len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def take(self, count: int) -> tuple[int, ...]:
        """Give out `count` blocks; the caller has seen that so many are free."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks asked for, {len(self._free)} are free")
        return tuple(self._free.pop() for _ in range(count))

    def give_back(self, blocks: Sequence[int]) -> int:
        """Take blocks back; returns how many that freed. The last one is the first reused: its memory is still warm."""
        self._free.extend(reversed(blocks))
        return len(blocks)

    # -- what a pool that knows the content of its blocks does more (`prefix.py`); this one finds nothing --------------

    def chain(self, tokens: Sequence[int]) -> "Chain | None":
        """The keys of a sequence that begins with these tokens."""
        return None

    def find(self, chain: "Chain | None", most: int) -> tuple[int, ...]:
        """At most `most` blocks that hold what the sequence begins with."""
        return ()

    def unheld(self, blocks: Sequence[int]) -> int:
        """How many of these are free."""
        return 0

    def share(self, chain: "Chain | None", blocks: Sequence[int]) -> None:
        """One more holder for blocks that `find` gave."""

    def learn(self, chain: "Chain | None", blocks: Sequence[int], computed: int) -> None:
        """The first `computed` tokens of a sequence are in its blocks now."""
