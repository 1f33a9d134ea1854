"""Every screen at 80x24 as somebody has it who wants more of the data: compact, by one key, and back."""

from pathlib import Path

import pytest

from console.commands.open import build
from console.screentable import SCREENS
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import served

PAGES = ("overview", "budget", "contrast", "compare", "engine", "explain")
"""Screens made of blocks of lines; the others are a picture, lists or an editor."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same workload twice, of enough requests to tell the slow ones from the others."""
    made = tmp_path_factory.mktemp("runs")
    served(made, "immediate", immediate=True, count=200)
    served(made, "continuous", count=200)
    return made


@pytest.fixture
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """By names that are the same everywhere: commands to copy have them."""
    monkeypatch.chdir(folder)
    return [Path("immediate"), Path("continuous")]


async def test_every_screen_is_compact_at_a_key_and_roomy_again(runs: list[Path]) -> None:
    app = build(runs)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for place in SCREENS:
            await press(pilot, "escape", place.key)
            roomy = screen_text(app)
            await press(pilot, *(["escape"] if place.name == "sql" else []), "z")
            check_snapshot(app, f"compact-{place.name}-80x24")
            assert place.name not in PAGES or all(screen_text(app).splitlines()[1:12]), (
                "blank lines are for roomy pages"
            )
            await press(pilot, "z")
            assert place.name == "sql" or screen_text(app) == roomy, place.name


async def test_what_was_lost_and_where_one_is_stay_in_sight(runs: list[Path]) -> None:
    """SPEC F8."""
    app = build(runs, "timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "z")
        foot = screen_text(app).splitlines()[-1]
        assert "0 dropped" in foot
        assert "1x" in foot
        assert foot.endswith("? help  q quit")


async def test_a_click_and_a_jump_go_where_they_point_to_on_a_compact_screen(runs: list[Path]) -> None:
    app = build(runs, "budget")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "z")
        lines = screen_text(app).splitlines()
        row = next(y for y, line in enumerate(lines) if "DECODE" in line)
        await pilot.click(offset=(10, row))
        await settle(pilot)
        assert screen_text(app).splitlines()[row].strip().startswith("▸")
