"""The console at the live edge: it moves with the run, rests while somebody looks away, and comes back by one key."""

import asyncio
import fcntl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from console.app import Tailtrace
from console.book import Book
from console.live import Feed, LocalFeed, RemoteFeed
from console.replay import Replay
from console.screens.timeline import TimelineScreen
from console.screentable import SCREENS
from console.watching import Following, Held, Mode, Pace, Standing, Watch
from recorder.drain import Drain, RecordSettings
from recorder.errors import UserError
from recorder.producer import RingProducer
from recorder.run import ClockAnchor, RunInfo, create_run, finish, hold_lock, lock_path
from recorder.tables import open_tables
from recorder.tail.server import TailServer
from tests.console.screens import press, screen_text
from tests.console.test_tui_open import LEAVE_SCREEN, OnTerminal
from tests.console.tui_runs import TABLES, Sim, workload
from tests.recorder.processes import DEADLINE_S, new_name, until
from tests.recorder.tails import served


class Engine:
    """A run that is recorded while the test looks on: passes are written when the test says so."""

    def __init__(self, folder: Path) -> None:
        info = RunInfo(run_id=new_name(), clock=ClockAnchor(kind="virtual"), model={"name": "toy"})
        self.run = create_run(folder, info)
        self.producer = RingProducer(self.run, "worker0", TABLES, 1)
        self.sim = Sim(self.producer, workload(200))

    def passes(self, count: int) -> None:
        for _ in range(count):
            self.sim.one_pass()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """With sixty passes behind it; somebody holds the run's lock, as a recorder would."""
    engine = Engine(tmp_path)
    engine.passes(60)
    with hold_lock(lock_path(engine.run), fcntl.LOCK_SH):
        yield engine


@asynccontextmanager
async def watching(feed: Feed, screen: str = "timeline") -> AsyncIterator[tuple[Tailtrace, Pilot[None]]]:
    """The console on a feed, as `tailtrace tail` opens it."""
    await asyncio.to_thread(feed.begin)
    try:
        app = Tailtrace([Book(feed.standing().run)], screen, watch=Watch(feed.standing))
        async with app.run_test(size=(120, 30)) as pilot:
            yield app, pilot
        app.leave(DEADLINE_S)
    finally:
        await asyncio.to_thread(feed.end)


async def comes(pilot: Pilot[None], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        await pilot.pause()
        await asyncio.sleep(0.02)
        assert time.monotonic() < deadline, f"waited in vain: {what}\n{screen_text(pilot.app)}"  # type: ignore[arg-type]


def replay_of(app: Tailtrace) -> Replay | None:
    return app.screen.replay if isinstance(app.screen, TimelineScreen) else None


def lanes_shown(app: Tailtrace) -> int:
    replay = replay_of(app)
    return 0 if replay is None else len(replay.lanes)


def lanes_written(run: Path) -> int:
    return int(open_tables(run).table("requests").num_rows)


def has(app: Tailtrace, words: str) -> Callable[[], bool]:
    return lambda: words in screen_text(app)


async def test_the_view_moves_with_the_run(engine: Engine) -> None:
    async with watching(LocalFeed(engine.run)) as (app, pilot):
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run) > 0, "what there is")
        first = lanes_shown(app)
        engine.passes(60)
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run) > first, "what has come")
        replay = replay_of(app)
        assert replay is not None
        assert replay.playhead.at == replay.playhead.end
        assert replay.selected == len(replay.lanes) - 1
        assert "live" in screen_text(app)
        assert app.watch_live is not None
        assert isinstance(app.watch_live.mode, Following)


@pytest.mark.parametrize("keys", [["home"], ["k"], ["left"], ["enter"], ["comma"], ["v"]])
async def test_looking_away_holds_the_view_and_g_returns(engine: Engine, keys: list[str]) -> None:
    async with watching(LocalFeed(engine.run)) as (app, pilot):
        watch = app.watch_live
        assert watch is not None
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run) > 0, "what there is")
        await press(pilot, *keys)
        assert isinstance(watch.mode, Held)
        before, shown = lanes_shown(app), app.book.revision
        engine.passes(30)
        await comes(pilot, lambda: watch.new > 0, "new records are counted")
        counted = watch.new
        engine.passes(30)
        await comes(pilot, lambda: watch.new > counted, "and the count grows")
        await comes(pilot, has(app, f"held +{watch.new:,}"), "it is on screen")
        assert (lanes_shown(app), app.book.revision) == (before, shown)
        await press(pilot, "G")
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run) > before, "the live edge")
        assert isinstance(watch.mode, Following)
        assert "held" not in screen_text(app)


async def test_reading_of_one_request_holds_the_view(engine: Engine) -> None:
    async with watching(LocalFeed(engine.run)) as (app, pilot):
        watch = app.watch_live
        assert watch is not None
        await comes(pilot, lambda: lanes_shown(app) > 0, "what there is")
        await press(pilot, "3")
        await comes(pilot, has(app, "Token gaps"), "the request")
        assert isinstance(watch.mode, Held)
        revision = app.book.revision
        engine.passes(30)
        await comes(pilot, lambda: watch.new > 0, "new records are counted")
        assert app.book.revision == revision
        await press(pilot, "G")
        await comes(pilot, lambda: app.book.revision > revision, "it is read again")
        await comes(pilot, lambda: isinstance(watch.mode, Held), "and held again")


async def test_end_is_the_live_edge_too(engine: Engine) -> None:
    async with watching(LocalFeed(engine.run)) as (app, pilot):
        await comes(pilot, lambda: lanes_shown(app) > 0, "what there is")
        await press(pilot, "home")
        assert app.watch_live is not None
        assert isinstance(app.watch_live.mode, Held)
        await press(pilot, "end")
        assert isinstance(app.watch_live.mode, Following)


async def test_the_overview_moves_with_the_run(engine: Engine) -> None:
    async with watching(LocalFeed(engine.run), "overview") as (app, pilot):
        await comes(pilot, has(app, "TTFT"), "a report")
        before = app.book.revision
        engine.passes(60)
        await comes(pilot, lambda: app.book.revision > before and app.book.report is not None, "a newer report")
        assert "working out" not in screen_text(app)


async def test_the_end_of_the_recorder_is_said(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.passes(20)
    async with watching(LocalFeed(engine.run)) as (app, pilot):
        await comes(pilot, has(app, "the recorder has gone"), "it is said")


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
async def test_every_screen_says_that_the_run_has_ended_and_goes_on(
    engine: Engine, far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.tail.client._MOST_DELAY_S", 0.2)
    server = TailServer(engine.run, "127.0.0.1", None)
    server.start()
    async with watching(RemoteFeed(server.door.url, None, "start") if far else LocalFeed(engine.run)) as (app, pilot):
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run), "what there is")
        await pilot.press("home")
        await comes(pilot, has(app, "held"), "the view is held")
        await asyncio.to_thread(server.stop, "sealed")
        finish(engine.run)
        await comes(pilot, has(app, "■ sealed"), "a held view says it too")
        await pilot.press("G")
        for place in SCREENS:
            await pilot.press("escape", place.key)
            await comes(pilot, has(app, "the run is sealed"), f"{place.name} says it")
            assert "● recording" not in screen_text(app)
        await pilot.press("escape", "2", "k", "enter")
        await comes(pilot, has(app, "sum"), "the causes of a request are there still")


async def test_a_run_elsewhere_is_mirrored(engine: Engine) -> None:
    with served(engine.run) as server:
        async with watching(RemoteFeed(server.door.url, None, "start")) as (app, pilot):
            await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run), "what there is")
            engine.passes(60)
            await comes(pilot, lambda: lanes_shown(app) == lanes_written(engine.run), "what has come")
            assert app.book.path != engine.run
            mirrored, there = open_tables(app.book.path), open_tables(engine.run)
            for table in ("requests", "spans", "steps", "slices", "events"):
                assert mirrored.table(table).equals(there.table(table))
            assert mirrored.damages == []
        assert not app.book.path.exists()


async def test_another_run_elsewhere_gets_its_own_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.tail.client._MOST_DELAY_S", 0.2)
    engines = [Engine(tmp_path), Engine(tmp_path)]
    for engine, passes in zip(engines, (40, 80), strict=True):
        engine.passes(passes)
    server = TailServer(engines[0].run, "127.0.0.1", None)
    server.start()
    async with watching(RemoteFeed(server.door.url, None, "start")) as (app, pilot):
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engines[0].run), "the first run")
        await asyncio.to_thread(server.stop, "sealed")
        await comes(pilot, has(app, "the run is sealed, waiting for another"), "it is said")
        successor = TailServer(engines[1].run, "127.0.0.1", server.door.port)
        successor.start()
        await comes(pilot, lambda: app.book.name == engines[1].run.name, "the second run")
        await comes(pilot, lambda: lanes_shown(app) == lanes_written(engines[1].run), "all of it")
        assert len(app.books) == 2
        await asyncio.to_thread(successor.stop, "sealed")


def test_an_address_where_nobody_is_is_said_before_there_is_a_screen() -> None:
    feed = RemoteFeed("ws://127.0.0.1:1/tail", None, "start")
    with pytest.raises(UserError, match="can't be reached"):
        feed.begin()


def test_a_feed_ends_whenever_it_is_asked(engine: Engine) -> None:
    with served(engine.run) as server:
        feed = RemoteFeed(server.door.url, None, "start")
        feed.begin()
        run = feed.standing().run
        until(lambda: bool(feed.standing().ends), "records come")
        feed.end()
        assert not run.exists()


def test_on_a_terminal(engine: Engine) -> None:
    with served(engine.run) as server:
        for target in (str(engine.run), server.door.url):
            console = OnTerminal("-m", "console.cli", "tail", target)
            console.until(b"Pass")
            console.until(b"live")
            console.press(b"k")
            console.until(b"held")
            console.press(b"q")
            assert console.end() == 0
            assert LEAVE_SCREEN in console.seen


@pytest.mark.parametrize("screen", ["timeline", "overview"])
async def test_screens_follow_a_large_run_until_it_rests(
    tmp_path: Path, screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large is what is followed instead of read anew."""
    monkeypatch.setattr("console.growing.WORTH_GROWING", 1)
    engine = Engine(tmp_path)
    with hold_lock(lock_path(engine.run), fcntl.LOCK_SH):
        engine.passes(60)
        async with watching(LocalFeed(engine.run), screen) as (app, pilot):
            await comes(pilot, lambda: app.book.lanes is not None, "what there is")
            engine.passes(60)
            engine.producer.close()
            assert Drain(engine.run, RecordSettings()).close()
            wanted = lanes_written(engine.run)
            await comes(pilot, lambda: app.book.lanes is not None and len(app.book.lanes) == wanted, "what has come")
            await comes(pilot, has(app, "sealed"), "that it is over")
            assert app.book.session().damages == []


def test_a_view_takes_at_most_a_third_of_the_time() -> None:
    pace = Pace()
    assert [pace.ready(busy=False) for _ in range(3)] == [True] * 3, "who answers at once is asked at every look"
    assert not any(pace.ready(busy=True) for _ in range(4))
    assert [pace.ready(busy=False) for _ in range(9)] == [False] * 8 + [True]
    for _ in range(1000):
        pace.ready(busy=True)
    assert sum(not pace.ready(busy=False) for _ in range(100)) == 30
    pace.ready(busy=True)
    pace.hurry()
    assert pace.ready(busy=False)


def test_following_and_holding() -> None:
    standing = Standing(Path("a"), {"w.steps": 10})
    watch = Watch(lambda: standing)
    assert watch.due()
    assert not watch.due()
    watch.look(at_the_edge=True)
    assert isinstance(watch.mode, Following)
    watch.look(at_the_edge=False)
    held: Mode = watch.mode
    assert held == Held({"w.steps": 10})
    standing = Standing(Path("a"), {"w.steps": 15, "w.slices": 7})
    assert (watch.new, watch.due()) == (12, False)
    watch.look(at_the_edge=True)
    assert isinstance(watch.mode, Held), "only the key that says so returns"
    watch.come_back()
    assert watch.due()
    assert watch.new == 0


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (Standing(Path("a"), {}), "live"),
        (Standing(Path("a"), {}, late_ns=2_500_000_000, behind=1234), "live  2.5 s late, 1,234 behind"),
        (Standing(Path("a"), {}, missed=5000), "live  5,000 missed"),
        (Standing(Path("a"), {}, word="cut off, trying again"), "live  cut off, trying again"),
        (Standing(Path("a"), {}, word="the run is sealed", over=True), "ended  the run is sealed"),
    ],
)
def test_what_the_status_line_says(standing: Standing, words: str) -> None:
    assert "".join(text for text, _ in Watch(lambda: standing).note()).strip() == words
