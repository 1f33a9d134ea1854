"""One request on a screen of its own: its lists, the ways between requests, and the numbers of its headless twin."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from console.app import Tailtrace
from console.cli import main
from console.commands.open import build
from console.filter_language import parse_filter
from console.screens.life import Page, RequestScreen
from console.screens.timeline import TimelineScreen
from console.widgets.panes import row_at, slots
from recorder.run import hold_lock, lock_path
from recorder.words import Status
from tests.console.runs import MS, request, write_run
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.test_tui_screens import colours
from tests.console.tui_runs import (
    Sim,
    all_rejected,
    begin,
    close,
    damaged,
    empty,
    mixed_ends,
    no_duration,
    one_request,
    served,
    workload,
    write_request,
)

SIZES = [(80, 24), (120, 40), (160, 48), (200, 60)]
TITLES = ["Causes", "Token gaps", "Passes", "Neighbours", "Attempts", "Events"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workload, served together."""
    return served(tmp_path_factory.mktemp("runs"), "continuous")


def screen_of(app: Tailtrace) -> RequestScreen:
    """The screen; a request must be on it."""
    assert isinstance(app.screen, RequestScreen)
    assert app.screen.found is not None
    return app.screen


def told(app: Tailtrace) -> dict[str, object]:
    """The row of the request that is on screen."""
    found = screen_of(app).found
    assert found is not None
    return found.life["request"]


async def pane(pilot: Pilot[None], title: str) -> None:
    """Go to a list by its name."""
    screen = screen_of(pilot.app)  # type: ignore[arg-type]
    while screen.panes[screen.active].title != title:
        await press(pilot, "l")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_screen(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "request")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert [one.title for one in screen_of(app).panes] == TITLES
        check_snapshot(app, f"request-{size[0]}x{size[1]}")
        await pane(pilot, "Token gaps")
        await press(pilot, "z", "j", "j")
        check_snapshot(app, f"request-gaps-{size[0]}x{size[1]}")


async def test_it_begins_with_a_slow_one_and_goes_on_to_the_next(run: Path) -> None:
    app = build([run], "request", slo_ms=100)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        seen = [told(app)]
        while "no request over the SLO that way" not in screen_text(app):
            await press(pilot, "n")
            seen.append(told(app))
        assert seen.pop() == seen[-1]
        assert len(seen) > 3
        assert all(int(str(row["e2e_ns"])) > 100 * MS for row in seen)
        assert [row["arrival"] for row in seen] == sorted({int(str(row["arrival"])) for row in seen})
        await press(pilot, "N")
        assert told(app) == seen[-2]


async def test_all_that_is_over_the_slo_is_what_the_timeline_finds(run: Path) -> None:
    app = build([run], "timeline", slo_ms=100)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "n", "n", "3")
        assert isinstance(app.screen, RequestScreen)
        first = told(app)["rid"]
        await press(pilot, "N")
        before = told(app)["rid"]
        await press(pilot, "2", "n")
        assert isinstance(app.screen, TimelineScreen)
        assert app.screen.replay is not None
        lane = app.screen.replay.lane()
        assert lane is not None
        assert lane.rid == first != before, "the choice goes with one from screen to screen"


async def test_a_culprit_is_a_jump_away_and_escape_the_way_back(run: Path) -> None:
    app = build([run], "timeline", slo_ms=150)
    async with app.run_test(size=(160, 48), notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, "n", "enter", "enter")
        victim = told(app)
        causes = screen_of(app).panes[0]
        culprit = causes.who(screen_of(app).selected[0])
        assert culprit is not None, "the largest cause that somebody is behind is selected at first"
        await press(pilot, "c")
        assert told(app)["rid"] == app.chosen == culprit
        await press(pilot, "escape")
        assert told(app) == victim
        await press(pilot, "k", "k", "k", "k", "k", "k", "k", "k", "c")
        assert "nobody else is behind this one" in screen_text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, TimelineScreen)
        assert app.chosen == victim["rid"]


async def test_a_row_is_shown_where_it_happened(run: Path) -> None:
    app = build([run], "request")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        rid = told(app)["rid"]
        await pane(pilot, "Token gaps")
        found = screen_of(app).found
        assert found is not None
        await press(pilot, "j", "enter")
        assert isinstance(app.screen, TimelineScreen)
        replay = app.screen.replay
        assert replay is not None
        assert replay.playhead.at == found.life["gaps"][1]["since"]
        lane = replay.lane()
        assert lane is not None
        assert lane.rid == rid


async def test_the_mouse_selects_lists_and_rows(run: Path) -> None:
    app = build([run], "request")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen = screen_of(app)
        size = screen.query_one(Page).size
        for place, slot in enumerate(slots(6, 0, size.width, size.height - 4)):
            await pilot.click(Page, offset=(slot.x + 5, slot.y + 4))
            await settle(pilot)
            assert screen.active == place
        gaps = slots(6, 0, size.width, size.height - 4)[1]
        await pilot.click(Page, offset=(gaps.x + 5, gaps.y + 4 + 3))
        await settle(pilot)
        assert (screen.active, screen.selected[1]) == (1, 2)
        rid = told(app)["rid"]
        neighbours = slots(6, 0, size.width, size.height - 4)[3]
        await pilot.click(Page, offset=(neighbours.x + 5, neighbours.y + 4 + 1), times=2)
        await settle(pilot)
        assert told(app)["rid"] != rid


async def test_another_run_has_requests_of_its_own(run: Path, tmp_path: Path) -> None:
    other = served(tmp_path, "immediate", immediate=True)
    app = build([run, other], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "c")
        here = told(app)
        app.books[1].chosen = int(str(here["rid"]))
        await press(pilot, "tab")
        assert (told(app)["rid"], app.books[1].chosen) == (here["rid"], here["rid"])
        assert told(app)["e2e_ns"] != here["e2e_ns"]
        assert f"sum {told(app)['e2e_ns']:,} ns = E2E" in screen_text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, TimelineScreen), "the way back leads to no request of another run"
        await press(pilot, "shift+tab", "3")
        assert told(app) == here


async def test_lists_and_rows_are_a_letter_away(run: Path) -> None:
    app = build([run], "request")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        screen = screen_of(app)
        page = screen.query_one(Page)
        assert len(page.spots()) == 6 + min(screen.panes[0].rows, 10)
        row = page.spots()[3]
        assert screen_text(app).splitlines()[page.content_region.y + row.y][page.content_region.x + row.x + 1] in "░◂━█"
        row.go()
        assert (screen.active, screen.selected[0]) == (0, screen.selected[0])
        titles = [spot for spot in page.spots() if spot.y in {4, 17, 30}]
        for spot in titles:
            spot.go()
            await settle(pilot)
            line = screen_text(app).splitlines()[page.content_region.y + spot.y]
            assert line[page.content_region.x + spot.x :].startswith(f"▸ {screen.panes[screen.active].title}")


async def test_what_is_exported_is_what_the_headless_twin_prints(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = build([run], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        shown, wanted = screen_of(app).shown(), str(told(app)["request_id"])
        assert shown is not None
        document = json.loads(json.dumps(shown.document()))
        copied = screen_of(app).copied()
    assert main(["request", str(run), wanted, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert copied is not None
    assert "sum = E2E" in copied[0]


async def test_a_request_that_the_filter_leaves_out_says_so(run: Path) -> None:
    app = build([run], "request", slo_ms=90, only=parse_filter("id:chat-*"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert str(told(app)["request_id"]).startswith("chat-")
        app.look_at(parse_filter("id:long-*"))
        await settle(pilot)
        assert str(told(app)["request_id"]).startswith("chat-")
        assert "outside the filter" in screen_text(app)
        await press(pilot, "n")
        assert str(told(app)["request_id"]).startswith("long-")
        assert "outside the filter" not in screen_text(app)


async def test_attempts_are_a_list_to_jump_in(tmp_path: Path) -> None:
    """SPEC A7, A8: a rejection with its retry time, and the attempt that came of it."""
    first = request(1, 0, Status.REJECTED, request_id="again", returned_ms=2, http_status=429)
    first |= {"retry_after_ms": 40}
    second = request(2, 45, request_id="again", returned_ms=90, retry_of=1) | {"attempt": 2}
    third = request(3, 95, request_id="other", returned_ms=99, retry_of=2)
    run = write_run(tmp_path, {"requests": [second, first, third]})
    app = build([run], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.chosen = 2
        await press(pilot, "1", "3")
        await pane(pilot, "Attempts")
        await press(pilot, "j")
        seen = screen_text(app)
        assert "retry after 40 ms" in seen
        assert "retries req:1" in seen
        assert "came 43.0ms after the one before ended; 40 ms were asked for" in seen
        await press(pilot, "j", "c")
        assert told(app)["rid"] == 3
        assert screen_of(app).panes[4].rows == 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (empty, "no request to tell of"),
        (all_rejected, "rejected"),
        (damaged, "Causes"),
        (mixed_ends, "Causes"),
        (no_duration, "flash"),
        (one_request, "only"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_key_works_on_every_odd_run(make: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    app = build([make(tmp_path)], "request")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert words in screen_text(app)
        for _ in TITLES:
            await press(pilot, "l", "j", "j", "k", "pagedown", "c")
        for key in ("n", "N", "h", "y", "z", "enter", "3", "escape"):
            await press(pilot, key)
        assert app.is_running


async def test_a_request_of_a_run_that_is_being_written(tmp_path: Path) -> None:
    """An open request is told as far as it has come; read again, it is told to its end."""
    run, out = begin(tmp_path, "live")
    sim = Sim(out, workload(12))
    write_request(out, sim.coming[11], Status.OPEN)
    for _ in range(60):
        sim.one_pass()
    for buffer in out._buffers.values():
        buffer.flush()
    app = build([run], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        with hold_lock(lock_path(run), fcntl.LOCK_SH):
            await settle(pilot)
            app.chosen = 11
            await press(pilot, "1", "3")
            assert told(app)["status"] == "open"
            assert screen_of(app).shown() is not None
            sim.run()
        close(run, out)
        await press(pilot, "R")
        assert told(app)["status"] == "ok"
        assert f"sum {told(app)['e2e_ns']:,} ns = E2E" in screen_text(app)
        found = screen_of(app).found
        assert found is not None
        assert len(found.life["gaps"]) == int(str(told(app)["output_tokens"])) - 1


async def test_without_colour_nothing_is_lost(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = build([run], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert colours(app) == set()
        check_snapshot(app, "request-120x40")


@pytest.mark.parametrize("size", [(40, 10), (20, 4), (5, 2), (1, 1), (300, 100), (130, 9)])
async def test_no_size_is_too_small(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "request")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.resize_terminal(*size)
        await press(pilot, "l", "j", "l")
        assert app.is_running


@pytest.mark.parametrize(("width", "height"), [(80, 17), (120, 33), (160, 41), (200, 53), (130, 1), (10, 3)])
def test_the_active_list_is_always_among_those_on_screen(width: int, height: int) -> None:
    for active in range(6):
        found = slots(6, active, width, height)
        assert active in [slot.place for slot in found]
        assert len({(slot.x, slot.y) for slot in found}) == len(found)
        assert all(slot.x + slot.width <= width and slot.y + slot.height <= height for slot in found)
        assert row_at([], active, [], (width, height), (-1, -1)) is None
