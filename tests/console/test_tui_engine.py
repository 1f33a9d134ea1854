"""The engine screen: how it looks at every size, what its keys do, and that its numbers are those of the command."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from console.app import Tailtrace
from console.cli import main
from console.commands.open import build
from console.engine_view.answer import EngineView, engine
from console.filter_language import parse_filter
from console.screens.engine import EngineScreen
from console.screens.timeline import TimelineScreen
from console.session import Session
from console.text.engine_strips import gutter
from recorder.producer import PartProducer
from recorder.words import EventKind, Reason
from tests.console.runs import write_run
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.test_engine_view import about_of, answered, event, working
from tests.console.tui_runs import (
    TABLES,
    Sim,
    all_rejected,
    begin,
    close,
    damaged,
    empty,
    mixed_ends,
    no_duration,
    one_request,
    served,
    workload,
)

SIZES = [(80, 24), (120, 40), (160, 48), (200, 60)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return served(tmp_path_factory.mktemp("runs"))


def engine_of(app: Tailtrace) -> EngineScreen:
    screen = app.screen
    assert isinstance(screen, EngineScreen)
    return screen


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_how_it_looks(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "engine")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        check_snapshot(app, f"engine-{size[0]}x{size[1]}")


async def test_the_page_scrolls_to_its_end(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        seen = screen_text(app)
        for _ in range(12):
            await press(pilot, "pagedown")
        assert "Device time of a request" in screen_text(app)
        assert screen_text(app) != seen


async def test_zoom_pan_and_fit_ask_about_another_stretch(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = engine_of(app)
        whole = screen.window
        assert whole is not None and screen.view is not None
        passes = sum(row["passes"] for row in screen.view.report["kinds"])
        await press(pilot, "w", "w")
        assert screen.window is not None
        assert screen.window.span == pytest.approx(whole.span / 4, abs=4)
        assert screen.view.look.window == screen.window
        assert sum(row["passes"] for row in screen.view.report["kinds"]) < passes
        closer = screen.window
        await press(pilot, "d")
        assert screen.window == closer.pan(1, 4)
        await press(pilot, "a", "s", "0")
        assert screen.window == whole


async def test_dragging_over_the_strips_narrows_the_stretch(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = engine_of(app)
        whole, view = screen.window, screen.view
        assert whole is not None and view is not None
        side, columns = gutter(screen.query_one("#page").size.width), view.bins.count // 2
        await pilot.mouse_down("#page", offset=(side + 10, 3))
        await pilot.hover("#page", offset=(side + 29, 2))
        await settle(pilot)
        assert "━" * 20 in screen_text(app).splitlines()[2], "the axis shows what is chosen"
        assert screen.window == whole, "until the button is let go"
        await pilot.mouse_up("#page", offset=(side + 29, 2))
        await settle(pilot)
        assert screen.window == whole.between(whole.instant(10, columns), whole.instant(30, columns))
        assert screen.view is not None and screen.view.look.window == screen.window
        closer = screen.window
        await pilot.click("#page", offset=(side + 10, 3))
        await pilot.mouse_down("#page", offset=(2, 3))
        await pilot.mouse_up("#page", offset=(side + 9, 3))
        await pilot.mouse_down("#page", offset=(side + 10, 30))
        await pilot.mouse_up("#page", offset=(side + 20, 30))
        await settle(pilot)
        assert screen.window == closer, "a click, and a drag that begins beside the strips, choose nothing"
        await press(pilot, "0")
        assert screen.window == whole


async def test_its_numbers_are_those_of_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = build([run], "engine", only=parse_filter("id:chat-*"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        shown = engine_of(app).shown()
        assert shown is not None
        ours = json.loads(json.dumps(shown.document()))
    assert main(["engine", str(run), "--json", "--filter", "id:chat-*"]) == 0
    theirs = json.loads(capsys.readouterr().out)
    for document in (ours, theirs):
        del document["series"]  # one number for each column of the strips
    assert ours == theirs


async def test_workers_one_by_one_and_all(tmp_path: Path) -> None:
    steps = [{**row, "worker": worker} for worker in (0, 3) for row in working()]
    app = build([write_run(tmp_path, {"requests": [answered(1)], "steps": steps})], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = engine_of(app)
        assert "all of 2 workers" in screen_text(app)
        seen = []
        for key in ("v", "v", "v", "V"):
            await press(pilot, key)
            seen.append(screen.view.report["worker"] if screen.view is not None else -1)
        assert seen == [0, 3, None, 3]
        assert "worker 3" in screen_text(app)


async def test_the_worst_victim_is_shown_on_the_timeline(tmp_path: Path) -> None:
    lost = {"other_rid": 1, "reason": Reason.KV_BLOCKS, "freed_blocks": 1}
    rows = {
        "requests": [answered(1, request_id="big"), answered(2, request_id="[red]small")],
        "steps": working(),
        "events": [event(30, 2, EventKind.PREEMPTED, lost_tokens=9, **lost)],
    }
    app = build([write_run(tmp_path, rows)], "engine")
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot)
        for _ in range(4):
            await press(pilot, "pagedown")
        assert "[red]small req:2 evicted by big req:1" in screen_text(app)
        await press(pilot, "n")
        assert isinstance(app.screen, TimelineScreen)
        assert app.chosen == 2


async def test_this_moment_is_shown_on_the_timeline(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "w")
        window = engine_of(app).window
        assert window is not None
        await press(pilot, "enter")
        assert isinstance(app.screen, TimelineScreen)
        assert app.screen.frame is not None
        assert app.screen.frame.at == window.start + window.span // 2


async def test_without_victims_n_says_so(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "n")
        assert isinstance(app.screen, EngineScreen)


ODD = [
    (empty, (80, 24)),
    (one_request, (200, 60)),
    (no_duration, (20, 6)),
    (all_rejected, (80, 24)),
    (mixed_ends, (200, 60)),
    (damaged, (20, 6)),
]


@pytest.mark.parametrize(("make", "size"), ODD)
async def test_odd_runs_are_shown(tmp_path: Path, make: Callable[[Path], Path], size: tuple[int, int]) -> None:
    app = build([make(tmp_path)], "engine")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "w", "v")
        assert engine_of(app).view is not None


async def test_another_size_asks_for_as_many_columns_as_there_are(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        view = engine_of(app).view
        await pilot.resize_terminal(200, 60)
        async with asyncio.timeout(20):
            while engine_of(app).view is view:  # the screen is told by a timer
                await pilot.pause()
        await settle(pilot)
        wider = engine_of(app).view
        assert view is not None and wider is not None
        assert wider.look.bins > 2 * view.look.bins
        assert view.report["kinds"] == wider.report["kinds"]


async def test_another_filter_and_another_run_are_other_numbers(run: Path, tmp_path: Path) -> None:
    app = build([run, one_request(tmp_path)], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = engine_of(app)
        app.look_at(parse_filter("id:long-*"))
        await settle(pilot)
        assert screen.view is not None
        assert (screen.view.report["filter"], about_of(screen.view).pulse.n) == ("id:long-*", 3)
        app.look_at(parse_filter(""))
        await press(pilot, "w", "tab")
        assert screen.view.report["run"] == "one"
        assert screen.window is not None
        assert screen.window.span == screen.window.high - screen.window.low


async def test_the_page_is_copied_whole(run: Path) -> None:
    app = build([run], "engine")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        found = engine_of(app).copied()
        assert found is not None
        assert "Device time of a request" in found[0]
        assert max(len(line) for line in found[0].splitlines()) <= 80


async def test_of_a_large_run_the_workers_are_told_before_the_requests(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[bool] = []
    arrive = EngineScreen._arrive

    def watched(screen: EngineScreen, view: EngineView) -> None:
        arrived.append(view.about is not None)
        arrive(screen, view)
        lines = [text for line in screen._page(118, 0) for text, _ in line]
        assert ("reading the requests …" in lines) == (view.about is None)
        assert any(text.startswith("Passes by kind") for text in lines)

    monkeypatch.setattr(EngineScreen, "_arrive", watched)
    monkeypatch.setattr("console.screens.engine._AT_ONCE_S", 0.0)
    app = build([run], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert arrived == [False, True]
        view = engine_of(app).view
        assert view is not None
        with Session(run) as session, session.connect() as cursor:
            assert view.report == engine(session, parse_filter(""), view.look, cursor).report


async def test_a_run_that_is_recorded_grows_under_the_screen(tmp_path: Path) -> None:
    run, out = begin(tmp_path, "growing")
    first, second = workload(12)[:6], workload(12)[6:]
    Sim(out, first).run()
    out.close()
    app = build([run], "engine")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = engine_of(app)
        assert screen.view is not None and screen.window is not None
        before, window = about_of(screen.view).pulse.n, screen.window
        more = PartProducer(run, "worker0", TABLES)
        serve = Sim(more, second)
        serve.now, serve.step = window.high, 10_000
        serve.run()
        close(run, more)
        await press(pilot, "R")
        assert (before, about_of(screen.view).pulse.n) == (6, 12)
        assert screen.window.span > window.span, "what showed everything still does"
