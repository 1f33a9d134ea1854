"""Serves the live tail of a run in a thread of its own, which reads the run like any reader: the drain never waits."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from recorder.narration import say
from recorder.run import load_info
from recorder.tail.access import Door, door_path, is_loopback, new_token, offered_token, read_door, write_door
from recorder.tail.follow import Follower
from recorder.tail.hub import MOST_BYTES
from recorder.tail.viewer import Viewer, Wish
from recorder.tail.wire import End, TailError, parse_position, parse_tables

PATH: Final = "/tail"
MOST_VIEWERS: Final = 16
_MOST_INCOMING: Final = 1024
"""Bytes of a frame that a viewer may send. It has nothing to say, so any whole one ends its connection as well."""
_LEAVE_S: Final = 3.0


class TailServer:
    """The server of one run: `start` it, `stop` it when the run is closed. `door` says where it is.

    Raises OSError where the address can't be had.
    """

    def __init__(self, run: Path, host: str, port: int | None, most_bytes: int = MOST_BYTES) -> None:
        self._run = run
        self._needs_token = not is_loopback(host)
        self._most_bytes = most_bytes
        before = read_door(run)
        self._socket = _listen(host, port, before.port if before else 0)
        self.door = Door(_url(self._socket, host), before.token if before else new_token())
        write_door(run, self.door)
        self._loop = asyncio.new_event_loop()
        self._leave: asyncio.Future[Literal["sealed", "recording"]] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve_for_ever, name="tail", daemon=True)
        self._viewers = 0

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()
        say(f"live tail at {self.door.url}{', with the token of tail.json' if self._needs_token else ''}")

    def stop(self, state: Literal["sealed", "recording"]) -> None:
        """Hand out what is left, tell the viewers how the run was left, and end. A sealed run has no door."""
        try:
            self._loop.call_soon_threadsafe(self._leave.set_result, state)
        except RuntimeError:
            say("the live tail had ended before the run did")
        self._thread.join(2 * _LEAVE_S)
        if state == "sealed":
            door_path(self._run).unlink(missing_ok=True)

    def _serve_for_ever(self) -> None:
        logging.getLogger("websockets.server").addHandler(logging.NullHandler())
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._follower = Follower(self._run, self._most_bytes)
        async with _open(self._socket, self._admit, self._attend) as server:
            following = asyncio.ensure_future(self._follower.follow())
            await _either(self._leave, following)
            following.cancel()
            if self._leave.done():
                await self._take_leave(server, self._leave.result())
            else:
                following.result()

    async def _take_leave(self, server: Server, state: Literal["sealed", "recording"]) -> None:
        """Viewers that keep up get everything; the others come back and read it from the files."""
        await self._follower.finish(End(state=state))
        attending = [task for task in server.handler_tasks if not task.done()]
        if attending:
            await asyncio.wait(attending, timeout=_LEAVE_S)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse what is no viewer of this run. The order tells nothing to those who may not look."""
        address = urlsplit(request.path)
        query = dict(parse_qsl(address.query))
        if "Origin" in request.headers:
            return connection.respond(HTTPStatus.FORBIDDEN, "the tail is not for web pages\n")
        if address.path != PATH:
            return connection.respond(HTTPStatus.NOT_FOUND, f"the tail is at {PATH}\n")
        if self._needs_token and not self.door.admits(offered_token(request.headers, query)):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "a token is needed: see tail.json of the run\n")
        if self._viewers >= MOST_VIEWERS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_VIEWERS} viewers are the most\n")
        try:
            _wish(query)
        except TailError as error:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"{error}\n")
        return None

    async def _attend(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        wish = _wish(dict(parse_qsl(urlsplit(connection.request.path).query)))
        self._viewers += 1
        try:
            async with self._follower.watched():
                viewer = Viewer(self._run, load_info(self._run), self._follower.hub, wish, connection.send)
                await _until_first(viewer.attend(), _refuse_words(connection))
        except ConnectionClosed:
            return
        finally:
            self._viewers -= 1


def _wish(query: dict[str, str]) -> Wish:
    return Wish(parse_position(query.get("from", "now")), parse_tables(query.get("tables", "")), query.get("run"))


async def _refuse_words(connection: ServerConnection) -> None:
    """Return when the viewer leaves, or says anything: then it is sent away."""
    async for _ in connection:
        await connection.close(CloseCode.POLICY_VIOLATION, "the tail takes no messages")


async def _either(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _until_first(*works: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await _either(*tasks)
        for task in (task for task in tasks if task.done()):
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _open(sock: socket.socket, admit: Callable[..., Any], attend: Callable[..., Any]) -> Server:
    return serve(
        attend,
        sock=sock,
        process_request=admit,
        compression=None,
        max_size=_MOST_INCOMING,
        max_queue=2,
        open_timeout=5,
        ping_interval=10,
        ping_timeout=20,
        close_timeout=1,
        server_header=None,
    )


def _listen(host: str, port: int | None, before: int) -> socket.socket:
    """Listen at `port`; where none is asked for, at the one of an earlier recorder of the run, or any that is free."""
    if port is not None:
        return _bound(host, port)
    try:
        return _bound(host, before)
    except OSError:
        return _bound(host, 0)


def _bound(host: str, port: int) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()  # from here on viewers may come: they wait until the thread has begun
    except OSError:
        sock.close()
        raise
    return sock


def _url(sock: socket.socket, host: str) -> str:
    """The address as this machine reaches it."""
    port = sock.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"ws://{name}:{port}{PATH}"


def serve_tail(run: Path, host: str, port: int | None) -> TailServer | None:
    """Serve a run's tail, or say why that can't be: recording goes on without."""
    try:
        server = TailServer(run, host, port)
    except OSError as error:
        say(f"no live tail: can't listen at {host}:{port or 0} ({error.strerror or error}); recording goes on")
        return None
    server.start()
    return server
