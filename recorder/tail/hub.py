"""The newest frames of a run, kept in memory for all viewers alike. Knows no socket and no file."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from recorder.tail.wire import Batch, End, Position, Word, encode, encode_word, table_of

MOST_BYTES: Final = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """One frame. `ring` is whose records it carries, and `last` the number after them; a word belongs to no ring."""

    frame: bytes | str
    ring: str | None = None
    last: int = 0
    final: bool = False
    """Nothing follows it."""

    def concerns(self, tables: frozenset[str]) -> bool:
        """Whether a viewer of these tables gets it."""
        return self.ring is None or table_of(self.ring) in tables


class Hub:
    """A log of entries, numbered on; the oldest go when there are more than `most_bytes`.

    Appending never waits: a viewer keeps its own place, and one whose place has gone has to look for another.
    """

    def __init__(self, ends: Position, most_bytes: int = MOST_BYTES) -> None:
        self.ends = dict(ends)
        """Where the log ends: ring -> number of the record that will come next."""
        self.begin = 0
        """Number of the oldest entry that is kept."""
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._grown = asyncio.Event()

    @property
    def end(self) -> int:
        """Number of the entry that will come next."""
        return self.begin + len(self._entries)

    @property
    def edge(self) -> int:
        """Where somebody goes on who has been left behind: at what comes next, or at the final word."""
        return self.end - 1 if self._entries and self._entries[-1].final else self.end

    def publish(self, batch: Batch) -> None:
        """Add records. Raises ValueError where they do not continue those before."""
        if batch.first != self.ends.get(batch.ring, 0):
            raise ValueError(f"{batch.ring} goes on at {self.ends.get(batch.ring, 0)}, not at {batch.first}")
        self.ends[batch.ring] = batch.last
        self._append(Entry(encode(batch), batch.ring, batch.last))

    def say(self, word: Word) -> None:
        """Add a word to every viewer."""
        self._append(Entry(encode_word(word), final=isinstance(word, End)))

    def at(self, place: int) -> Entry | None:
        """The entry of that number; None for one that has gone. Raises IndexError for one that has not come yet."""
        return None if place < self.begin else self._entries[place - self.begin]

    async def grown(self, place: int) -> None:
        """Return once there is an entry of that number, at once where it has come and gone."""
        while place >= self.end:
            await self._grown.wait()

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._bytes += len(entry.frame)
        while self._bytes > self._most_bytes and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft().frame)
            self.begin += 1
        self._grown.set()
        self._grown = asyncio.Event()
