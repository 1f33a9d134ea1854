"""The filter on screen: typed, shown as chips, kept across screens, and the same numbers as the headless twins."""

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.app import Tailtrace
from console.cli import main
from console.commands.open import build
from console.filter_language import parse_filter
from console.screens.compare import CompareScreen
from console.screens.timeline import TimelineScreen
from console.widgets.chips import Chips, chip_at, chip_line
from console.widgets.filterline import FilterLine, hint_line
from console.widgets.ink import Line, width_of
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import served

NAMES = {"tier": ["free", "paid"], "model": ["toy"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same workload, served one at a time and served together."""
    folder = tmp_path_factory.mktemp("runs")
    return [served(folder, "immediate", immediate=True), served(folder, "continuous")]


async def give(pilot: Pilot[None], text: str) -> None:
    """Type a filter."""
    await press(pilot, "slash")
    assert isinstance(pilot.app.focused, Input)
    pilot.app.focused.value = text
    await press(pilot, "enter")


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def chips(app: Tailtrace) -> str:
    """The line of chips, where there is one."""
    return next((line for line in screen_text(app).splitlines() if line.startswith(" only ")), "")


def headless(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What a headless twin prints as JSON."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("text", ["", "id:chat-*", "e2e>60ms cause:DECODE>40%", "-status:ok", "arrival>200ms"])
async def test_the_screens_show_the_numbers_of_the_headless_twins(
    runs: list[Path], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = headless(capsys, "report", str(runs[1]), f"--filter={text}")
    compared = headless(capsys, "compare", *map(str, runs), f"--filter={text}")
    app = build(runs, "overview", only=parse_filter(text))
    async with app.run_test(size=(120, 50)) as pilot:
        await settle(pilot)
        await press(pilot, "tab")
        assert json.loads(json.dumps(app.book.report)) == report
        await press(pilot, "2")
        assert isinstance(app.screen, TimelineScreen)
        assert app.screen.replay is not None
        lanes = app.screen.replay.lanes
        total = report["requests"]["total"]
        assert len(lanes.alive(lanes.window)) == len(lanes.sighted) == total
        p95 = report["e2e_ms"]["p95"]
        assert (None if lanes.p95 is None else lanes.p95 / 1e6) == p95
        assert f"of {total}" in screen_text(app) or total == 0
        await press(pilot, "6")
        assert isinstance(app.screen, CompareScreen)
        shown = app.screen.shown()
        assert shown is not None
        assert json.loads(json.dumps(shown.document())) == compared
        paired = compared["paired"]
        assert shown.table().num_rows == (paired["pairs"] if paired else 0)


async def test_a_filter_is_typed_shown_kept_and_taken_away(runs: list[Path]) -> None:
    app = build(runs, "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert chips(app) == ""
        await give(pilot, "id:chat-* e2e>60ms")
        assert "id:chat-* ✕" in chips(app)
        assert "of 24 requests" in chips(app)
        for key in ("2", "6", "1", "tab"):
            await press(pilot, key)
            assert "e2e>60ms ✕" in chips(app), "it survives"
        await press(pilot, "backspace")
        assert "e2e" not in chips(app)
        assert "21 of 24 requests" in chips(app)
        await pilot.click(Chips, offset=(10, 0))
        await settle(pilot)
        assert chips(app) == ""
        assert not app.only


async def test_a_bad_filter_is_explained_and_changes_nothing(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline", only=parse_filter("status:ok"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await give(pilot, "status:okay")
        assert "did you mean ok?" in screen_text(app)
        assert str(app.only) == "status:ok"
        await press(pilot, "escape")
        assert app.focused is None
        assert "did you mean" not in screen_text(app)


async def test_a_term_is_added_to_those_that_hold(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "slash", *"id:chat-*")
        assert screen_text(app).splitlines()[-1].split() == ["enter", "look", "tab", "complete", "esc", "leave", "it"]
        await press(pilot, "enter")
        await press(pilot, "slash", *"e2e>60ms", "enter")
        assert str(app.only) == "id:chat-* e2e>60ms"


async def test_tab_completes_names_of_the_run(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "slash", *"ti", "tab")
        await press(pilot, *"fr", "tab")
        assert app.screen.query_one(FilterLine).query_one(Input).value == "tier:free"
        assert isinstance(app.focused, Input), "tab did not turn to another run"
        await press(pilot, "enter")
        assert "24 of 24 requests" in chips(app)


async def test_the_timeline_selects_and_steps_only_among_what_is_left(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline", slo_ms=50)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TimelineScreen)
        before = app.screen.replay
        assert before is not None
        await press(pilot, "w")
        window = before.window
        await give(pilot, "id:long-*")
        replay = app.screen.replay
        assert replay is not None
        assert replay.window == window, "the place in time stays"
        seen = set()
        for key in ("home", "0", "n", "n", "N", "pagedown", "pageup", "j"):
            await press(pilot, key)
            lane = replay.lane()
            assert lane is not None
            seen.add(lane.request_id)
        assert seen
        assert all(name.startswith("long-") for name in seen)
        assert not [line for line in screen_text(app).splitlines() if line[3:].startswith("chat-")]
        await give(pilot, "id:nobody")
        assert "0 of 24 requests" in chips(app)
        await press(pilot, "n", "j", "enter", "space", "y")
        assert app.is_running


async def test_what_the_filter_leaves_out_is_not_jumped_to(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline", only=parse_filter("id:chat-*"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TimelineScreen)
        replay = app.screen.replay
        assert replay is not None
        outside = replay.lanes.find("long-003")
        assert outside is not None
        app.screen._jump(outside)
        await settle(pilot)
        assert "leaves long-003 out" in screen_text(app)
        assert replay.selected != outside


async def test_the_last_filter_is_remembered_and_another_one_can_be_asked_for(runs: list[Path]) -> None:
    first = build(runs[1:])
    async with first.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await give(pilot, "id:chat-*")
    again = build(runs[1:])
    async with again.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert "21 of 24" in chips(again)
        assert again.book.report is not None
        assert again.book.report["requests"]["total"] == 21
    other = build(runs[1:], only=parse_filter(""))
    async with other.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert chips(other) == ""


async def test_what_can_no_longer_be_read_is_said_and_left_alone(runs: list[Path], nothing_remembered: Path) -> None:
    first = build(runs[1:])
    async with first.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await give(pilot, "id:chat-*")
    (file,) = (nothing_remembered / "runs").iterdir()
    file.write_text("{no json")
    again = build(runs[1:])
    async with again.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        assert "can't read what is remembered" in screen_text(again)
    assert file.read_text() == "{no json"


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("screen", ["overview", "timeline", "compare"])
async def test_a_screen_under_a_filter(runs: list[Path], screen: str, size: tuple[int, int]) -> None:
    app = build(runs if screen == "compare" else runs[1:], screen, only=parse_filter("id:chat-* e2e>60ms"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        check_snapshot(app, f"filter-{screen}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("width", range(0, 140, 7))
def test_chips_fit_and_are_where_they_are_clicked(width: int) -> None:
    only = parse_filter('status:ok tier:"名前[red]" e2e>2s cause:QUEUE>50% id:' + "long" * 30)
    line = chip_line(only, [(3, 24)], width)
    assert width_of(line) <= max(width, 0)
    text = text_of(line)
    for place, shown in enumerate(("status:ok", "e2e>2s")):
        if f"{shown} ✕" in text:
            column = width_of([(text[: text.index(shown)], "")])
            assert chip_at(only, column) == place * 2
    assert chip_at(only, 0) is None
    assert chip_at(only, 10_000) is None


def test_a_time_that_is_no_round_one_is_told_in_a_few_digits() -> None:
    only = parse_filter("e2e>=123456789ns ttft<2s arrival>=1500001us alive:1000000007ns..2s prompt>=1000000")
    told = "".join(text for text, _ in chip_line(only, [(3, 24)], 200))
    for chip in ("e2e>=~123ms", "ttft<2s", "arrival>=~1.50s", "alive:~1.00s..2s", "prompt>=1000000"):
        assert f" {chip} ✕" in told


def test_the_hint_says_what_is_wrong_what_may_come_and_what_there_is() -> None:
    assert "it is wrong" in text_of(hint_line("x", NAMES, "it is wrong", 80))
    assert "tab tier:free  tier:paid" in text_of(hint_line("tier:", NAMES, "", 80))
    assert "status:ok" in text_of(hint_line("", NAMES, "", 80))
    for width in range(40):
        assert width_of(hint_line("tier:", NAMES, "", width)) <= width
