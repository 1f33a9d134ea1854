"""The tail over real sockets: what viewers get, who is refused, and that a slow one harms nobody but itself."""

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from recorder.drain import Drain, RecordSettings
from recorder.producer import RingProducer
from recorder.tail.access import Door, door_path, is_loopback, read_door, write_door
from recorder.tail.client import Connected, Finished, Pulse, TailClient, is_url, tail_url
from recorder.tail.server import MOST_VIEWERS, TailServer
from recorder.tail.wire import MAX_FRAME, Missed, TailError, decode, decode_word
from tests.recorder.processes import DEADLINE_S
from tests.recorder.rows import append_slices, new_run
from tests.recorder.tails import RING, Seen, gathered, served, up_to, watch

EAGER = RecordSettings(seal_interval_s=0)


class Scene:
    """A run that this process writes, and whose tail it serves."""

    def __init__(self, folder: Path, ring_mb: float = 8) -> None:
        self.run = new_run(folder)
        self.producer = RingProducer(self.run, "worker0", ["slices"], ring_mb)
        self.count = 0

    def write(self, count: int) -> int:
        append_slices(self.producer, range(self.count, self.count + count))
        self.count += count
        return self.count


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def server(scene: Scene) -> Iterator[TailServer]:
    with served(scene.run) as server:
        yield server


def status_of(error: pytest.ExceptionInfo[InvalidStatus]) -> int:
    return error.value.response.status_code


async def refused(url: str, **headers: str) -> int:
    """The status with which a viewer is refused."""
    with pytest.raises(InvalidStatus) as error:
        async with connect(url, proxy=None, additional_headers=headers):
            pass
    return status_of(error)


async def test_from_the_start_and_on_from_there(scene: Scene, server: TailServer) -> None:
    client, seen = TailClient(server.door.url, start="start"), Seen()
    end = scene.write(1000)
    await watch(client, seen, up_to(end))
    end = scene.write(500)
    await watch(client, seen, up_to(end))
    assert seen.slices() == list(range(1500))


async def test_from_now(scene: Scene, server: TailServer) -> None:
    scene.write(1000)
    client, seen = TailClient(server.door.url), Seen()
    await watch(client, seen, lambda seen: bool(seen.events))
    end = scene.write(500)
    await watch(client, seen, up_to(end))
    assert seen.slices() == list(range(1000, 1500))


async def test_from_a_position_long_gone_into_parts(scene: Scene, server: TailServer) -> None:
    drain = Drain(scene.run, EAGER)
    for _ in range(5):
        scene.write(300)
        drain.tick()
    end = scene.write(77)
    client = TailClient(server.door.url, start={RING: 444})
    seen = await watch(client, Seen(), up_to(end))
    assert seen.slices() == list(range(444, end))


async def test_only_the_tables_that_are_wanted(scene: Scene, server: TailServer) -> None:
    spans = RingProducer(scene.run, "frontend", ["spans"], 1)
    spans.row("spans", rid=1, start=1, end=2)
    scene.write(10)
    client = TailClient(server.door.url, start="start", tables=frozenset({"spans"}))
    seen = await watch(client, Seen(), lambda seen: any(isinstance(event, Pulse) for event in seen.events))
    assert {batch.ring for batch in seen.batches} == {"frontend.spans"}
    assert client.position == {"frontend.spans": 1}


async def test_several_viewers_see_the_same(scene: Scene, server: TailServer) -> None:
    clients = [TailClient(server.door.url, start="start") for _ in range(5)]
    viewing = [asyncio.ensure_future(watch(client, Seen(), up_to(3000))) for client in clients]
    for _ in range(30):
        scene.write(100)
        await asyncio.sleep(0)
    for seen in await asyncio.gather(*viewing):
        assert seen.slices() == list(range(3000))


async def test_a_ring_that_comes_later_is_seen_from_its_beginning(scene: Scene, server: TailServer) -> None:
    client, seen = TailClient(server.door.url), Seen()
    await watch(client, seen, lambda seen: bool(seen.events))
    late = RingProducer(scene.run, "worker1", ["slices"], 1)
    append_slices(late, range(20))
    await watch(client, seen, lambda seen: bool(seen.batches))
    assert {batch.ring for batch in seen.batches} == {"worker1.slices"}
    assert gathered(seen.batches) == list(range(20))


async def test_a_slow_viewer_is_skipped_ahead_and_told_exactly(tmp_path: Path) -> None:
    """Nobody else notices; and the writer, who never knew, has dropped nothing."""
    scene = Scene(tmp_path, ring_mb=96)
    with served(scene.run, most_bytes=2**18) as server:
        slow, quick = TailClient(server.door.url), TailClient(server.door.url)
        slow_seen, quick_seen = Seen(), Seen()
        waking = asyncio.Event()

        async def dawdle() -> None:
            async for event in slow.events():
                slow_seen.take(event)
                if isinstance(event, Connected):
                    await waking.wait()
                if any(isinstance(event, Missed) for event in slow_seen.events) and up_to(scene.count)(slow_seen):
                    break

        await watch(quick, quick_seen, lambda seen: bool(seen.events))
        dawdling = asyncio.ensure_future(dawdle())
        while not slow_seen.events:
            await asyncio.sleep(0.01)
        for _ in range(40):
            end = scene.write(16_000)
            await watch(quick, quick_seen, up_to(end))
        waking.set()
        while not any(isinstance(event, Missed) for event in slow_seen.events):
            await asyncio.sleep(0.01)
        scene.write(10)
        await asyncio.wait_for(dawdling, DEADLINE_S)
        assert quick_seen.slices() == list(range(640_000))
        assert not any(isinstance(event, Missed) for event in quick_seen.events)
    missed = {
        number for event in slow_seen.events if isinstance(event, Missed) for number in range(*event.ranges[RING])
    }
    assert missed
    assert sorted([*slow_seen.slices(), *missed]) == list(range(scene.count))
    assert scene.producer.drops == 0


async def test_a_position_of_another_run_is_put_aside(scene: Scene, server: TailServer) -> None:
    scene.write(50)
    async with connect(f"{server.door.url}?from={RING}:40&run=another", proxy=None, max_size=MAX_FRAME) as connection:
        hello = decode_word(str(await connection.recv()))
        assert not getattr(hello, "resumed", True)
        frame = await connection.recv()
        assert isinstance(frame, bytes)
        assert decode(frame).first == 0


async def test_a_viewer_that_is_ahead_of_the_hub_waits_for_it(scene: Scene, server: TailServer) -> None:
    scene.write(10)
    client = TailClient(server.door.url, start={RING: 15})
    seen = Seen()
    await watch(client, seen, lambda seen: bool(seen.events))
    end = scene.write(20)
    await watch(client, seen, up_to(end))
    assert seen.slices() == list(range(15, 30))


async def test_web_pages_are_refused(server: TailServer) -> None:
    assert await refused(server.door.url, Origin="http://evil.example") == 403
    assert await refused(server.door.url, Origin="null") == 403


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/", 404),
        ("/tail/../x", 404),
        ("/tail/", 404),
        ("/tail?from=yesterday", 400),
        ("/tail?tables=secrets", 400),
        ("/tail?from=worker0.steps:-1", 400),
    ],
)
async def test_wrong_paths_and_wishes_are_refused(server: TailServer, url: str, status: int) -> None:
    assert await refused(server.door.url.removesuffix("/tail") + url) == status


async def test_only_so_many_viewers(scene: Scene, server: TailServer) -> None:
    async with asyncio.timeout(DEADLINE_S):
        connections = [await connect(server.door.url, proxy=None) for _ in range(MOST_VIEWERS)]
        for connection in connections:
            await connection.recv()
        assert await refused(server.door.url) == 503
        for connection in connections:
            await connection.close()


async def test_a_viewer_has_nothing_to_say(server: TailServer) -> None:
    async with connect(server.door.url, proxy=None) as connection:
        await connection.send("hello")
        with pytest.raises(ConnectionClosedError) as closed:
            async for _ in connection:
                pass
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the tail takes no messages")


async def test_oversized_frames_are_refused(server: TailServer) -> None:
    async with connect(server.door.url, proxy=None) as connection:
        await connection.send(bytes(100_000))
        with pytest.raises(ConnectionClosedError) as closed:
            async for _ in connection:
                pass
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_beyond_this_machine_a_token_is_needed(scene: Scene) -> None:
    with served(scene.run, "0.0.0.0") as server:
        url, token = server.door.url, server.door.token
        assert url.startswith("ws://127.0.0.1:")
        assert await refused(url) == 401
        assert await refused(f"{url}?token={token[:-1]}") == 401
        assert await refused(url, Authorization=f"Bearer {token}x") == 401
        assert await refused(url, Authorization=f"Basic {token}") == 401
        async with connect(f"{url}?token={token}", proxy=None) as connection:
            await connection.recv()
        end = scene.write(5)
        seen = await watch(TailClient(url, token=token, start="start"), Seen(), up_to(end))
        assert seen.slices() == list(range(5))
        with pytest.raises(TailError, match=r"answers 401: a token is needed.*; give it with --token"):
            await watch(TailClient(url), Seen(), lambda _: False)


def test_the_door_is_for_its_owner_only(scene: Scene, server: TailServer) -> None:
    assert stat.S_IMODE(door_path(scene.run).stat().st_mode) == 0o600
    assert read_door(scene.run) == server.door
    assert len(server.door.token) >= 32


def test_the_door_is_never_readable_for_others(scene: Scene) -> None:
    before = os.umask(0)
    try:
        write_door(scene.run, Door("ws://127.0.0.1:1/tail", "token"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(door_path(scene.run).stat().st_mode) == 0o600


def test_tokens_are_compared_whole() -> None:
    door = Door("ws://h:1/tail", "secret")
    assert door.admits("secret")
    assert not any(door.admits(offered) for offered in (None, "", "secre", "secrets", "sécret"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_which_hosts_are_this_machine_alone(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_another_recorder_takes_the_same_port_and_token(scene: Scene) -> None:
    with served(scene.run) as first:
        door = first.door
    with served(scene.run) as second:
        assert second.door == door


def test_a_port_that_is_taken_meanwhile_is_given_up(scene: Scene) -> None:
    with served(scene.run) as first:
        door = first.door
    with socket.create_server(("127.0.0.1", door.port)), served(scene.run) as second:
        assert second.door.port != door.port
        assert second.door.token == door.token


async def test_the_last_word_comes_after_the_last_record(scene: Scene) -> None:
    server = TailServer(scene.run, "127.0.0.1", None)
    server.start()
    client, seen = TailClient(server.door.url, start="start"), Seen()
    end = scene.write(100)
    await watch(client, seen, up_to(end))
    watching = asyncio.ensure_future(watch(client, seen, lambda seen: isinstance(seen.events[-1], Finished)))
    while not any(isinstance(event, Pulse) for event in seen.events):
        await asyncio.sleep(0.01)
    scene.write(5000)
    await asyncio.to_thread(server.stop, "sealed")
    await asyncio.wait_for(watching, DEADLINE_S)
    assert seen.slices() == list(range(5100))
    assert seen.events[-1] == Finished("sealed")
    assert not door_path(scene.run).exists()


def test_without_viewers_nothing_is_read(scene: Scene, server: TailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = threading.Event()

    def ends(*_: object) -> dict[str, int]:
        read.set()
        return {}

    monkeypatch.setattr("recorder.tail.history.History.ends", ends)
    scene.write(100)
    assert not read.wait(0.3)
    asyncio.run(_greeted(server.door.url))
    assert read.wait(DEADLINE_S)


async def _greeted(url: str) -> None:
    async with connect(url, proxy=None) as connection:
        await connection.recv()


async def test_an_address_where_nobody_is(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TailError, match="can't be reached"):
        await watch(TailClient(f"ws://127.0.0.1:{port}"), Seen(), lambda _: False)
    with pytest.raises(TailError, match="is no address of a tail"):
        await watch(TailClient("ws://"), Seen(), lambda _: False)


def test_addresses() -> None:
    assert is_url("ws://h:1/tail")
    assert is_url("wss://h")
    assert not is_url("runs/a")
    assert not is_url("http://h:1")
    assert tail_url("ws://h:1") == tail_url("ws://h:1/") == tail_url("ws://h:1/tail?from=now") == "ws://h:1/tail"
    assert tail_url("wss://proxy/deep/tail") == "wss://proxy/deep/tail"
