"""Runs that are empty, tiny, refused or damaged are shown like any other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from console.commands.open import build
from tests.console.screens import press, screen_text, settle
from tests.console.tui_runs import all_rejected, damaged, empty, mixed_ends, no_duration, one_request

ODD = [all_rejected, damaged, empty, mixed_ends, no_duration, one_request]
ENDS = ("left", "right", "end", "home")
STRETCH = ("v", "shift+right", *"vxf", "escape")
KEYS = (*"w  nN", "enter", *"jkc", "escape", *"sad0.,[]", *ENDS, *"r-yOz", *STRETCH, *"mo")


@pytest.mark.parametrize("screen", ["overview", "timeline", "compare"])
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
async def test_every_key_works_on_every_odd_run(make: Callable[[Path], Path], screen: str, tmp_path: Path) -> None:
    run = make(tmp_path)
    app = build([run, run], screen)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        for key in KEYS:
            await press(pilot, key)
        assert app.is_running
        assert app.return_code is None


@pytest.mark.parametrize(
    ("make", "screen", "words"),
    [
        (empty, "overview", "no request to plot"),
        (empty, "timeline", "no requests"),
        (empty, "compare", "no request id was answered in both runs"),
        (all_rejected, "overview", "7 rejected"),
        (all_rejected, "timeline", "rejected"),
        (no_duration, "overview", "1 ok request"),
        (no_duration, "timeline", "1-1 of 1"),
        (one_request, "overview", "1 ok request"),
        (one_request, "timeline", "only"),
        (mixed_ends, "overview", "lower bound"),
        (mixed_ends, "timeline", "[red]x[/"),
        (mixed_ends, "compare", "[red]x[/"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_an_odd_run_says_what_it_is(
    make: Callable[[Path], Path], screen: str, words: str, tmp_path: Path
) -> None:
    run = make(tmp_path)
    app = build([run, run] if screen == "compare" else [run], screen)
    async with app.run_test(size=(130, 50)) as pilot:
        await settle(pilot)
        seen = screen_text(app)
        assert words in seen
        assert "UNNAMED" in seen or screen != "overview"


@pytest.mark.parametrize("screen", ["overview", "timeline"])
async def test_damage_is_named_on_every_screen_and_the_rest_is_shown(tmp_path: Path, screen: str) -> None:
    app = build([damaged(tmp_path)], screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        status = screen_text(app).splitlines()[-2]
        assert "1 damage: spans/" in status
        assert "TTFT" in screen_text(app) or "chat-000" in screen_text(app)


async def test_drops_are_on_every_screen(tmp_path: Path) -> None:
    app = build([mixed_ends(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for key in "123":
            await press(pilot, key)
            assert "6 dropped  durable to 302ms  5,100 records, 420 ns each" in screen_text(app).splitlines()[-2]


async def test_one_run_can_not_be_compared(tmp_path: Path) -> None:
    app = build([one_request(tmp_path)], "compare")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert "One run can't be compared" in screen_text(app)
