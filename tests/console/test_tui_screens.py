"""How the screens look, as text, at three sizes. See `tests.console.screens` for how a snapshot is renewed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.app import Tailtrace
from console.commands.open import build
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import mixed_ends, served

SIZES = [(80, 24), (120, 40), (160, 48)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same workload, served one at a time and served together."""
    folder = tmp_path_factory.mktemp("runs")
    return [served(folder, "immediate", immediate=True), served(folder, "continuous")]


def named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


@pytest.mark.parametrize("size", SIZES, ids=named)
@pytest.mark.parametrize("screen", ["overview", "timeline", "compare"])
async def test_a_screen(runs: list[Path], screen: str, size: tuple[int, int]) -> None:
    app = build(runs if screen == "compare" else runs[1:], screen)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        check_snapshot(app, f"{screen}-{named(size)}")


@pytest.mark.parametrize("size", SIZES, ids=named)
async def test_the_detail_of_the_slowest_request(runs: list[Path], size: tuple[int, int]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "n", "w")
        await press(pilot, "enter")
        check_snapshot(app, f"detail-{named(size)}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=named)
async def test_help(runs: list[Path], size: tuple[int, int]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "question_mark")
        check_snapshot(app, f"help-{named(size)}")


@pytest.mark.parametrize("screen", ["overview", "timeline"])
async def test_every_end_drops_and_names_like_markup(tmp_path: Path, screen: str) -> None:
    app = build([mixed_ends(tmp_path)], screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        check_snapshot(app, f"mixed-{screen}-120x40")


@pytest.fixture
def no_colour(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_COLOR", "1")
    yield


def colours(app: Tailtrace) -> set[object]:
    """Foreground and background colours that would be sent to the terminal."""
    strips = app.screen._compositor.render_strips()
    styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
    return {colour for style in styles for colour in (style.color, style.bgcolor) if colour and not colour.is_default}


@pytest.mark.usefixtures("no_colour")
@pytest.mark.parametrize("screen", ["overview", "timeline", "compare"])
async def test_no_color_is_respected_and_nothing_is_lost(runs: list[Path], screen: str) -> None:
    app = build(runs if screen == "compare" else runs[1:], screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert colours(app) == set()
        check_snapshot(app, f"{screen}-120x40")


async def test_with_colour_there_is_colour_in_both_themes(runs: list[Path]) -> None:
    app = build(runs[1:])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        dark, words = colours(app), screen_text(app)
        await press(pilot, "t")
        assert len(dark) > 8
        assert len(colours(app)) > 8
        assert dark.isdisjoint(colours(app))
        assert screen_text(app) == words
