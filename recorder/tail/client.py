"""Follows a live tail from anywhere: connects, checks that nothing is missing or doubled, comes back when cut off."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, NoReturn
from urllib.parse import urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, InvalidURI, WebSocketException

from recorder.run import RunInfo, State, load_info, run_state
from recorder.schema import SCHEMA_VERSION, TABLES
from recorder.tail.access import Door, read_door
from recorder.tail.history import History, in_turn, run_ends
from recorder.tail.wire import (
    MAX_FRAME,
    Batch,
    Beat,
    End,
    Hello,
    Missed,
    Position,
    Start,
    TailError,
    count_between,
    decode,
    decode_word,
    format_position,
    table_of,
)

_FIRST_DELAY_S: Final = 0.2
_MOST_DELAY_S: Final = 10.0
_GRACE_S: Final = 10.0
"""How long a run without a recorder may wait for the next one before it counts as killed."""


@dataclass(frozen=True)
class Connected:
    """A stream begins. `before` is the id of the run that was followed until now, where this is another one."""

    info: RunInfo
    where: str
    before: str | None = None


@dataclass(frozen=True)
class Pulse:
    """How far behind this viewer is: `late_ns` as of the way here, `behind` as records it does not have yet."""

    late_ns: int
    behind: int
    drops: Position


@dataclass(frozen=True)
class Disconnected:
    """The stream broke; the next attempt is in `retry_s`."""

    why: str
    retry_s: float


@dataclass(frozen=True)
class Finished:
    """The run has ended, and everything it has was handed out."""

    state: State


Event = Connected | Batch | Missed | Pulse | Disconnected | Finished


class TailClient:
    """One viewer. `events` never ends for an address: another run may come there; for a run it ends with the run.

    `position` is the number of the next record of each ring; None before the first one is known.
    """

    def __init__(
        self,
        target: str | Path,
        *,
        token: str | None = None,
        start: Position | Start = "now",
        tables: frozenset[str] = frozenset(TABLES),
    ) -> None:
        self._url = None if isinstance(target, Path) else tail_url(target)
        self._run = target if isinstance(target, Path) else None
        self._token = token
        self._tables = tables
        self._start: Position | Literal["now"] = {} if start == "start" else start
        self._run_id: str | None = None
        self._offset_ns: int | None = None
        self.position: Position | None = None

    async def events(self) -> AsyncGenerator[Event]:
        """What comes. Raises TailError where trying again would not help."""
        tries, alone_since = 0, time.monotonic()
        while True:
            state = self._end_of_run(time.monotonic() - alone_since)
            if state is not None:
                for event in self._from_files(state):
                    yield event
                return
            why = "nobody serves the tail of this run yet"
            if door := self._door():
                try:
                    async with aclosing(self._stream(door)) as stream:
                        async for event in stream:
                            tries, alone_since = 0, time.monotonic()
                            yield event
                            if isinstance(event, Finished) and self._run:
                                return
                    why = "the recorder has gone"
                except (OSError, TimeoutError, WebSocketException) as error:
                    self._give_up_if_hopeless(error, door)
                    why = str(error) or type(error).__name__
            delay = min(_FIRST_DELAY_S * 2**tries, _MOST_DELAY_S) * random.uniform(0.5, 1)
            yield Disconnected(why, delay)
            await asyncio.sleep(delay)
            tries += 1

    def _end_of_run(self, alone_s: float) -> State | None:
        """How a run on this machine has ended, if it has. One whose recorder was replaced is without for a moment."""
        if self._run is None:
            return None
        state = run_state(self._run)
        patient = self._run_id is not None and alone_s < _GRACE_S
        if state == "recording" and read_door(self._run) is None and alone_s > _GRACE_S:
            raise TailError(f"{self._run} is recorded without a live tail: `tailtrace open {self._run}` shows it")
        return None if state == "recording" or (state == "killed" and patient) else state

    def _from_files(self, state: State) -> Iterator[Event]:
        """The rest of a run that nobody serves any more."""
        assert self._run is not None
        if self._run_id is None:
            info = load_info(self._run)
            yield Connected(info, str(self._run))
        ends = {ring: end for ring, end in run_ends(self._run).items() if table_of(ring) in self._tables}
        history = History(self._run)
        history.discover()
        if self.position is None:
            self.position = ends if self._start == "now" else dict(self._start)
        for batch in in_turn(history, dict(self.position), ends):
            yield self._took(batch)
        history.close()
        yield Finished(state)

    def _door(self) -> Door | None:
        """Where to knock, read again each time: another recorder may serve at another port."""
        if self._run is None:
            return Door(self._url or "", self._token or "")
        return read_door(self._run)

    async def _stream(self, door: Door) -> AsyncGenerator[Event]:
        headers = {"Authorization": f"Bearer {door.token}"} if door.token else {}
        async with connect(
            f"{door.url}?{urlencode(self._query())}",
            additional_headers=headers,
            compression=None,
            proxy=None,  # a tail is watched directly or through a tunnel
            max_size=MAX_FRAME,
            max_queue=4,
            ping_interval=10,
            ping_timeout=20,
            close_timeout=1,
        ) as connection:
            async for message in connection:
                event = self._understood(message, door.url)
                yield event
                if isinstance(event, Finished):
                    return

    def _query(self) -> dict[str, str]:
        start = self._start if self.position is None else self.position
        query = {"from": start if isinstance(start, str) else format_position(start)}
        if self._tables != frozenset(TABLES):
            query["tables"] = ",".join(sorted(self._tables))
        return query | ({"run": self._run_id} if self._run_id else {})

    def _understood(self, message: str | bytes, where: str) -> Event:
        if isinstance(message, bytes):
            return self._took(decode(message))
        match decode_word(message):
            case Hello() as hello:
                return self._greeted(hello, where)
            case Beat() as beat:
                return self._pulse(beat)
            case Missed() as missed:
                return self._skipped(missed)
            case End() as end:
                return Finished(end.state)

    def _greeted(self, hello: Hello, where: str) -> Connected:
        if hello.schema_version > SCHEMA_VERSION:
            raise TailError(
                f"{where} records schema {hello.schema_version}, this tailtrace reads up to {SCHEMA_VERSION}: "
                "upgrade tailtrace"
            )
        before = self._run_id if self._run_id != hello.run_id else None
        if self.position is not None and before is None and self._mine(self.position) != hello.position:
            raise TailError(f"{where} does not begin where it was asked to: is it a tailtrace?")
        self._run_id, self.position, self._offset_ns = hello.run_id, dict(hello.position), None
        return Connected(hello.run, where, before)

    def _took(self, batch: Batch) -> Batch:
        """Records have to continue those before: this is what proves that none is missing and none is there twice."""
        self._go_on(batch.ring, batch.first, batch.last)
        return batch

    def _skipped(self, missed: Missed) -> Missed:
        for ring, (first, last) in missed.ranges.items():
            self._go_on(ring, first, last)
        return missed

    def _go_on(self, ring: str, first: int, last: int) -> None:
        assert self.position is not None
        expected = self.position.get(ring, 0)
        if first != expected or last < first:
            raise TailError(f"the stream of {ring} goes on at {first}, not at {expected}: tell us about it")
        self.position[ring] = last

    def _pulse(self, beat: Beat) -> Pulse:
        """The shortest way so far counts as no delay: the clocks of two machines have nothing to do with each other."""
        assert self.position is not None
        way = time.monotonic_ns() - beat.t
        self._offset_ns = way if self._offset_ns is None else min(way, self._offset_ns)
        behind = count_between(self.position, beat.ends, self._mine(beat.ends))
        return Pulse(way - self._offset_ns, behind, beat.drops)

    def _mine(self, position: Position) -> Position:
        return {ring: number for ring, number in position.items() if table_of(ring) in self._tables}

    def _give_up_if_hopeless(self, error: Exception, door: Door) -> None:
        if isinstance(error, InvalidURI):
            _hopeless(f"{door.url} is no address of a tail: it looks like ws://HOST:PORT/tail", error)
        if isinstance(error, InvalidStatus) and error.response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            status, said = error.response.status_code, (error.response.body or b"").decode("utf-8", "replace").strip()
            hint = "; give it with --token" if status == HTTPStatus.UNAUTHORIZED else ""
            if status == HTTPStatus.NOT_FOUND:
                said = (
                    "it is no tail, which has a port of its own: the server says it at its start, as does RUN/tail.json"
                )
            _hopeless(f"{door.url} answers {status}: {said or 'it is no tail'}{hint}", error)
        if self._run is None and self._run_id is None:
            _hopeless(f"{door.url} can't be reached ({error}): is an engine serving there?", error)


def _hopeless(message: str, error: Exception) -> NoReturn:
    raise TailError(message) from error


def is_url(target: str) -> bool:
    """Whether it names a tail by its address."""
    return target.partition("://")[0] in {"ws", "wss"} and "://" in target


def tail_url(target: str) -> str:
    """The address without a query; `/tail` may be left out."""
    parts = urlsplit(target)
    path = parts.path if parts.path.strip("/") else "/tail"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
