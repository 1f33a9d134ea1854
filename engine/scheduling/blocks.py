"""The pool of KV blocks: a free list of block numbers, and nothing else (SPEC C3)."""

from collections.abc import Sequence


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

    def give_back(self, blocks: Sequence[int]) -> None:
        """Take blocks back. The last one returned is the first one reused: its memory is still warm."""
        self._free.extend(reversed(blocks))
