"""Ways through the console, as a person takes them with the keys (SPEC F7)."""

import fcntl
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from console.app import Tailtrace
from console.commands.open import build
from console.replay import Replay
from console.screens.help import HelpScreen
from console.screens.request import RequestPanel
from console.screens.timeline import TimelineScreen
from console.widgets.gantt import Gantt
from recorder.run import hold_lock, lock_path
from tests.console.screens import press, screen_text, settle
from tests.console.tui_runs import MS, Sim, begin, close, served, workload


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same workload, served one at a time and served together."""
    folder = tmp_path_factory.mktemp("runs")
    return [served(folder, "immediate", immediate=True), served(folder, "continuous")]


def timeline(app: Tailtrace) -> tuple[TimelineScreen, Replay]:
    """The timeline's screen and where it stands; must be on screen and loaded."""
    assert isinstance(app.screen, TimelineScreen)
    assert app.screen.replay is not None
    return app.screen, app.screen.replay


def line_with(app: Tailtrace, words: str) -> str:
    """The first line on screen that holds the words."""
    found = [line for line in screen_text(app).splitlines() if words in line]
    assert found, f"{words!r} is not on screen:\n{screen_text(app)}"
    return found[0]


async def seek(pilot: Pilot[None], target: str) -> None:
    """Type a target into the line that `g` opens."""
    await press(pilot, "g")
    assert isinstance(pilot.app.focused, Input)
    pilot.app.focused.value = target
    await press(pilot, "enter")


async def test_screens_by_number(runs: list[Path]) -> None:
    app = build(runs, "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert line_with(app, "TTFT")
        await press(pilot, "2")
        assert line_with(app, "worker 0")
        await press(pilot, "6")
        assert line_with(app, "Same requests")
        await press(pilot, "1")
        assert line_with(app, "Causes")


async def test_zoom_pan_and_fit(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay = timeline(app)
        whole = replay.window
        await seek(pilot, "50%")
        await press(pilot, "w", "w")
        assert replay.window.span == whole.span // 4
        assert replay.window.start < replay.playhead.at < replay.window.end
        await press(pilot, "d")
        assert replay.window.start > whole.start
        await press(pilot, "a", "s")
        assert replay.window.span == whole.span // 4 * 2
        await press(pilot, "0")
        assert replay.window == whole


async def test_seeking_in_words(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        screen, replay = timeline(app)
        await seek(pilot, "100ms")
        assert replay.playhead.at == replay.window.low + 100 * MS
        await seek(pilot, "+50ms")
        assert replay.playhead.at == replay.window.low + 150 * MS
        await seek(pilot, "req:chat-010")
        lane = replay.lane()
        assert lane is not None
        assert (lane.request_id, replay.playhead.at) == ("chat-010", lane.arrival)
        assert "▸" in line_with(app, "chat-010")
        await seek(pilot, "req:[nobody]")
        assert line_with(app, "no request '[nobody]'")
        await press(pilot, "g", "escape")
        assert screen.focused is None
        assert replay.playhead.at == lane.arrival


async def test_play_reveals_and_pause_holds(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(TimelineScreen, "_clock", staticmethod(lambda: clock[0]))
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay = timeline(app)
        await press(pilot, "space")
        assert replay.playhead.playing
        assert replay.playhead.position(clock[0]) == replay.playhead.start, "play at the end starts over"
        clock[0] = 200 * MS
        screen._tick()
        assert screen.frame is not None
        assert screen.frame.at == replay.playhead.start + 200 * MS
        assert "▶" in line_with(app, "sealed")
        await press(pilot, "plus", "space")
        assert not replay.playhead.playing
        clock[0] = 900 * MS
        screen._tick()
        assert screen.frame.at == replay.playhead.start + 200 * MS
        await press(pilot, "r", "space")
        clock[0] += 3600 * 1000 * MS
        screen._tick()
        assert screen.frame.at == replay.playhead.start
        assert not replay.playhead.playing, "at the end of its way it rests"


async def test_steps_by_event_and_by_pass(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay = timeline(app)
        await press(pilot, "home", "full_stop", "full_stop")
        assert replay.playhead.at == replay.lanes.marks[2]
        await press(pilot, "comma")
        assert replay.playhead.at == replay.lanes.marks[1]
        await press(pilot, "right_square_bracket")
        passes = replay.lanes.passes[0]
        assert replay.playhead.at in passes.starts
        step = replay.step_at(replay.playhead.at)
        await press(pilot, "right_square_bracket", "left_square_bracket")
        assert replay.step_at(replay.playhead.at) == step
        assert line_with(app, f"Pass {step}")
        assert screen.page is not None
        assert screen.page[1] <= (step or 0) <= screen.page[2]


async def test_the_next_slow_request_its_causes_and_its_culprit(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline", slo_ms=100)
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        _, replay = timeline(app)
        await press(pilot, "n")
        first = replay.lane()
        assert first is not None
        assert (first["e2e"] or 0) > 100 * MS
        assert replay.playhead.at == first.arrival + 100 * MS, "the instant of the miss"
        await press(pilot, "n")
        second = replay.lane()
        assert second is not None
        assert second.arrival > first.arrival
        await press(pilot, "N")
        assert replay.lane() == first
        await press(pilot, "enter")
        assert isinstance(app.focused, RequestPanel)
        assert f"{first['e2e']:,} ns = E2E" in line_with(app, "sum")
        culprit = line_with(app, "because of").split("because of ")[1].split()[0].rstrip(",")
        await press(pilot, "c")
        blamed = replay.lane()
        assert blamed is not None
        assert blamed.request_id == culprit
        assert f"{blamed['e2e']:,} ns = E2E" in line_with(app, "sum")
        await press(pilot, "escape")
        assert app.focused is None
        assert "= E2E" not in screen_text(app)


async def test_a_click_seeks_and_selects(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay = timeline(app)
        await pilot.click(Gantt, offset=(70, 9))
        await settle(pilot)
        assert replay.selected == 3
        assert replay.window.column(replay.playhead.at, 90) == 40
        before = replay.playhead.at
        await pilot.click(Gantt, offset=(5, 11))
        await settle(pilot)
        assert (replay.selected, replay.playhead.at) == (5, before), "a click on a name only selects"


async def test_compare_goes_through_pairs_and_to_the_timeline(runs: list[Path]) -> None:
    app = build(runs)
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        assert line_with(app, "immediate → continuous")
        await press(pilot, "o")
        loser = line_with(app, "▸ ").split("▸ ")[1].split()[0]
        await press(pilot, "o", "j")
        winner = line_with(app, "▸ ").split("▸ ")[1].split()[0]
        assert winner != loser
        await press(pilot, "v")
        assert line_with(app, "TTFT, share of requests done")
        await press(pilot, "enter")
        _, replay = timeline(app)
        lane = replay.lane()
        assert lane is not None
        assert lane.request_id == winner
        assert line_with(app, "continuous  2/2")


async def test_tab_turns_to_the_next_run(runs: list[Path]) -> None:
    app = build(runs, "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert line_with(app, "immediate  1/2")
        p50 = line_with(app, "E2E ")
        await press(pilot, "tab")
        assert line_with(app, "continuous  2/2")
        assert line_with(app, "E2E ") != p50
        await press(pilot, "shift+tab")
        assert line_with(app, "E2E ") == p50


async def test_the_overview_plots_and_shows_the_slowest(runs: list[Path]) -> None:
    app = build(runs[1:])
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot)
        assert line_with(app, "E2E over time")
        await press(pilot, "v")
        assert line_with(app, "TTFT over time")
        await press(pilot, "n")
        _, replay = timeline(app)
        lane = replay.lane()
        assert lane is not None
        assert lane["e2e"] == replay.lanes.columns["e2e"].max()


async def test_help_and_palette_come_from_the_table(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot)
        _, replay = timeline(app)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert line_with(app, "half the window, about the playhead")
        await press(pilot, "escape")
        assert isinstance(app.screen, TimelineScreen)
        await press(pilot, "ctrl+p")
        assert isinstance(app.screen, CommandPalette)
        await press(pilot, *"zoom in")
        await press(pilot, "enter")
        assert isinstance(app.screen, TimelineScreen)
        assert replay.window.span == replay.lanes.window.span // 2


async def test_a_run_that_is_being_written_opens_and_reloads(tmp_path: Path) -> None:
    run, out = begin(tmp_path, "live")
    jobs = workload(12)
    sim = Sim(out, jobs)
    for _ in range(30):
        sim.one_pass()
    for buffer in out._buffers.values():
        buffer.flush()
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        with hold_lock(lock_path(run), fcntl.LOCK_SH):
            await settle(pilot)
            _, replay = timeline(app)
            assert line_with(app, "● recording")
            seen = len(replay.lanes)
            await press(pilot, "w", "j")
            sim.run()
        close(run, out)
        await press(pilot, "R")
        _, grown = timeline(app)
        assert len(grown.lanes) == 12 > seen
        assert grown.selected == replay.selected
        assert grown.window.span == replay.window.span
        assert line_with(app, "■ sealed")


async def test_no_size_is_too_small(runs: list[Path]) -> None:
    for screen in ("overview", "timeline", "compare"):
        app = build(runs, screen)
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            await press(pilot, "enter")
            for size in ((40, 10), (20, 4), (5, 2), (1, 1), (300, 100), (80, 24)):
                await pilot.resize_terminal(*size)
                await settle(pilot)
                assert app.is_running
