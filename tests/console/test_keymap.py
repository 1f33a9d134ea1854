"""The user's own keys: read from a file, refused with words, in force everywhere the key table is shown."""

from pathlib import Path

import pytest

from console.cli import main
from console.commands.open import build
from console.keymap import KeymapError, parse_keymap, read_keymap, template, with_keymap
from console.keys import KEYS
from tests.console.screens import press, screen_text, settle
from tests.console.tui_runs import served


def test_every_action_has_a_name_of_its_own() -> None:
    names = [key.id for key in KEYS]
    assert len(set(names)) == len(names)


def test_the_file_that_is_printed_is_one_that_can_be_read() -> None:
    """With every comment taken away it says what the table says."""
    lines = [line.removeprefix("# ") for line in template({})]
    keymap = parse_keymap("\n".join(lines), "printed")
    assert set(keymap) == {key.id for key in KEYS}
    assert [key.keys for key in with_keymap(keymap)] == [key.keys for key in KEYS]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[timelin]\n", "did you mean timeline"),
        ("timeline = 3\n", "no section"),
        ('[timeline]\nzoom-inn = "i"\n', "did you mean zoom-in"),
        ("[timeline]\nzoom-in = 3\n", "give a key"),
        ("[timeline]\nzoom-in = []\n", "give a key"),
        ('[timeline]\nzoom-in = "s"\n', "timeline.zoom-in and timeline.zoom-out are both on 's'"),
        ('[timeline]\nzoom-in = "q"\n', "everywhere.quit are both on 'q'"),
        ('[everywhere]\nquit = "w"\n', "are both on 'w'"),
        ("[timeline\n", "not valid TOML"),
    ],
)
def test_what_is_no_keymap_is_told(text: str, said: str) -> None:
    with pytest.raises(KeymapError, match=said):
        parse_keymap(text, "keys.toml")


def test_keys_may_change_places() -> None:
    keymap = parse_keymap('[timeline]\nzoom-in = "s"\nzoom-out = ["w", "-"]\nslower = "f5"\n', "keys.toml")
    shown = {key.id: (key.keys, key.shown) for key in with_keymap(keymap)}
    assert shown["timeline.zoom-in"] == ("s", "s")
    assert shown["timeline.zoom-out"] == ("w,minus", "w -")


def test_a_named_file_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILTRACE_KEYS", str(tmp_path / "none.toml"))
    with pytest.raises(KeymapError, match="there is no file"):
        read_keymap()
    assert read_keymap({"HOME": str(tmp_path)}) == {}


async def test_keys_are_in_force_in_the_footer_and_in_the_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[everywhere]\ncompare = "f2"\ntimeline = ["T", "f3"]\n[overview]\nbox = "x"\n')
    monkeypatch.setenv("TAILTRACE_KEYS", str(file))
    app = build([served(tmp_path)], "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert " x box" in screen_text(app)
        await press(pilot, "b")
        assert "at " not in screen_text(app).partition("E2E over time")[2].partition("\n")[0]
        await press(pilot, "x")
        assert " at " in screen_text(app).partition("E2E over time")[2].partition("\n")[0]
        await press(pilot, "2")
        assert app.current_mode == "overview"
        await press(pilot, "f3")
        assert app.current_mode == "timeline"
        await press(pilot, "f2")
        assert app.current_mode == "compare"
        await press(pilot, "question_mark")
        assert "f2" in screen_text(app)


def test_the_keys_are_printed_with_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[timeline]\nmark = "M"\n')
    monkeypatch.setenv("TAILTRACE_KEYS", str(file))
    assert main(["keys"]) == 0
    printed = capsys.readouterr().out
    assert '\nmark = "M"' in printed
    assert '\n# zoom-in = "w"' in printed
