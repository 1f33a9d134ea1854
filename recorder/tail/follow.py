"""Brings new records of a run into the hub, as long as anybody is watching; without viewers it costs nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from recorder.tail.history import History, handing_order
from recorder.tail.hub import Hub
from recorder.tail.wire import Beat, End

_POLL_S: Final = 0.05
_BEAT_NS: Final = 10**9
_MOST_A_POLL: Final = 16 * 1024
"""Records of one ring in one poll: a burst is shown late rather than taken from the drain's time."""


class Follower:
    """Reads the rings beside the drain, which does not know of it. `hub` begins anew with the first viewer."""

    def __init__(self, run: Path, most_bytes: int) -> None:
        self._history = History(run)
        self._most_bytes = most_bytes
        self._viewers = 0
        self._watched = asyncio.Event()
        self._next_beat = 0
        self.hub = Hub({}, most_bytes)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Hub]:
        """Keep the hub filled meanwhile."""
        if self._viewers == 0:
            self._history.discover()
            self.hub = Hub(self._history.ends(self._history.sealed()), self._most_bytes)
            self._next_beat = 0
        self._viewers += 1
        self._watched.set()
        try:
            yield self.hub
        finally:
            self._viewers -= 1
            if self._viewers == 0:
                self._watched.clear()

    async def follow(self) -> None:
        """Bring in records until cancelled."""
        while True:
            await self._watched.wait()
            await self._poll(self.hub)
            await asyncio.sleep(_POLL_S)

    async def finish(self, word: End) -> None:
        """Bring in the rest of a run that nobody writes any more, and tell its viewers."""
        if self._viewers:
            rest = self._history.ends(self.hub.ends)
            for ring, end in self._history.sealed().items():
                rest[ring] = max(rest.get(ring, 0), end)
            await self._bring(self.hub, rest)
        self.hub.say(word)

    async def _poll(self, hub: Hub) -> None:
        now = time.monotonic_ns()
        self._history.discover()
        ends = self._history.ends(hub.ends)
        await self._bring(hub, {ring: min(end, hub.ends.get(ring, 0) + _MOST_A_POLL) for ring, end in ends.items()})
        if now >= self._next_beat:
            hub.say(Beat(t=now, ends=dict(hub.ends), drops=self._history.drops()))
            self._next_beat = now + _BEAT_NS

    async def _bring(self, hub: Hub, ends: dict[str, int]) -> None:
        """Viewers get their turn after each batch."""
        for ring in handing_order(ends):
            for batch in self._history.read(ring, hub.ends.get(ring, 0), ends[ring]):
                hub.publish(batch)
                await asyncio.sleep(0)
