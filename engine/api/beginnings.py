"""Which earlier request a prompt begins like: told by the recording, so that a re-run can share what was shared."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

_MOST: Final = 1 << 17
"""Blocks that are remembered, those met longest ago forgotten first: about 15 MB."""
_BYTES: Final = 8
"""Of a token as it is hashed."""


class Beginning:
    """The whole blocks of one sequence as a chain of hashes, each of its block and of all before it.

    They are Python's own, of 64 bits and salted for each process: among so few blocks no two differ and have the same.
    """

    def __init__(self, rid: int, block_size: int) -> None:
        self.rid = rid
        self.prefix_of: int | None = None
        """The earlier request that it begins like for longest."""
        self.prefix_tokens = 0
        """For so many tokens: whole blocks."""
        self._size = block_size * _BYTES
        self._before = 0
        self._rest = b""

    def hashes(self, tokens: Sequence[int]) -> list[int]:
        """Of the blocks that these further tokens complete."""
        data, size, found = self._rest + array("q", tokens).tobytes(), self._size, []
        whole, before = len(data) // size * size, self._before
        for start in range(0, whole, size):
            before = hash((before, data[start : start + size]))
            found.append(before)
        self._before, self._rest = before, data[whole:]
        return found


class Beginnings:
    """All sequences of late, by their blocks. What it costs the event loop is about half a microsecond a block."""

    def __init__(self, block_size: int, most: int = _MOST) -> None:
        self._block_size = block_size
        self._most = most
        self._first: OrderedDict[int, int] = OrderedDict()
        """Hash -> the request that had it first; those met longest ago come first."""

    def meet(self, rid: int, prompt: Sequence[int]) -> Beginning:
        """A prompt, held against all before it."""
        met = Beginning(rid, self._block_size)
        hashes = met.hashes(prompt)
        for known, each in enumerate(hashes, 1):
            if each not in self._first:
                break
            met.prefix_of, met.prefix_tokens = self._first[each], known * self._block_size
        self._remember(rid, hashes)
        return met

    def answered(self, met: Beginning, output: Sequence[int]) -> None:
        """Its output: the next prompt of a conversation begins with it."""
        self._remember(met.rid, met.hashes(output))

    def _remember(self, rid: int, hashes: Sequence[int]) -> None:
        """The end of a sequence is forgotten before its beginning, without which it can't be found."""
        for each in reversed(hashes):
            self._first.setdefault(each, rid)
            self._first.move_to_end(each)
        while len(self._first) > self._most:
            self._first.popitem(last=False)
