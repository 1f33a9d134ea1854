"""The tail of a run whose recorder is killed at any instant, whose engine is started again, or that is over."""

import asyncio
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from recorder.producer import PartProducer
from recorder.run import finish, run_state
from recorder.tail.access import read_door
from recorder.tail.client import Connected, Disconnected, Event, Finished, TailClient
from recorder.tail.wire import Missed, TailError
from tests.recorder.processes import Counter, start_writer, until
from tests.recorder.rows import append_slices, new_run
from tests.recorder.tails import Seen, served, tail_recorder, up_to, watch

KILLS = 6
RING_MB = 0.05
"""About 700 slices: the ring wraps many times, and most of what a viewer has to catch up on is in parts."""


class Scene:
    """A run with a writer process that never stops, and recorders that serve its tail."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.run = new_run(folder, seal_interval_s=0.05, sample_interval_s=0.05)
        self.counter_path = folder / "counter"
        self.counter = Counter(self.counter_path)
        self.stack = stack
        self.chance = random.Random(33)

    def start_writer(self) -> subprocess.Popen[bytes]:
        writer = start_writer(self.run, self.counter_path, RING_MB)
        self.stack.callback(writer.wait)
        self.stack.callback(writer.kill)
        until(lambda: self.counter.value > 0, "the writer writes")
        return writer

    def start_recorder(self, *options: str) -> subprocess.Popen[bytes]:
        process, self.let_go = self.stack.enter_context(tail_recorder(self.run, *options))
        return process


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path, stack)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def kinds(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def test_recorders_killed_under_two_viewers(scene: Scene) -> None:
    """One knows the folder, one the address. Both see every record once, in order, across every kill."""
    port = free_port()
    recorder = await asyncio.to_thread(scene.start_recorder, f"--tail-port={port}")
    writer = await asyncio.to_thread(scene.start_writer)
    viewers = [TailClient(scene.run, start="start"), TailClient(f"ws://127.0.0.1:{port}", start="start")]
    everything = [Seen(), Seen()]
    ended = [
        asyncio.ensure_future(watch(viewer, seen, lambda seen: bool(kinds(seen.events[-1:], Finished))))
        for viewer, seen in zip(viewers, everything, strict=True)
    ]
    for _ in range(KILLS):
        before = [len(seen.batches) for seen in everything]
        while any(len(seen.batches) <= count for seen, count in zip(everything, before, strict=True)):
            await asyncio.sleep(0.01)
        await asyncio.sleep(scene.chance.uniform(0, 0.2))
        recorder.kill()
        await asyncio.to_thread(recorder.wait)
        recorder = await asyncio.to_thread(scene.start_recorder, f"--tail-port={port}")
    connections = [len(kinds(seen.events, Connected)) for seen in everything]
    while any(len(kinds(seen.events, Connected)) < KILLS + 1 for seen in everything):
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in ended), connections
    writer.kill()
    await asyncio.to_thread(writer.wait)
    scene.let_go()
    assert await asyncio.to_thread(recorder.wait) == 0
    await asyncio.gather(*ended)
    for seen in everything:
        numbers = seen.slices()
        assert numbers == list(range(len(numbers)))
        assert scene.counter.value <= len(numbers) <= scene.counter.value + 1
        assert not kinds(seen.events, Missed)
        assert kinds(seen.events, Disconnected)
        assert seen.events[-1] == Finished("sealed")


async def test_a_viewer_that_was_away_while_the_run_was_sealed(scene: Scene) -> None:
    """What the server no longer tells, the files do."""
    recorder = await asyncio.to_thread(scene.start_recorder)
    writer = await asyncio.to_thread(scene.start_writer)
    client, seen = TailClient(scene.run, start="start"), Seen()
    await watch(client, seen, up_to(50))
    writer.kill()
    await asyncio.to_thread(writer.wait)
    scene.let_go()
    assert await asyncio.to_thread(recorder.wait) == 0
    await watch(client, seen, lambda seen: False)
    assert seen.events[-1] == Finished("sealed")
    assert len(seen.slices()) >= scene.counter.value


async def test_the_end_of_a_run_that_was_killed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer that followed it waits for another recorder for a while; one that comes later reads it at once."""
    monkeypatch.setattr("recorder.tail.client._GRACE_S", 1.0)
    recorder = await asyncio.to_thread(scene.start_recorder)
    writer = await asyncio.to_thread(scene.start_writer)
    client, seen = TailClient(scene.run, start="start"), Seen()
    await watch(client, seen, up_to(50))
    for process in (writer, recorder):
        process.kill()
        await asyncio.to_thread(process.wait)
    assert run_state(scene.run) == "killed"
    late = await watch(TailClient(scene.run, start="start"), Seen(), lambda seen: False)
    assert not kinds(late.events, Disconnected)
    await watch(client, seen, lambda seen: False)
    for viewer in (seen, late):
        assert viewer.events[-1] == Finished("killed")
        assert viewer.slices() == list(range(len(viewer.slices())))
        assert len(viewer.slices()) >= scene.counter.value


async def test_a_viewer_that_never_reads_holds_up_nobody(scene: Scene) -> None:
    """The ring is free again and again, another viewer sees all, and the run is sealed when it ends."""
    recorder = await asyncio.to_thread(scene.start_recorder)
    writer = await asyncio.to_thread(scene.start_writer)
    door = read_door(scene.run)
    assert door is not None
    with socket.create_connection(("127.0.0.1", door.port)) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        stuck.sendall(f"GET /tail?from=start HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n{key}\r\n\r\n".encode())
        assert stuck.recv(12) == b"HTTP/1.1 101"
        seen = await watch(TailClient(scene.run, start="start"), Seen(), up_to(20_000))
        assert seen.slices() == list(range(len(seen.slices())))
        writer.kill()
        await asyncio.to_thread(writer.wait)
        scene.let_go()
        assert await asyncio.to_thread(recorder.wait) == 0
    assert run_state(scene.run) == "sealed"


async def test_another_run_at_the_same_address(tmp_path: Path) -> None:
    """The engine was started again: the viewer says so, and follows the new run from its beginning."""
    port = free_port()
    runs = [new_run(tmp_path) for _ in range(2)]
    client, seen = TailClient(f"ws://127.0.0.1:{port}", start="start"), Seen()
    for run, count in zip(runs, (700, 300), strict=True):
        producer = PartProducer(run, "worker0", ["slices"])
        append_slices(producer, range(count))
        producer.close()
        with tail_recorder(run, f"--tail-port={port}") as (recorder, let_go):
            seen.batches.clear()
            await watch(client, seen, up_to(count))
            assert seen.slices() == list(range(count))
            let_go()
            assert await asyncio.to_thread(recorder.wait) == 0
    connected = [event for event in seen.events if isinstance(event, Connected)]
    assert [(event.info.run_id, event.before) for event in connected] == [
        (runs[0].name, None),
        (runs[1].name, runs[0].name),
    ]


async def test_a_sealed_run_from_now_has_nothing_to_tell(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(10))
    producer.close()
    finish(run)
    seen = await watch(TailClient(run), Seen(), lambda seen: False)
    assert [type(event) for event in seen.events] == [Connected, Finished]
    assert seen.batches == []


async def test_a_run_that_is_recorded_without_a_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.tail.client._GRACE_S", 0.3)
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    with pytest.raises(TailError, match="is recorded without a live tail: `tailtrace open"):
        await watch(TailClient(run), Seen(), lambda seen: False)
    producer.close()


async def test_a_recorder_whose_port_is_taken_records_nevertheless(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = ["--tail-host", "127.0.0.1", "--tail-port", str(taken.getsockname()[1])]
        ended = await asyncio.to_thread(_close, run, command)
    assert ended.returncode == 0
    assert "no live tail: can't listen at 127.0.0.1" in ended.stderr
    assert run_state(run) == "sealed"


def _close(run: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recorder", str(run), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def test_a_stream_with_a_gap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that a server would: but a viewer that did not look could not promise anything."""
    run = new_run(tmp_path)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(100))
    producer.close()
    with served(run) as server:
        client = TailClient(server.door.url, start="start")
        await watch(client, Seen(), lambda seen: bool(seen.events))
        assert client.position == {}
        client.position = {"worker0.slices": 40}
        monkeypatch.setattr(TailClient, "_query", lambda _: {"from": "start"})
        with pytest.raises(TailError, match="does not begin where it was asked to"):
            await watch(client, Seen(), lambda seen: False)
