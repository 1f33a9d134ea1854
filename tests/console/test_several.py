"""Up to four runs at once: on paper, as JSON, held against guard rails, and side by side in time."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.abreast import Abreast
from console.cli import main
from console.commands.open import build
from console.compare import compare_all
from console.lanes import Lanes, load_lanes
from console.screens.abreast import AbreastPanel
from console.screens.compare import CompareScreen
from console.session import Session
from console.text.several import several_lines
from console.widgets.abreast import abreast_lines
from console.widgets.ink import Line, width_of
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import all_rejected, empty, served


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One workload served one at a time, served together, and another workload."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        served(folder, "immediate", immediate=True),
        served(folder, "continuous"),
        served(folder, "other", count=12, seed=8),
    ]


@pytest.fixture(scope="module")
def lanes(runs: list[Path]) -> list[Lanes]:
    found = []
    for run in runs:
        with Session(run) as session, session.connect() as cursor:
            found.append(load_lanes(session, cursor))
    return found


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and narration of `tailtrace compare`."""
    capsys.readouterr()
    code = main(["compare", *arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_each_other_run_is_held_against_the_first(runs: list[Path], width: int) -> None:
    with Session(runs[0]) as a, Session(runs[1]) as b, Session(runs[2]) as c:
        made = compare_all([a, b, c])
    lines = several_lines(made, width)
    assert max(width_of(line) for line in lines) <= width
    p99 = next(text_of(line) for line in lines[lines.index(lines[0]) :] if text_of(line).strip().startswith("p99"))
    base, other = made[0]["a"]["ttft_ms"]["p99"], made[0]["b"]["ttft_ms"]["p99"]
    assert base is not None
    assert other is not None
    assert f"{base:,.1f}" in p99
    assert f"×{other / base:.2f}" in p99


def test_four_runs_have_room_on_a_narrow_screen(runs: list[Path]) -> None:
    with Session(runs[0]) as a, Session(runs[1]) as b, Session(runs[2]) as c:
        lines = [text_of(line) for line in several_lines(compare_all([a, b, c, b]), 77)]
    heads = [line.split() for line in lines if line.split()[:1] == ["A"] and "× A" in line]
    assert heads == [["A", "B", "×", "A", "C", "×", "A", "D", "×", "A"]] * 5
    assert not [line for line in lines if line.startswith("  p") and line.endswith("…")]


def test_json_of_two_runs_is_one_comparison_and_of_more_a_list(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = map(str, runs)
    _, two, _ = compared(capsys, a, b)
    _, three, _ = compared(capsys, a, b, c)
    assert {"a", "b", "delta", "paired", "differs"} == set(two)
    assert [one["b"]["run"] for one in three["comparisons"]] == ["continuous", "other"]
    assert three["comparisons"][0] == two


def test_a_guard_rail_fails_the_comparison(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """SPEC D7: served one at a time is no way to keep what batching gives."""
    a, b, _ = map(str, runs)
    kept = compared(capsys, a, b, "--guard", "p99_e2e_ms<=1x", "--guard", "rejected_share<=0")
    assert (kept[0], kept[1]["failed"], kept[2]) == (0, [], "")
    code, found, said = compared(capsys, b, a, "--guard", "p99_e2e_ms<=1.1x", "--guard", "rejected_share<=0")
    assert code == 1
    assert found["failed"] == [{"run": "immediate", "guard": "p99_e2e_ms<=1.1x"}]
    assert "guard rail broken by immediate: p99_e2e_ms<=1.1x" in said


@pytest.mark.parametrize(("arguments", "said"), [(["--guard", "luck<3"], "known are"), (["--slo-ms", "0"], "above 0")])
def test_bad_input_is_told(
    runs: list[Path], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs[0]), str(runs[1]), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert main(["compare", *[str(runs[0])] * 5]) == 2
    assert "4 runs at most, got 5" in capsys.readouterr().err


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_three_runs_and_the_way_through_them(runs: list[Path], size: tuple[int, int]) -> None:
    app = build(runs)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        check_snapshot(app, f"compare-three-{size[0]}x{size[1]}")
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        answer = screen._answer
        await press(pilot, "tab", "tab")
        assert (app.place, screen.other) == (2, 2)
        assert "in C" in screen_text(app)
        assert screen._answer is answer, "another pair of the same runs is no new question"
        await press(pilot, "l", "right", "right", "j")
        check_snapshot(app, f"abreast-{size[0]}x{size[1]}")
        await press(pilot, "pageup", "pageup", "pageup", "enter")
        assert (app.current_mode, app.book.name) == ("timeline", "other")


async def test_one_playhead_runs_over_all_runs(runs: list[Path]) -> None:
    app = build(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "l", "plus", "minus", "minus", "minus", "minus", "space")
        panel = app.screen.query_one(AbreastPanel)
        assert panel.view is not None
        assert panel.view.playhead.playing
        await pilot.pause(0.1)
        await press(pilot, "space")
        assert not panel.view.playhead.playing
        assert panel.view.playhead.at > 0
        await press(pilot, "r", "w", "d", "0", "escape")
        assert not app.screen.has_class("-abreast")


async def test_odd_runs_are_compared_too(runs: list[Path], tmp_path: Path) -> None:
    app = build([runs[0], empty(tmp_path), all_rejected(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "tab", "l", "right", "space", "space", "escape", "tab", "l", "j", "escape", "v", "o")
        assert "Compare" in screen_text(app)


@given(st.lists(st.tuples(st.sampled_from("zps"), st.integers(-9, 9)), max_size=20), st.integers(10, 160))
def test_the_picture_fits_wherever_one_stands(lanes: list[Lanes], moves: list[tuple[str, int]], width: int) -> None:
    view = Abreast.of(lanes)
    for what, amount in moves:
        if what == "z":
            view.zoom(amount, 0)
        elif what == "p":
            view.nudge(amount, 40, 0)
        else:
            view.select(amount)
        lines = abreast_lines(view, 0, width, 20)
        assert len(lines) <= 20
        assert all(width_of(line) <= width for line in lines)
        assert view.window.low <= view.window.start < view.window.end <= view.window.high
        assert view.selected in view.scroll(8)


def test_there_and_back_is_where_one_was(lanes: list[Lanes]) -> None:
    """SPEC F7: a column forth and a column back."""
    view = Abreast.of(lanes)
    view.nudge(7, 60, 0)
    before = view.playhead.position(0), view.window
    view.nudge(3, 60, 0)
    view.nudge(-3, 60, 0)
    assert (view.playhead.position(0), view.window) == before
