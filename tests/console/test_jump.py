"""Jump mode and clicks: everything that one can go to has a letter, and takes the mouse."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.commands.open import build
from console.screens.compare import CompareScreen
from console.screens.jump import JumpScreen
from console.screens.timeline import TimelineScreen
from console.widgets.spots import labels, spots_on
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import served


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [served(folder, "immediate", immediate=True), served(folder, "continuous")]


@given(st.integers(0, 900))
def test_no_label_begins_another(count: int) -> None:
    words = labels(count)
    assert len(set(words)) == count
    assert len({len(word) for word in words}) <= 1


async def test_letters_lead_to_screens_requests_and_chips(runs: list[Path]) -> None:
    app = build(runs, "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "J")
        assert isinstance(app.screen, JumpScreen)
        check_snapshot(app, "jump-120x40")
        await press(pilot, "a", "s")
        assert app.current_mode == "timeline", "the second title of the top bar"
        screen = app.screen
        assert isinstance(screen, TimelineScreen)
        spots = spots_on(screen)
        lanes = [place for place, spot in enumerate(spots) if spot.y > 3]
        await press(pilot, "J", *labels(len(spots))[lanes[4]])
        assert screen.replay is not None
        assert screen.replay.selected == 4
        await press(pilot, "J", "escape")
        assert app.screen is screen
        await press(pilot, "J", "1")
        assert app.screen is screen, "no label has a digit: whatever else is pressed goes back"
        await press(pilot, "J", "a", "a")
        assert app.current_mode == "overview"


async def test_the_mouse_is_as_good(runs: list[Path]) -> None:
    app = build(runs)
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        rows = [spot for spot in spots_on(screen) if spot.y > 1]
        await pilot.click(offset=(rows[3].x + 5, rows[3].y))
        await settle(pilot)
        assert screen._selected == 3
        titles = [spot for spot in spots_on(screen) if spot.y == 0]
        await pilot.click(offset=(titles[1].x + 4, 0))
        await settle(pilot)
        assert app.current_mode == "timeline"


async def test_a_chip_goes_by_click_or_letter(runs: list[Path]) -> None:
    app = build(runs[:1], "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "b", "enter")
        assert len(app.only.terms) == 4
        chips = [spot for spot in spots_on(app.screen) if spot.y == 1]
        await pilot.click(offset=(chips[0].x + 2, 1))
        await settle(pilot)
        assert len(app.only.terms) == 3
        word = labels(len(spots_on(app.screen)))[[spot.y for spot in spots_on(app.screen)].index(1)]
        await press(pilot, "J", *word)
        assert len(app.only.terms) == 2
        assert " only " in screen_text(app)
