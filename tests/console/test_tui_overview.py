"""The overview by hand: zoom into the heat map, box the slow ones by keys or by mouse, look at them only."""

from pathlib import Path

import pytest

from console.commands.open import build
from console.screens.overview import OverviewScreen
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import all_rejected, empty, no_duration, one_request, served


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that served a workload one at a time: a queue builds up."""
    return served(tmp_path_factory.mktemp("runs"), "immediate", immediate=True)


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (200, 60)])
async def test_a_box_of_slow_cells_becomes_a_filter(run: Path, size: tuple[int, int]) -> None:
    app = build([run])
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "b", "shift+left", "shift+down", "shift+down")
        check_snapshot(app, f"overview-box-{size[0]}x{size[1]}")
        screen = app.screen
        assert isinstance(screen, OverviewScreen)
        heat, box = screen._heat, screen._box
        assert heat is not None
        assert box is not None
        held = heat.inside(box)
        assert held
        await press(pilot, "enter")
        assert app.only == heat.filter(box)
        assert f"{held} of 24 requests" in screen_text(app)
        assert screen._box is None


async def test_a_box_is_drawn_with_the_mouse_and_given_up_with_escape(run: Path) -> None:
    app = build([run])
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, OverviewScreen)
        assert screen._heat is not None
        left, top = screen._heat_at
        rows, columns = screen._heat.shape
        await pilot.mouse_down("#page", offset=(left + 10, top))
        await pilot.hover("#page", offset=(left + 10 + columns - 1, top + rows - 1))
        await pilot.mouse_up("#page", offset=(left + 10 + columns - 1, top + rows - 1))
        await settle(pilot)
        assert screen._box is not None
        assert screen._heat.inside(screen._box) == 24, "all of the map is all of the run"
        await press(pilot, "escape")
        assert screen._box is None
        assert not app.only


async def test_time_is_zoomed_and_moved_without_a_question(run: Path) -> None:
    app = build([run])
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, OverviewScreen)
        whole = screen_text(app)
        assert screen._heat is not None
        await press(pilot, "w", "a")
        assert screen._heat.window.span * 2 == pytest.approx(
            screen._heat.window.high - screen._heat.window.low, rel=0.01
        )
        assert screen_text(app) != whole
        await press(pilot, "0")
        assert screen_text(app) == whole


@pytest.mark.parametrize("make", [empty, one_request, no_duration, all_rejected])
async def test_odd_runs_take_every_key(tmp_path: Path, make: object) -> None:
    assert callable(make)
    app = build([make(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(
            pilot, "b", "right", "shift+up", "w", "b", "s", "d", "v", "b", "enter", "0", "escape", "left", "down"
        )
        assert "Overview" in screen_text(app)
