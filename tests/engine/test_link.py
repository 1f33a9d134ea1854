"""The wire between front end and worker: framing, order, no waiting, the end of either side."""

import asyncio
import socket
import threading
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.link import Frames, FrontLink, LinkClosedError, WorkerLink, frame
from engine.messages import Cancel, Drain, Failed, FromWorker, Sampling, Submit, ToWorker


def _submit(rid: int, tokens: int = 3) -> Submit:
    return Submit(rid, 1, list(range(tokens)), 5, Sampling(temperature=0.5, seed=7), arrival=123)


@given(st.lists(st.integers(0, 2**40)), st.lists(st.integers(1, 40)))
def test_messages_come_back_whole_and_in_order_however_the_stream_is_cut(rids: list[int], cuts: list[int]) -> None:
    stream = b"".join(frame(Cancel(rid)) for rid in rids)
    frames: Frames[ToWorker] = Frames(msgspec.msgpack.Decoder(ToWorker))
    received: list[ToWorker] = []
    for cut in cuts:
        received += frames.feed(stream[:cut])
        stream = stream[cut:]
    received += frames.feed(stream)
    assert received == [Cancel(rid) for rid in rids]


def test_poll_never_waits_and_keeps_the_order() -> None:
    ours, theirs = socket.socketpair()
    link = WorkerLink(theirs)
    assert link.poll() == []
    ours.sendall(frame(_submit(1)) + frame(Cancel(1)) + frame(Drain())[:3])
    assert link.poll() == [_submit(1), Cancel(1)]
    ours.sendall(frame(Drain())[3:])
    assert link.poll() == [Drain()]


def test_wait_ends_at_the_instant_and_for_a_message() -> None:
    ours, theirs = socket.socketpair()
    link = WorkerLink(theirs)
    instant = time.monotonic_ns() + 2_000_000
    link.wait(instant)
    assert time.monotonic_ns() >= instant
    ours.sendall(frame(Drain()))
    link.wait(None)
    assert link.poll() == [Drain()]


def test_the_worker_learns_that_the_front_end_is_gone() -> None:
    ours, theirs = socket.socketpair()
    link = WorkerLink(theirs)
    ours.close()
    link.wait(None)
    with pytest.raises(LinkClosedError):
        link.poll()
    with pytest.raises(LinkClosedError):
        link.send(Failed("nobody reads this"))


def test_a_front_end_that_does_not_read_never_blocks_the_worker() -> None:
    ours, theirs = socket.socketpair()
    link = WorkerLink(theirs)
    sent = [Failed("x" * 1000 + str(i)) for i in range(2000)]
    for message in sent:
        link.send(message)
    frames: Frames[FromWorker] = Frames(msgspec.msgpack.Decoder(FromWorker))
    received: list[FromWorker] = []
    closer = threading.Thread(target=link.close)
    closer.start()
    while data := ours.recv(1 << 16):
        received += frames.feed(data)
    closer.join()
    assert received == sent


async def test_the_front_end_reads_messages_and_the_end() -> None:
    ours, theirs = socket.socketpair()
    messages: list[tuple[FromWorker, int]] = []
    lost = asyncio.Event()
    before = time.monotonic_ns()
    link = await FrontLink.attach(ours, lambda message, now: messages.append((message, now)), lost.set)
    worker = WorkerLink(theirs)
    link.send(_submit(1, tokens=5000))
    received: list[ToWorker] = []
    while not received:
        await asyncio.sleep(0)
        received += worker.poll()
    assert received == [_submit(1, tokens=5000)]
    worker.send(Failed("no more"))
    worker.close()
    await lost.wait()
    assert [message for message, _ in messages] == [Failed("no more")]
    assert before <= messages[0][1] <= time.monotonic_ns()
    link.send(Drain())  # goes nowhere, and says so to nobody
