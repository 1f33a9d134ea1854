"""One viewer of the tail: from where it wants to begin, through the run's files, to the live edge, at its own pace."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recorder.run import RunInfo
from recorder.tail.history import History, in_turn
from recorder.tail.hub import Hub
from recorder.tail.wire import (
    Batch,
    Beat,
    Hello,
    Missed,
    Position,
    Start,
    Word,
    encode,
    encode_word,
    table_of,
)

_BEAT_NS: Final = 10**9


@dataclass(frozen=True)
class Wish:
    """What a viewer asks for: where to begin, which tables, and the run that its position belongs to (None: any)."""

    start: Position | Start
    tables: frozenset[str]
    run_id: str | None = None


class Viewer:
    """Sends one viewer its frames. `send` waits for the viewer; nobody else does."""

    def __init__(
        self, run: Path, info: RunInfo, hub: Hub, wish: Wish, send: Callable[[str | bytes], Awaitable[None]]
    ) -> None:
        self._info = info
        self._hub = hub
        self._wish = wish
        self._send = send
        self._history = History(run)
        self._position: Position = {}

    async def attend(self) -> None:
        """Everything from the wish on, until the hub has its last word."""
        hub, wish = self._hub, self._wish
        resumed = wish.run_id in {None, self._info.run_id}
        now = resumed and wish.start == "now"
        start, place = (hub.ends if now else wish.start if resumed else {}), hub.end
        assert isinstance(start, dict)
        self._position = self._mine(start)
        await self._say(self._hello(resumed))
        if not now:
            place = await self._catch_up()
        await self._follow(place)

    async def _catch_up(self) -> int:
        """Read what is in no memory any more from the run's files; the place in the hub from where it goes on.

        Each round ends where the hub ended when it began. It was the last one if the hub still holds what came since.
        """
        hub = self._hub
        while True:
            target, place = self._mine(hub.ends), hub.end
            await self._read_up_to(target)
            if any(number > target.get(ring, 0) for ring, number in self._position.items()):
                await hub.grown(place)  # the viewer has read on by itself, the hub will be there at its next look
            elif place >= hub.begin:
                return place

    async def _read_up_to(self, target: Position) -> None:
        next_beat = time.monotonic_ns() + _BEAT_NS
        self._history.discover()
        batches = in_turn(self._history, self._position, target)
        while found := await asyncio.to_thread(_next_frame, batches):
            batch, frame = found
            await self._send(frame)
            self._position[batch.ring] = batch.last
            if time.monotonic_ns() >= next_beat:
                next_beat = time.monotonic_ns() + _BEAT_NS
                await self._say(Beat(t=time.monotonic_ns(), ends=dict(self._hub.ends), drops=self._history.drops()))

    async def _follow(self, place: int) -> None:
        hub = self._hub
        while True:
            await hub.grown(place)
            entry = hub.at(place)
            if entry is None:
                place = await self._skip()
                continue
            if entry.concerns(self._wish.tables):
                await self._send(entry.frame)
                self._position |= {entry.ring: entry.last} if entry.ring else {}
            if entry.final:
                return
            place += 1

    async def _skip(self) -> int:
        """Go on at the live edge, and tell exactly what that leaves out."""
        ends, place = self._mine(self._hub.ends), self._hub.edge
        missed = {ring: (self._position.get(ring, 0), end) for ring, end in ends.items()}
        missed = {ring: (first, last) for ring, (first, last) in missed.items() if first < last}
        self._position |= ends
        if missed:
            await self._say(Missed(ranges=missed))
        return place

    def _mine(self, position: Position) -> Position:
        return {ring: number for ring, number in position.items() if table_of(ring) in self._wish.tables}

    def _hello(self, resumed: bool) -> Hello:
        return Hello(
            run_id=self._info.run_id,
            schema_version=self._info.schema_version,
            run=self._info,
            position=dict(self._position),
            ends=dict(self._hub.ends),
            resumed=resumed,
            t=time.monotonic_ns(),
        )

    async def _say(self, word: Word) -> None:
        await self._send(encode_word(word))


def _next_frame(batches: Iterator[Batch]) -> tuple[Batch, bytes] | None:
    batch = next(batches, None)
    return None if batch is None else (batch, encode(batch))
