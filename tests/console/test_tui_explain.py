"""The Explain screen: what it shows, and the way from a finding to its evidence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from console.app import Tailtrace
from console.commands.open import build
from console.replay import Replay
from console.screens.explain import ExplainScreen
from console.screens.timeline import TimelineScreen
from tests.console.incidents import chats_alone, closed_loop, one_long_prompt
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import all_rejected, damaged, empty, mixed_ends, no_duration, one_request


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_long_prompt(tmp_path_factory.mktemp("explain") / "incident")


@pytest.fixture
def relative(incident: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run by a name that is the same wherever tests run: commands on screen name it."""
    monkeypatch.chdir(incident.parent)
    return Path("incident")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_account_on_screens_of_all_sizes(relative: Path, size: tuple[int, int]) -> None:
    app = build([relative], "explain")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        check_snapshot(app, f"explain-{size[0]}x{size[1]}")


async def test_a_finding_leads_to_its_requests_at_its_culprit(relative: Path) -> None:
    app = build([relative], "overview")
    async with app.run_test(size=(140, 44)) as pilot:
        await settle(pilot)
        await press(pilot, "X")
        assert isinstance(app.screen, ExplainScreen)
        account = app.screen.account
        assert account is not None
        await press(pilot, "enter")
        screen = app.screen
        assert isinstance(screen, TimelineScreen)
        assert str(app.only) == account.prominent[0].only
        assert screen.replay is not None
        lanes = screen.replay.lanes
        index = lanes.find("v-0201")
        assert index is not None
        lane, window = lanes.lane(index), screen.replay.window
        assert screen.replay.playhead.at == lane.arrival
        assert window.start <= lane.arrival < lane.finish <= window.end
        assert window.span < 2 * (lane.finish - lane.arrival), "it fills the window, though the filter leaves it out"
        await press(pilot, "9")
        assert "prompts of others" in screen_text(app)


async def test_findings_are_selected_and_moved_through(tmp_path: Path) -> None:
    app = build([closed_loop(tmp_path / "run")], "explain")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert "▸ 1 ! Closed loop" in screen_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, ExplainScreen), "a finding about all requests has no requests of its own to show"
        await press(pilot, "j")
        assert "▸ 2 ▸ Waiting in the queue" in screen_text(app)
        await press(pilot, "j", "k")
        assert "▸ 1 ! Closed loop" in screen_text(app)
        await press(pilot, "pagedown", "pageup", "y")
        row = next(y for y, line in enumerate(screen_text(app).splitlines()) if " 2 ▸ Waiting" in line)
        await pilot.click(offset=(10, row))
        await settle(pilot)
        assert "▸ 2 ▸ Waiting in the queue" in screen_text(app)


async def test_a_quiet_run_says_so_and_leads_nowhere(tmp_path: Path) -> None:
    app = build([chats_alone(tmp_path / "run")], "explain")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert "nothing stands out" in screen_text(app)
        await press(pilot, "enter", "j", "k")
        assert isinstance(app.screen, ExplainScreen)


async def test_the_account_goes_with_the_filter_and_the_run(incident: Path) -> None:
    app = build([incident], "explain")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "slash", *"output<0", "enter")
        assert "no request was answered" in screen_text(app).lower().replace("\n", " ")
        await press(pilot, "backspace")
        assert "74.0%" in screen_text(app)
        await press(pilot, "R")
        assert "74.0%" in screen_text(app)


@pytest.mark.parametrize("make", [all_rejected, damaged, empty, mixed_ends, no_duration, one_request])
async def test_every_odd_run_is_shown(make: Callable[[Path], Path], tmp_path: Path) -> None:
    app = build([make(tmp_path)], "explain")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in ("j", "k", "pagedown", "y", "enter"):
            await press(pilot, key)
        assert app.is_running
        assert app.return_code is None


async def test_what_is_exported_is_the_account(incident: Path) -> None:
    app = build([incident], "explain")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        shown = app.screen.shown() if isinstance(app.screen, ExplainScreen) else None
        assert shown is not None
        assert shown.table().column_names[0] == "kind"
        assert shown.table()["kind"].to_pylist()[0] == "long_prompts"


@pytest.mark.parametrize(("at", "rid"), [("req:v-0201", 201), ("step:2330", None), ("50%", None)])
async def test_open_begins_at_a_place_that_is_named(incident: Path, at: str, rid: int | None) -> None:
    app = build([incident], "timeline")
    app.wanted_at = at
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert replay_of(app).playhead.at < replay_of(app).playhead.end
        assert rid is None or replay_of(app).lanes.lane(replay_of(app).selected or 0).rid == rid


async def test_a_place_that_is_none_is_told(incident: Path) -> None:
    app = build([incident], "timeline")
    app.wanted_at = "req:nobody"
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert any("no request 'nobody'" in note.message for note in app._notifications)


def replay_of(app: Tailtrace) -> Replay:
    assert isinstance(app.screen, TimelineScreen)
    assert app.screen.replay is not None
    return app.screen.replay
