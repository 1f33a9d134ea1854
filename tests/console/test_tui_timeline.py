"""The timeline with mouse and keys: scrubbing, selecting a stretch, sorting, and how dense it is (SPEC F7)."""

import json
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from console.app import Tailtrace
from console.cli import main
from console.commands.open import build
from console.filter_language import parse_filter
from console.replay import Replay
from console.screens.life import RequestScreen
from console.screens.request import RequestPanel
from console.screens.timeline import TimelineScreen
from console.widgets.frame import Geometry
from console.widgets.gantt import Gantt
from recorder.words import Status, StepKind
from tests.console.runs import request, step, write_run
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import mixed_ends, served

SIZES = [(80, 24), (120, 40), (160, 48), (200, 60)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workload, served together."""
    return served(tmp_path_factory.mktemp("runs"), "continuous")


def timeline(app: Tailtrace) -> tuple[TimelineScreen, Replay, Geometry]:
    """The screen, where it stands, and how its picture is divided."""
    assert isinstance(app.screen, TimelineScreen)
    assert app.screen.replay is not None
    shape = app.screen.query_one(Gantt).shape()
    assert shape is not None
    return app.screen, app.screen.replay, shape


async def drag(pilot: Pilot[None], begin: tuple[int, int], end: tuple[int, int]) -> None:
    """Press the button, move, and let go."""
    await pilot.mouse_down(Gantt, offset=begin)
    await pilot.hover(Gantt, offset=((begin[0] + end[0]) // 2, end[1]))
    await pilot.hover(Gantt, offset=end)
    await pilot.mouse_up(Gantt, offset=end)
    await settle(pilot)


async def turn(pilot: Pilot[None], kind: type[events.MouseEvent], x: int, y: int, *, shift: bool = False) -> None:
    """Turn the wheel over a cell of the picture."""
    gantt = pilot.app.screen.query_one(Gantt)
    gantt.post_message(kind(gantt, x, y, 0, 0, 0, shift, False, False))
    await settle(pilot)


async def test_dragging_over_the_chart_selects_a_stretch_and_tells_who_was_alive(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay, shape = timeline(app)
        at = replay.playhead.at
        await drag(pilot, (shape.gutter + 20, 12), (shape.gutter + 40, 14))
        stretch = replay.stretch
        assert stretch is not None
        assert stretch.columns(replay.window, shape.chart) == range(20, 41)
        assert (replay.playhead.at, replay.selected) == (at, 0), "a drag is no click"
        assert screen.lived is not None
        assert "Selected" in screen_text(app)
        low, told = replay.window.low, json.loads(json.dumps(screen.lived))
    since, until = (f"{t - low}ns" for t in (stretch.start, stretch.end))
    assert main(["timeline", str(run), "--from", since, "--to", until, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["selected"] == told


async def test_the_selection_becomes_a_term_of_the_filter_with_the_same_numbers(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay, shape = timeline(app)
        await drag(pilot, (shape.gutter + 50, 12), (shape.gutter + 30, 12))
        assert screen.lived is not None
        alive = sum(screen.lived["requests"].values())
        p99 = screen.lived["phases_ns"]["decode"]["p99"]
        await press(pilot, "f")
        assert str(app.only).startswith("alive:")
        _, replay, _ = timeline(app)
        assert len(replay.lanes.sighted) == alive < len(replay.lanes)
        await press(pilot, "1")
        await settle(pilot)  # the causes are asked for once the numbers are there
        assert app.book.report is not None
        assert app.book.report["requests"]["total"] == alive
        assert app.book.report["phases_ms"]["decode"]["p99"] == (p99 or 0) / 1e6


async def test_a_stretch_by_keys_grows_with_the_playhead_and_is_dropped(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        screen, replay, _ = timeline(app)
        await press(pilot, "f")
        assert "select a stretch first" in screen_text(app)
        await press(pilot, "home", "v", "right", "right", "right")
        begun = replay.stretch
        assert begun is not None
        assert (begun.start, begun.end) == (replay.window.low, replay.playhead.at)
        await press(pilot, "v", "right", "right")
        assert replay.stretch == begun, "it rests after the second v"
        await press(pilot, "shift+left")
        assert replay.stretch is not None
        assert replay.stretch.end == replay.playhead.at
        await press(pilot, "x")
        assert replay.window.span < replay.lanes.window.span
        assert replay.window.start <= replay.stretch.start < replay.stretch.end <= replay.window.end
        await press(pilot, "escape")
        assert replay.stretch is None
        assert screen.lived is None
        assert "Selected" not in screen_text(app)


async def test_the_minimap_is_clicked_and_dragged(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay, shape = timeline(app)
        await press(pilot, "w", "w")
        span, whole = replay.window.span, replay.lanes.window
        await pilot.click(Gantt, offset=(shape.gutter + 30, 0))
        await settle(pilot)
        assert replay.playhead.at == whole.instant(30, shape.chart)
        assert replay.window == replay.window.centred(replay.playhead.at)
        assert replay.window.span == span
        await drag(pilot, (shape.gutter + 30, 0), (shape.gutter + 60, 3))
        assert replay.playhead.at == whole.instant(60, shape.chart)
        assert replay.window == replay.window.centred(replay.playhead.at)
        assert replay.stretch is None


async def test_the_wheel_scrolls_lanes_and_zooms_above_them(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 24)) as pilot:
        await settle(pilot)
        _, replay, shape = timeline(app)
        await turn(pilot, events.MouseScrollDown, 40, shape.strips + 1)
        assert replay.top == 3
        assert replay.selected == 3, "the selection stays among the rows on screen"
        await turn(pilot, events.MouseScrollUp, 40, shape.strips + 1)
        assert (replay.top, replay.selected) == (0, 3)
        whole, t = replay.window, replay.window.instant(20, shape.chart)
        await turn(pilot, events.MouseScrollUp, shape.gutter + 20, 1)
        assert replay.window.span == whole.span // 2
        assert abs(replay.window.column(t, shape.chart) - 20) <= 1, "what is under the mouse stays there"
        await turn(pilot, events.MouseScrollDown, 40, shape.strips + 1, shift=True)
        assert replay.window.start > whole.start
        await turn(pilot, events.MouseScrollDown, shape.gutter + 20, 1)
        assert replay.window == whole


async def test_two_clicks_open_the_request_and_two_more_all_of_it(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay, shape = timeline(app)
        await pilot.click(Gantt, offset=(3, shape.strips + 2), times=2)
        await settle(pilot)
        assert isinstance(app.focused, RequestPanel)
        assert replay.selected == 2
        await pilot.click(Gantt, offset=(3, shape.strips + 2), times=2)
        await settle(pilot)
        assert isinstance(app.screen, RequestScreen)
        assert app.screen.found is not None
        assert app.screen.found.rid == app.chosen == replay.lanes.lane(2).rid


@pytest.mark.parametrize("size", [(160, 48), (100, 24)])
async def test_a_click_on_a_cause_selects_it_and_two_go_to_the_culprit(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "timeline", slo_ms=150)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "n", "enter")
        _, replay, _ = timeline(app)
        victim = replay.selected
        lines = screen_text(app).splitlines()
        y = next(i for i, line in enumerate(lines) if "▓ STALLED_BY_PREFILL" in line)
        x = lines[y].index("STALLED_BY_PREFILL")
        await press(pilot, "k", "k")
        assert "▸▓ STALLED_BY_PREFILL" not in screen_text(app)
        y = next(i for i, line in enumerate(screen_text(app).splitlines()) if "▓ STALLED_BY_PREFILL" in line)
        await pilot.click(offset=(x, y))
        await settle(pilot)
        assert "▸▓ STALLED_BY_PREFILL" in screen_text(app)
        assert replay.selected == victim
        y = next(i for i, line in enumerate(screen_text(app).splitlines()) if "▓ STALLED_BY_PREFILL" in line)
        await pilot.click(offset=(x, y), times=2)
        await settle(pilot)
        assert replay.selected != victim
        assert isinstance(app.focused, RequestPanel)


async def test_lanes_are_sorted_and_stay_so_under_a_filter(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay, _ = timeline(app)
        await press(pilot, "o")
        assert "↓latency" in screen_text(app)
        lives = [(lane.finish - lane.arrival) for lane in map(replay.lanes.lane, replay.shown().tolist())]
        assert lives == sorted(lives, reverse=True)
        everything = replay.shown().tolist()
        app.look_at(screen.only & parse_filter("id:chat-*"))
        await settle(pilot)
        _, replay, _ = timeline(app)
        some = replay.shown().tolist()
        assert len(some) < len(everything)
        assert some == [lane for lane in everything if lane in some]
        await press(pilot, "j")
        assert replay.selected == some[some.index(0) + 1]
        await press(pilot, "O")
        assert replay.shown().tolist() == sorted(some)
        assert "↓" not in screen_text(app).splitlines()[3]


async def test_sorted_by_a_phase_the_one_that_was_in_it_longest_is_on_top(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay, _ = timeline(app)
        while replay.order.by != "prefill":
            await press(pilot, "o")
        spent = [sum(end - start for name, start, end in replay.lanes.spans(lane) if name == "prefill")
                 for lane in replay.shown().tolist()]  # fmt: skip
        assert spent == sorted(spent, reverse=True)
        assert spent[0] > 0


async def test_compact_is_for_all_screens_and_for_the_next_time(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        _, _, roomy = timeline(app)
        await press(pilot, "z")
        _, _, dense = timeline(app)
        assert dense.rows >= roomy.rows + 6
        check_snapshot(app, "timeline-compact-80x24")
        await press(pilot, "1")
        assert app.screen.has_class("-compact")
    again = build([run], "timeline")
    async with again.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert timeline(again)[2].rows == dense.rows
        await press(pilot, "z")
        assert timeline(again)[2].rows == roomy.rows


async def test_preferences_that_can_not_be_read_are_named_and_the_console_opens(run: Path) -> None:
    app = build([run], "timeline")
    app.memory.folder.mkdir(parents=True, exist_ok=True)
    (app.memory.folder / "console.json").write_text("{oops")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        assert "console.json" in screen_text(app)
        assert not app.compact


async def test_the_button_let_go_elsewhere_ends_the_drag(run: Path) -> None:
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, replay, shape = timeline(app)
        await pilot.mouse_down(Gantt, offset=(shape.gutter + 10, 0))
        await pilot.mouse_up(Gantt, offset=(shape.gutter + 10, 30))
        await settle(pilot)
        at = replay.playhead.at
        await pilot.hover(Gantt, offset=(shape.gutter + 60, 0))
        await settle(pilot)
        assert replay.playhead.at == at
        await pilot.click(Gantt, offset=(shape.gutter + 60, 12))
        await settle(pilot)
        assert replay.playhead.at != at


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_selection_on_screen(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "timeline", slo_ms=100)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "n", "w", "o", "shift+right", "shift+right", "shift+right")
        check_snapshot(app, f"timeline-selected-{size[0]}x{size[1]}")


async def test_percentiles_say_when_they_are_lower_bounds(tmp_path: Path) -> None:
    """SPEC F4: open and failed requests of a stretch are counted, and mark its percentiles."""
    app = build([mixed_ends(tmp_path)], "timeline")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen, _, shape = timeline(app)
        await drag(pilot, (shape.gutter, 20), (shape.gutter + shape.chart - 1, 20))
        assert screen.lived is not None
        assert {"open", "failed", "cancelled", "expired", "rejected"} < set(screen.lived["requests"])
        assert "p99†" in screen_text(app)
        assert "lower bound: 4 not answered" in screen_text(app)


async def test_it_plays_only_while_it_is_looked_at(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimelineScreen, "_clock", staticmethod(lambda: 0))
    app = build([run], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen, replay, _ = timeline(app)
        await press(pilot, "space", "question_mark")
        assert replay.playhead.playing, "help lies over it"
        await press(pilot, "escape", "1")
        assert screen.replay is not None
        assert not screen.replay.playhead.playing


async def test_each_run_keeps_its_chosen_request(run: Path, tmp_path: Path) -> None:
    app = build([run, served(tmp_path, "immediate", immediate=True)], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "j", "j", "j")
        _, replay, _ = timeline(app)
        chosen = app.chosen
        app.books[1].chosen = chosen
        await press(pilot, "tab")
        _, other, _ = timeline(app)
        assert other is not replay
        lane = other.lane()
        assert lane is not None
        assert lane.rid == chosen == app.chosen


async def test_many_workers_share_the_room(tmp_path: Path) -> None:
    """All strips of the one that is looked at, one line for each other."""
    steps = [
        step(0, (0, 1, 9, 10), StepKind.DECODE, num_decode_requests=1, waiting=number, running=1) | {"worker": number}
        for number in range(9)
    ]
    rows = {"requests": [request(1, 0, Status.OPEN, worker=4)], "steps": steps}
    app = build([write_run(tmp_path, rows)], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        _, _, shape = timeline(app)
        assert shape.strips <= 1 + 1 + 27 // 3
        assert [band.worker for band in shape.bands] == sorted(band.worker for band in shape.bands)
        assert [band.what for band in shape.bands if band.worker == 4] == ["steps", "waiting", "kv", "device"]
        assert "worker 4" in screen_text(app)
        assert shape.unseen == 9 - len({band.worker for band in shape.bands}) > 0
        assert f"+{shape.unseen}w" in screen_text(app)
