"""The SQL screen: writing, asking, stopping, browsing, and the answer as a filter of every screen."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from console.app import Tailtrace
from console.asking import busy
from console.commands.open import build
from console.filter import EVERYTHING
from console.filter_language import parse_filter
from console.querying.answer import Answer, Refusal
from console.remembering import Memory
from console.screens.overview import OverviewScreen
from console.screens.sql import SqlScreen
from console.screens.timeline import TimelineScreen
from console.widgets.answertable import AnswerTable
from console.widgets.browser import Browser
from console.widgets.sqleditor import SqlEditor
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import all_rejected, damaged, empty, mixed_ends, no_duration, one_request, served

SIZES = [(80, 24), (120, 40), (160, 48), (200, 60)]
SLOW = "SELECT count(*) FROM range(10_000_000_000) AS a(i) WHERE hash(i) = 7"
LONG = "SELECT rid FROM requests WHERE prompt_tokens > 400 ORDER BY rid"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return served(tmp_path_factory.mktemp("runs"))


def sql_of(app: Tailtrace) -> SqlScreen:
    screen = app.screen
    assert isinstance(screen, SqlScreen)
    return screen


async def asked(pilot: Pilot[None], app: Tailtrace, sql: str, key: str = "f5") -> Answer | Refusal | None:
    """What comes of a question that is written and asked with a key."""
    editor = sql_of(app).query_one(SqlEditor)
    editor.focus()
    editor.write(sql)
    await press(pilot, key)
    screen = sql_of(app)
    if screen.answer is not None and isinstance(screen.answer, Answer):
        # How long it took is another number each time.
        object.__setattr__(screen.answer, "took_ns", 1_234_567)
        screen.redraw("#said")
        await settle(pilot)
    return screen.answer


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_how_it_looks(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "sql")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        sql = "SELECT rid, request_id, e2e_ns -- the slow ones\nFROM latency\nWHERE e2e_ns > 9e7 ORDER BY e2e_ns DESC"
        await asked(pilot, app, sql)
        await press(pilot, "j", "j")
        check_snapshot(app, f"sql-{size[0]}x{size[1]}")


async def writing(pilot: Pilot[None], app: Tailtrace, text: str) -> SqlEditor:
    """The editor, in which this is typed key by key after all that was there is deleted."""
    editor = sql_of(app).query_one(SqlEditor)
    editor.focus()
    editor.write("")
    for char in text:
        await pilot.press("enter" if char == "\n" else "space" if char == " " else char)
    await settle(pilot)
    return editor


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_words_are_offered_under_the_cursor_and_taken(run: Path, size: tuple[int, int]) -> None:
    app = build([run], "sql")
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        editor = await writing(pilot, app, "select e2")
        check_snapshot(app, f"sql-offer-{size[0]}x{size[1]}")
        await press(pilot, "tab")
        assert editor.text == "select e2e_ns"
        assert editor.offer is None
        assert editor.has_focus
        editor = await writing(pilot, app, "select * from req")
        await press(pilot, "ctrl+@")
        assert editor.text == "select * from requests"


async def test_another_candidate_is_chosen_with_the_arrows(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        editor = await writing(pilot, app, "select\n* from s")
        assert editor.offer is not None
        second = editor.offer.candidates[1].text
        await press(pilot, "down", "down", "up", "tab")
        assert editor.text == f"select\n* from {second}"
        assert editor.cursor_location == (1, len(f"* from {second}"))


async def test_a_click_takes_a_candidate(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        editor = await writing(pilot, app, "select * from s")
        assert editor.offer is not None
        second = editor.offer.candidates[1].text
        await pilot.click("#offer", offset=(6, 1))
        await settle(pilot)
        assert editor.text == f"select * from {second}"
        assert editor.has_focus


async def test_what_is_offered_is_never_in_the_way(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        editor = await writing(pilot, app, "select ri")
        assert editor.offer is not None
        await press(pilot, "escape")
        assert editor.offer is None
        assert editor.has_focus, "the first escape is for the list"
        await press(pilot, "d")
        await press(pilot, "enter")
        assert editor.text == "select rid\n", "enter begins a line"
        editor = await writing(pilot, app, "select ri")
        await press(pilot, "left")
        assert editor.offer is None, "who moves away is not followed"
        editor = await writing(pilot, app, "select ri")
        await press(pilot, "f5")
        assert editor.offer is None
        editor.write("select rid from requests")
        editor.focus()
        await press(pilot, "tab")
        assert editor.text == "select rid from requests", "what is recalled is whole"
        assert not editor.has_focus, "without an offer tab leads out"


async def test_who_asks_is_offered_what_may_begin(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        editor = await writing(pilot, app, "select * from ")
        assert editor.offer is None
        await press(pilot, "ctrl+space")
        assert editor.offer is not None
        assert "requests" in screen_text(app)
        await press(pilot, "ctrl+z")
        assert editor.offer is None


async def test_what_is_wrong_is_shown_where_it_is(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, "SELECT rid\nFROM requests WHERE rid = = 3")
        assert sql_of(app).query_one(SqlEditor).cursor_location == (1, 26)
        check_snapshot(app, "sql-wrong-120x40")


async def test_the_tables_at_80x24(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "escape", "b", "j", "space", "j", "j", "j")
        check_snapshot(app, "sql-tables-80x24")
        await press(pilot, "enter")
        editor = sql_of(app).query_one(SqlEditor)
        assert editor.has_focus
        assert editor.text.endswith("name")
        assert sql_of(app).query_one(AnswerTable).size.height > 0, "the list has made room again"


@pytest.mark.parametrize("key", ["f5", "ctrl+r", "ctrl+j"])
async def test_a_question_is_asked_by_keys_that_every_terminal_sends(run: Path, key: str) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        answer = await asked(pilot, app, "SELECT 41 + 1 AS n", key)
        assert isinstance(answer, Answer)
        assert answer.rows["n"].to_pylist() == [42]
        assert sql_of(app).query_one(AnswerTable).has_focus, "keys are about the answer now"


async def test_what_is_typed_in_the_editor_is_text_and_no_key(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        editor = sql_of(app).query_one(SqlEditor)
        editor.write("")
        await press(pilot, *"1q?/et'[f", "enter", "2")
        assert editor.text == "1q?/et'[f\n2"
        assert isinstance(app.screen, SqlScreen)
        await press(pilot, "escape", "1")
        assert isinstance(app.screen, OverviewScreen)


@pytest.mark.parametrize("key", ["escape", "tab"])
async def test_the_way_out_of_the_editor_and_in_again(run: Path, key: str) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        screen = sql_of(app)
        assert screen.query_one(SqlEditor).has_focus
        await press(pilot, key)
        assert screen.query_one(AnswerTable).has_focus
        await press(pilot, "i")
        assert screen.query_one(SqlEditor).has_focus


async def test_a_running_question_is_stopped_by_escape_and_another_can_be_asked(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = sql_of(app)
        screen.query_one(SqlEditor).write(SLOW)
        await pilot.press("f5")
        await pilot.pause()
        assert screen.since is not None
        assert "escape stops" in screen_text(app)
        await press(pilot, "escape")
        assert screen.answer is None
        assert not busy()
        assert "stopped" in screen_text(app)
        assert isinstance(await asked(pilot, app, "SELECT 1 AS one"), Answer)


async def test_a_newer_question_takes_the_place_of_a_running_one(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        sql_of(app).query_one(SqlEditor).write(SLOW)
        await pilot.press("f5")
        await pilot.pause()
        answer = await asyncio.wait_for(asked(pilot, app, "SELECT 2 AS two"), 30)
        assert isinstance(answer, Answer)
        assert answer.rows["two"].to_pylist() == [2]


async def test_an_answer_filters_every_screen_and_the_chip_takes_it_away(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        await press(pilot, "f")
        assert parse_filter(str(app.only)) == app.only
        assert "3 of 24 requests" in screen_text(app)
        assert "asked without a filter" in screen_text(app)
        await press(pilot, "f5")
        assert "asked without a filter" not in screen_text(app)
        await press(pilot, "1")
        assert "3 in all" in screen_text(app)
        await press(pilot, "backspace")
        assert app.only == EVERYTHING
        assert "24 in all" in screen_text(app)


async def test_an_answer_without_requests_filters_nothing(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "escape", "f")
        await asked(pilot, app, "SELECT 1 AS one")
        await press(pilot, "f", "enter")
        assert app.only == EVERYTHING
        assert isinstance(app.screen, SqlScreen)


async def test_the_filter_is_over_what_is_asked(run: Path) -> None:
    app = build([run], "sql", only=parse_filter("id:long-*"))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        answer = await asked(pilot, app, "SELECT count(*) AS n FROM requests")
        assert isinstance(answer, Answer)
        assert answer.rows["n"].to_pylist() == [3]


async def test_a_row_leads_to_its_request(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        await press(pilot, "down", "enter")
        assert isinstance(app.screen, TimelineScreen)
        assert app.chosen == 11


async def test_a_million_rows_scroll(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        answer = await asked(pilot, app, "SELECT i, i * 2 AS twice FROM range(1_500_000) AS t(i)")
        assert isinstance(answer, Answer)
        assert (answer.rows.num_rows, answer.cut) == (1_000_000, True)
        assert "the first 1,000,000 rows, there are more" in screen_text(app)
        await press(pilot, "end")
        assert "▸1,000,000 999999  1999998" in screen_text(app)
        await press(pilot, "pageup", "home", "pagedown", "right")
        assert sql_of(app).query_one(AnswerTable).first == 1


async def test_copied_is_the_row_and_exported_is_the_answer(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert sql_of(app).shown() is None
        await asked(pilot, app, "SELECT 1 AS rid, 'a b' AS name, NULL AS nothing")
        await press(pilot, "y")
        assert app.clipboard == "1\ta b\t"
        await press(pilot, "e", "j")
    (file,) = tmp_path.glob("*.json")
    document = json.loads(file.read_text())
    assert (document["cut"], document["rows"]) == (False, [{"rid": 1, "name": "a b", "nothing": None}])


async def test_history_is_walked_in_the_editor_listed_and_kept_for_the_next_time(
    run: Path, nothing_remembered: Path
) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for sql in ("SELECT 1 AS a", "SELECT 2 AS b", "SELECT wrong"):
            await asked(pilot, app, sql)
        editor = sql_of(app).query_one(SqlEditor)
        editor.focus()
        await press(pilot, "alt+up", "alt+up")
        assert editor.text == "SELECT 2 AS b"
        await press(pilot, "alt+down")
        assert editor.text == "SELECT wrong"
        await press(pilot, "escape", "left_square_bracket")
        assert editor.text == "SELECT 2 AS b"
    assert Memory(nothing_remembered).questions() == ("SELECT 1 AS a", "SELECT 2 AS b", "SELECT wrong")
    again = build([run], "sql")
    async with again.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "escape", "h", "j", "enter")
        assert sql_of(again).query_one(SqlEditor).text == "SELECT 2 AS b"


async def test_what_is_remembered_and_can_not_be_read_is_said(run: Path, nothing_remembered: Path) -> None:
    nothing_remembered.mkdir()
    (nothing_remembered / "questions.json").write_text("[")
    app = build([run], "sql")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        assert "what is remembered" in screen_text(app)
        assert isinstance(await asked(pilot, app, "SELECT 1 AS one"), Answer)


async def test_the_list_is_beside_the_editor_where_there_is_room(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        assert "▸ steps  22" in screen_text(app)
        await press(pilot, "escape", "h")
        assert sql_of(app).query_one(Browser).has_focus
        await press(pilot, "b", "escape")
        assert sql_of(app).query_one(AnswerTable).has_focus
        assert "▸ steps  22" in screen_text(app)


async def test_another_run_has_tables_and_an_answer_of_its_own(run: Path, tmp_path: Path) -> None:
    app = build([run, one_request(tmp_path)], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, "SELECT count(*) AS n FROM requests")
        await press(pilot, "tab")
        assert app.book.name == "one"
        assert sql_of(app).answer is None
        await press(pilot, "f5")
        answer = sql_of(app).answer
        assert isinstance(answer, Answer)
        assert answer.rows["n"].to_pylist() == [1]


async def test_an_answer_of_an_earlier_look_says_so(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        await press(pilot, "R")
        assert "the run was read again since" in screen_text(app)
        await press(pilot, "f5")
        assert "read again" not in screen_text(app)


@pytest.mark.parametrize("make", [empty, one_request, no_duration, all_rejected, mixed_ends, damaged])
async def test_odd_runs_can_be_asked(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    app = build([make(tmp_path)], "sql")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        answer = await asked(pilot, app, "SELECT * FROM requests")
        assert isinstance(answer, Answer)
        await press(pilot, "j", "right", "end")


async def test_a_click_chooses_a_row_or_opens_a_table(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        await pilot.click(AnswerTable, offset=(3, 4))
        await settle(pilot)
        assert sql_of(app).query_one(AnswerTable).chosen == 2
        await pilot.click(Browser, offset=(4, 3))
        await settle(pilot)
        assert "▾ steps  22" in screen_text(app)
        assert sql_of(app).query_one(Browser).has_focus


async def test_rows_and_entries_are_jumped_to_by_letters(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        table, browser = sql_of(app).query_one(AnswerTable), sql_of(app).query_one(Browser)
        assert [spot.y for spot in table.spots()] == [2, 3, 4]
        assert len(browser.spots()) == len(browser.tables)
        list(table.spots())[1].go()
        assert table.chosen == 1


async def test_tiny_and_growing_screens(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(20, 6)) as pilot:
        await settle(pilot)
        await asked(pilot, app, LONG)
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        assert "▸1" in screen_text(app)


async def test_the_editor_s_colours_follow_the_theme(run: Path) -> None:
    app = build([run], "sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        editor = sql_of(app).query_one(SqlEditor)
        before = editor.theme
        await press(pilot, "escape", "t")
        assert editor.theme != before
