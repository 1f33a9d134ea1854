"""Which earlier request a prompt begins like: told by the recording, so that a re-run can share what was shared."""

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

_MOST: Final = 1 << 17
"""Blocks that are remembered, those met longest ago forgotten first: about 25 MB."""
_BYTES: Final = 8
"""Of a token as it is hashed, and of a hash: among so few blocks no two differ and have the same one."""


class Beginning:
    """The whole blocks of one sequence as a chain of hashes, each of its block and of all before it."""

    def __init__(self, rid: int, block_size: int) -> None:
        self.rid = rid
        self.prefix_of: int | None = None
        """The earlier request that it begins like for longest."""
        self.prefix_tokens = 0
        """For so many tokens: whole blocks."""
        self._size = block_size * _BYTES
        self._hash = blake2b(digest_size=_BYTES)
        self._rest = b""

    def hashes(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """Of the blocks that these further tokens complete."""
        data = self._rest + array("q", tokens).tobytes()
        whole = len(data) // self._size * self._size
        for start in range(0, whole, self._size):
            self._hash.update(data[start : start + self._size])
            yield self._hash.digest()
        self._rest = data[whole:]


class Beginnings:
    """All sequences of late, by their blocks. What it costs a request is about 1 us a block."""

    def __init__(self, block_size: int, most: int = _MOST) -> None:
        self._block_size = block_size
        self._most = most
        self._first: OrderedDict[bytes, int] = OrderedDict()
        """Hash -> the request that had it first; those met longest ago come first."""

    def meet(self, rid: int, prompt: Sequence[int]) -> Beginning:
        """A prompt, held against all before it."""
        met = Beginning(rid, self._block_size)
        hashes = list(met.hashes(prompt))
        for known, each in enumerate(hashes, 1):
            if each not in self._first:
                break
            met.prefix_of, met.prefix_tokens = self._first[each], known * self._block_size
        self._remember(rid, hashes)
        return met

    def answered(self, met: Beginning, output: Sequence[int]) -> None:
        """Its output: the next prompt of a conversation begins with it."""
        self._remember(met.rid, list(met.hashes(output)))

    def _remember(self, rid: int, hashes: Sequence[bytes]) -> None:
        """The end of a sequence is forgotten before its beginning, without which it can't be found."""
        for each in reversed(hashes):
            self._first.setdefault(each, rid)
            self._first.move_to_end(each)
        while len(self._first) > self._most:
            self._first.popitem(last=False)
