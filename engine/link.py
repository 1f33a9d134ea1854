"""The wire between the front end and a worker: frames of messages over one socket pair, with an end for each side.

A frame is a 4-byte little-endian length and a msgpack message of `engine.messages`. The worker's end never blocks
the loop: what the socket does not take at once waits in memory. The end of the stream means that the peer is gone.
"""

import asyncio
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from engine.messages import FromWorker, ToWorker

_LENGTH: Final = struct.Struct("<I")
_READ_BYTES: Final = 1 << 18
_ENCODER: Final = msgspec.msgpack.Encoder()

M = TypeVar("M")


class LinkClosedError(Exception):
    """The peer has closed its end, or died."""


def frame(message: msgspec.Struct) -> bytes:
    """One message as it travels."""
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames(Generic[M]):
    """Cuts a stream of bytes, in whatever pieces it comes, back into messages of one kind."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder = decoder
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """Every message that `data` completes, oldest first; the rest waits for its other half."""
        self._pending += data
        messages: list[M] = []
        start = 0
        while len(self._pending) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending, start)
            end = start + _LENGTH.size + length
            if end > len(self._pending):
                break
            messages.append(self._decoder.decode(self._pending[start + _LENGTH.size : end]))
            start = end
        del self._pending[:start]
        return messages


class WorkerLink:
    """The worker's end: messages in without waiting, steps out without waiting, and one place to wait."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._frames: Frames[ToWorker] = Frames(msgspec.msgpack.Decoder(ToWorker))
        self._unsent = bytearray()

    def poll(self) -> list[ToWorker]:
        """All messages that are here, in order. LinkClosedError once the front end has gone."""
        self._flush()
        messages: list[ToWorker] = []
        while data := self._read():
            messages += self._frames.feed(data)
        return messages

    def wait(self, until_ns: int | None) -> None:
        """Return when a message is here, the front end has gone, or the instant has come (None: no instant)."""
        while True:
            timeout = None if until_ns is None else max(0, until_ns - time.monotonic_ns()) / 1e9
            sending = [self._sock] if self._unsent else []
            readable, writable, _ = select.select([self._sock], sending, [], timeout)
            if writable:
                self._flush()
            if readable or not writable:
                return

    def send(self, message: FromWorker) -> None:
        """Hand one message to the socket, or to memory while the socket is full. LinkClosedError if nobody is there."""
        self._unsent += frame(message)
        self._flush()

    def close(self) -> None:
        """Send what is left, waiting for the reader if need be, and close."""
        try:
            self._sock.setblocking(True)
            self._sock.sendall(self._unsent)
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()
        self._sock.close()

    def _read(self) -> bytes:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionResetError as error:
            raise LinkClosedError from error
        if not data:
            raise LinkClosedError
        return data

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError) as error:
            raise LinkClosedError from error


class FrontLink(asyncio.Protocol):
    """The front end's end: calls back with every message and when it was read, and once when the worker is gone."""

    def __init__(self, on_message: Callable[[FromWorker, int], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._frames: Frames[FromWorker] = Frames(msgspec.msgpack.Decoder(FromWorker))
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def attach(
        cls, sock: socket.socket, on_message: Callable[[FromWorker, int], None], on_lost: Callable[[], None]
    ) -> "FrontLink":
        """Take over a connected socket in the running event loop."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: cls(on_message, on_lost), sock=sock)
        return link

    def send(self, message: ToWorker) -> None:
        """Hand one message to the socket; after the worker's end has closed it goes nowhere."""
        if self._transport is not None:
            self._transport.write(frame(message))

    def close(self) -> None:
        """Close this end: the worker reads the end of the stream and leaves."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Part of asyncio.Protocol."""
        now = time.monotonic_ns()
        for message in self._frames.feed(data):
            self._on_message(message, now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of asyncio.Protocol; also called after `close`."""
        self._transport = None
        self._on_lost()
