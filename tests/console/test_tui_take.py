"""What is taken along: marks, copies to the clipboard, files."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.app import Tailtrace
from console.commands.open import build
from console.exporting import Shown, flattened, new_file, save
from console.marks import Mark, Marks, with_mark, without_mark
from console.remembering import ForgottenError, Memory, Remembered
from console.screens.export import ExportScreen
from console.screens.marks import MarksScreen
from console.screens.timeline import TimelineScreen
from recorder.errors import UserError
from recorder.run import load_info
from tests.console.screens import check_snapshot, press, screen_text, settle
from tests.console.tui_runs import MS, served

MARKS = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["", "a", " b ", "slow"])), max_size=40)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same workload, served one at a time and served together."""
    folder = tmp_path_factory.mktemp("runs")
    return [served(folder, "immediate", immediate=True), served(folder, "continuous")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that somebody works in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@given(MARKS)
def test_marks_are_in_order_one_an_instant_and_named(asked: list[tuple[int, str]]) -> None:
    marks: Marks = ()
    for at, label in asked:
        marks = with_mark(marks, at, label)
    assert [mark.at for mark in marks] == sorted({at for at, _ in asked})
    assert all(mark.label == mark.label.strip() != "" for mark in marks)
    for mark in marks:
        assert without_mark(marks, mark.at) == tuple(other for other in marks if other != mark)


def test_a_mark_without_a_label_gets_the_next_free_letter() -> None:
    marks: Marks = ()
    for at in range(30):
        marks = with_mark(marks, at, "")
    labels = [mark.label for mark in marks]
    assert labels[:3] == ["a", "b", "c"]
    assert len(set(labels)) == 30
    assert with_mark(without_mark(marks, 1), 99, "")[-1] == Mark(99, "b")


def test_what_is_remembered_comes_back_for_the_same_run_only(runs: list[Path], tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    one, other = (load_info(run) for run in runs)
    kept = Remembered(filter="status:ok", marks=(Mark(5, "名前 [red]"),))
    memory.keep(one, Remembered())
    assert not memory.folder.exists(), "nothing to remember leaves nothing behind"
    memory.keep(one, kept)
    assert memory.recall(one) == kept
    assert memory.recall(other) == Remembered()
    memory.keep(one, Remembered())
    assert memory.recall(one) == Remembered()
    assert len([*(memory.folder / "runs").iterdir()]) == 1


def test_a_folder_that_can_not_be_written_is_an_error_in_words(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ForgottenError, match="can't remember"):
        Memory(tmp_path / "file").keep(load_info(runs[0]), Remembered(filter="status:ok"))


async def test_marks_are_set_listed_jumped_to_removed_and_kept(runs: list[Path]) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        low = screen_of(app).replay.lanes.window.low  # type: ignore[union-attr]
        for target, label in (("100ms", "here it waits"), ("50%", "")):
            await press(pilot, "g")
            app.focused.value = target  # type: ignore[union-attr]
            await press(pilot, "enter", "m", *label.replace(" ", "_"), "enter")
        assert [mark.label for mark in app.book.marks] == ["here_it_waits", "a"]
        assert app.book.marks[0].at == low + 100 * MS
        assert "◆here_it_wai…" in screen_text(app)
        await press(pilot, "1", "apostrophe")
        assert isinstance(app.screen, MarksScreen)
        check_snapshot(app, "marks-120x40")
        await press(pilot, "enter")
        assert screen_of(app).replay.playhead.at == low + 100 * MS  # type: ignore[union-attr]
        await press(pilot, "apostrophe", "j", "d", "j", "k", "escape")
        assert [mark.label for mark in app.book.marks] == ["here_it_waits"]
        await press(pilot, "m", "escape")
        assert len(app.book.marks) == 1
    again = build(runs[1:], "timeline")
    async with again.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert [mark.label for mark in again.book.marks] == ["here_it_waits"]
        assert "◆here_it_wai…" in screen_text(again)


async def test_a_run_without_marks_says_how_to_make_one(runs: list[Path]) -> None:
    app = build(runs[1:], "overview")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "apostrophe")
        assert "m on the timeline marks" in screen_text(app)
        await press(pilot, "d", "j", "enter")
        assert not isinstance(app.screen, MarksScreen)


@pytest.mark.parametrize(
    ("screen", "keys", "expected"),
    [
        ("overview", [], "TTFT"),
        ("timeline", ["j"], "chat-001"),
        ("timeline", ["enter"], "sum"),
        ("compare", ["j"], "chat-"),
    ],
)
async def test_copy_takes_what_is_selected_or_shown(
    runs: list[Path], screen: str, keys: list[str], expected: str
) -> None:
    app = build(runs if screen == "compare" else runs[1:], screen)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, *keys, "y")
        assert expected in app.clipboard
        assert "copied" in screen_text(app)


async def test_copy_goes_out_as_osc_52(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        sent: list[str] = []
        monkeypatch.setattr(app._driver, "write", sent.append)
        await press(pilot, "y")
        assert any(data.startswith("\x1b]52;c;") for data in sent)


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


READERS: dict[str, Callable[[Path], object]] = {
    "csv": read_csv,
    "json": lambda file: json.loads(file.read_text("utf-8")),
    "parquet": lambda file: pq.read_table(file).to_pylist(),
    "svg": lambda file: file.read_text("utf-8"),
}


@pytest.mark.parametrize("screen", ["overview", "timeline", "compare"])
async def test_export_writes_each_format_and_says_where(runs: list[Path], screen: str, here: Path) -> None:
    app = build(runs if screen == "compare" else runs[1:], screen)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        for key, form in zip("cjps", READERS, strict=True):
            await press(pilot, "e")
            assert isinstance(app.screen, ExportScreen)
            await press(pilot, key)
            (file,) = here.glob(f"*.{form}")
            assert READERS[form](file)
            assert file.name[:30] in screen_text(app)
        (picture,) = here.glob("*.svg")
        assert "what&#160;is&#160;shown" not in picture.read_text("utf-8"), "the question is not in the picture"
        assert "written" not in picture.read_text("utf-8"), "nor is what was said of the file before"


async def test_the_rows_of_an_export_are_those_on_screen(runs: list[Path], here: Path) -> None:
    app = build(runs[1:], "timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "home", "w", "w")
        replay = screen_of(app).replay
        assert replay is not None
        alive = replay.lanes.alive(replay.window)
        assert 0 < len(alive) < 24
        await press(pilot, "e", "c")
        (file,) = here.iterdir()
        names = [row["request_id"] for row in read_csv(file)]
        assert names == [replay.lanes.lane(int(index)).request_id for index in alive]


async def test_an_export_of_nothing_leaves_nothing(runs: list[Path], here: Path) -> None:
    app = build(runs[1:], "compare")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        check_snapshot_of_export = screen_text(app)
        await press(pilot, "e", "escape")
        assert screen_text(app) == check_snapshot_of_export
        await press(pilot, "e", "c")
        assert "nothing to export" in screen_text(app)
    assert [*here.iterdir()] == []


def test_no_file_is_ever_overwritten(here: Path) -> None:
    shown = Shown("a run/[red]", lambda: flattened({"a": {"b": 1, "c": [2, None]}}), lambda: {"a": float("nan")})
    files = [save(shown, form, "<svg/>", here) for form in ("csv", "json", "csv", "svg", "csv")]
    assert [file.name for file in files] == [
        "tailtrace-a-run-red-.csv",
        "tailtrace-a-run-red-.json",
        "tailtrace-a-run-red--2.csv",
        "tailtrace-a-run-red-.svg",
        "tailtrace-a-run-red--3.csv",
    ]
    assert read_csv(files[0]) == [{"key": "a.b", "value": "1"}, {"key": "a.c[0]", "value": "2"}]
    assert json.loads(files[1].read_text()) == {"a": None}


def test_a_folder_that_is_none_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't write into"):
        new_file(tmp_path / "none", "x", "csv")


def screen_of(app: Tailtrace) -> TimelineScreen:
    """The timeline, which must be on screen."""
    assert isinstance(app.screen, TimelineScreen)
    return app.screen
