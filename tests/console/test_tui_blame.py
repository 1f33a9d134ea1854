"""The screens Budget and Contrast: how they look, and the way from a tail to its culprits by keys (SPEC F1, F2, F3)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from console.app import Tailtrace
from console.blame.answer import blame, document
from console.budget import read_budget
from console.commands.open import build
from console.contrast.answer import contrast
from console.contrast.answer import document as contrast_document
from console.filter_language import parse_filter
from console.screens.budget import VIEWS, BudgetScreen
from console.screens.contrast import ContrastScreen
from console.session import Session
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import all_rejected, damaged, empty, mixed_ends, no_duration, one_request, served

SIZES = [(80, 24), (120, 40), (160, 48), (200, 60)]
ODD = [all_rejected, damaged, empty, mixed_ends, no_duration, one_request]
BUDGET = """[slo]
e2e_ms = 200
share = 0.9
[budget]
ingress = 20
waiting = 20
execution = 150
return = 10
[causes]
STALLED_BY_PREFILL = 20
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long prompts among chats, so many that there is a tail."""
    return served(tmp_path_factory.mktemp("runs"), "long-among-chats", count=160)


def named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def selected(app: Tailtrace) -> str:
    """The selected row."""
    return next(line for line in screen_text(app).splitlines() if line.startswith(" ▸")).strip()


@pytest.mark.parametrize("size", SIZES, ids=named)
async def test_the_views_of_the_budget(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "budget")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for view in VIEWS:
            if size in {(80, 24), (160, 48)} or view == "excess":
                check_snapshot(app, f"budget-{view.replace(' ', '-')}-{named(size)}")
            await press(pilot, "v")


@pytest.mark.parametrize("size", SIZES, ids=named)
async def test_the_contrast(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "contrast")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "j")
        check_snapshot(app, f"contrast-{named(size)}")


async def test_unnamed_and_the_sum_stay_in_sight_wherever_one_looks(run: Path) -> None:
    """SPEC F1: what could not be named is a visible row."""
    app = build([run], "budget")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for view in VIEWS[:3]:
            for kind in ("causes", "phases"):
                await press(pilot, "pagedown", "pagedown")
                text = screen_text(app)
                assert "UNNAMED" in text, (view, kind)
                assert "sum = " in text, (view, kind)
                assert " ▸" in text, (view, kind)
                await press(pilot, "pageup", "pageup", "p")
            await press(pilot, "v")


async def test_from_the_excess_to_the_culprit_on_the_timeline(run: Path) -> None:
    app = build([run], "budget")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "v")
        assert "STALLED_BY_PREFILL" in selected(app)
        assert "Behind STALLED_BY_PREFILL" in screen_text(app)
        await press(pilot, "c")
        assert app.screen.NAME == "timeline"  # type: ignore[attr-defined]
        with Session(run) as session:
            limit = blame(session).ledgers.cohorts.slow_filter
            of_slow = f"SELECT culprit, ns FROM causes SEMI JOIN ({limit.sql()}) AS slow USING (rid, attempt)"
            culprits = session.query(
                f"SELECT culprit FROM ({of_slow} WHERE cause = 'STALLED_BY_PREFILL' AND culprit >= 0)"
                " GROUP BY culprit ORDER BY sum(ns) DESC, culprit LIMIT 1"
            ).to_pylist()
        assert app.chosen == culprits[0]["culprit"]


async def test_enter_narrows_to_the_victims_and_keeps_the_view(run: Path) -> None:
    app = build([run], "budget")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "v")
        await press(pilot, "enter")
        assert str(app.only) == "cause:STALLED_BY_PREFILL"
        assert "[excess]" in screen_text(app)
        await press(pilot, "backspace")
        await press(pilot, "V")
        await press(pilot, "V")  # the culprits
        await press(pilot, "enter")
        assert str(app.only).startswith("culprit:")
        await press(pilot, "backspace")
        await press(pilot, "b")
        await press(pilot, "enter")
        assert "by prompt" in screen_text(app)
        assert str(app.only) in {"prompt>=0 prompt<=127", "prompt>=512 prompt<=2047", "prompt>=128 prompt<=511"}


async def test_the_victim_of_a_row_and_the_slow_by_another_measure(run: Path) -> None:
    app = build([run], "budget", slo_ms=100)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "v")
        assert "E2E over 100.000 ms" in screen_text(app)
        await press(pilot, "o", "o")
        assert "slow: e2e:p99" in screen_text(app)
        await press(pilot, "o", "o")
        assert "slow: ttft:p95" in screen_text(app)
        await press(pilot, "n")
        assert app.screen.NAME == "timeline"  # type: ignore[attr-defined]
        assert app.chosen is not None


async def test_a_budget_is_held_against_the_run_on_screen(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(BUDGET)
    app = build([run], "budget", budget=read_budget(path))
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        check_snapshot(app, "budget-limits-160x48")
        app.look_at(parse_filter("id:nobody"))
        await settle(pilot)
        assert "no request has ended" in screen_text(app)


async def test_the_screens_and_their_headless_twins_agree(run: Path) -> None:
    for name in ("budget", "contrast"):
        app = build([run], name, only=parse_filter("id:chat-*"))
        async with app.run_test(size=(160, 48)) as pilot:
            await settle(pilot)
            assert isinstance(app.screen, BudgetScreen | ContrastScreen)
            shown = app.screen.shown()
            assert shown is not None
            with Session(run) as session:
                only = parse_filter("id:chat-*")
                twin = (
                    document(blame(session, only)) if name == "budget" else contrast_document(contrast(session, only))
                )
            assert json.dumps(shown.document(), default=str) == json.dumps(twin, default=str)
            assert shown.table().num_rows > 5
            copied = app.screen.copied()
            assert copied is not None
            assert "│" not in copied[0]


async def test_enter_on_an_attribute_adds_the_chip_that_tells_the_sides_apart(run: Path) -> None:
    app = build([run], "contrast")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        row = selected(app)
        assert row.startswith("▸  time in")
        await press(pilot, "enter")
        assert len(app.only.terms) == 1
        assert str(app.only).startswith(("cause:", "phase:"))
        assert "requests of " + str(app.only) in screen_text(app)
        await press(pilot, "o")
        assert "the filter says what is compared" in " ".join(one.message for one in app._notifications)


async def test_contrast_says_so_where_there_are_too_few(run: Path) -> None:
    app = build([run], "contrast", only=parse_filter("id:chat-000"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "too few to tell anything from chance" in screen_text(app)


async def test_a_row_is_selected_by_a_click(run: Path) -> None:
    for name, first in (("budget", "DECODE"), ("contrast", "")):
        app = build([run], name)
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            before = selected(app)
            assert first in before
            y = next(i for i, line in enumerate(screen_text(app).splitlines()) if line.startswith(" ▸"))
            below = screen_text(app).splitlines()[y + 2].strip()
            await pilot.click("#table", offset=(12, y + 2 - app.screen.query_one("#table").region.y))
            await settle(pilot)
            assert selected(app).removeprefix("▸").split()[:3] == below.split()[:3]


async def test_a_view_is_chosen_by_a_click(run: Path) -> None:
    app = build([run], "budget")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.click("#table", offset=(1 + len("[budget] exc"), 1))
        await settle(pilot)
        assert "[excess]" in screen_text(app)


async def test_a_run_that_grows_keeps_the_place(run: Path, tmp_path: Path) -> None:
    """Reading again keeps view and row, and shows no gap meanwhile."""
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    app = build([copy], "budget")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "v")
        await press(pilot, "j", "j")
        before = selected(app)
        await pilot.press("R")
        assert "adding up" not in screen_text(app)
        await settle(pilot)
        assert selected(app) == before


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
async def test_every_key_works_on_every_odd_run(make: Callable[[Path], Path], tmp_path: Path) -> None:
    app = build([make(tmp_path)], "budget")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in (*"jpvkovvbyv", "enter", *"Vc4n5jo", "enter", *"ky", "pagedown"):
            await press(pilot, key)
        assert app.is_running
        assert app.return_code is None
