"""`tailtrace prune`: what it refuses, what it says, and what is left."""

import fcntl
import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from console.cli import main
from recorder.run import hold_lock, lock_path
from tests.console.runs import golden_rows, write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four runs that are 0, 10, 20 and 30 days old, and a folder that is no run."""
    for days in (0, 10, 20, 30):
        created = datetime.now(UTC) - timedelta(days=days, minutes=1)
        write_run(tmp_path, golden_rows(), f"run{days}", created=created.isoformat())
    (tmp_path / "notes").mkdir()
    return tmp_path


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_old_runs_go_the_oldest_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(folder), "--keep-days", "15", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert re.findall(r"^deleted (\w+): [\d.]+ kB, ended .*, too old$", out, re.MULTILINE) == ["run30", "run20"]
    assert re.search(r"^freed [\d.]+ kB of 2 runs; 2 runs stay, [\d.]+ kB$", out, re.MULTILINE)
    assert "notes: it stays" in err
    assert left(folder) == {"run0", "run10", "notes"}


def test_the_oldest_go_until_the_rest_fits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room = sum(
        path.stat().st_size
        for name in ("run0", "run10", "run20")
        for path in (folder / name).rglob("*")
        if path.is_file()
    )
    assert main(["prune", str(folder), "--max-size", f"{room}B", "--yes"]) == 0
    assert "deleted run30" in capsys.readouterr().out
    assert left(folder) == {"run0", "run10", "run20", "notes"}


def test_a_dry_run_only_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(folder)
    assert main(["prune", str(folder), "--keep-days", "5", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines()[:-1]] == [
        "would delete run30",
        "would delete run20",
        "would delete run10",
    ]
    assert "would free" in out
    assert left(folder) == before


def test_a_run_in_use_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(folder, golden_rows(), "living", sealed=False, created="2020-01-01T00:00:00Z")
    with hold_lock(lock_path(run), fcntl.LOCK_EX):
        assert main(["prune", str(folder), "--keep-days", "0.1", "--max-size", "1B", "--yes"]) == 0
    assert "1 run stays, " in capsys.readouterr().out
    assert left(folder) == {"living", "notes"}


def test_a_run_that_resists_does_not_save_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the lock after the decision."""
    (folder / "run20").rename(folder.parent / "elsewhere")
    (folder / "run20").symlink_to(folder.parent / "elsewhere")
    assert main(["prune", str(folder), "--keep-days", "15", "--yes"]) == 1
    out, err = capsys.readouterr()
    assert "run20 is a link" in err
    assert "deleted run30" in out
    assert left(folder) == {"run0", "run10", "run20", "notes"}


def test_remnants_of_a_killed_prune_go_with_the_next_one(folder: Path) -> None:
    (folder / ".pruned-run40-ab12" / "slices").mkdir(parents=True)
    assert main(["prune", str(folder), "--keep-days", "100"]) == 0
    assert left(folder) == {"run0", "run10", "run20", "run30", "notes"}


class Terminal(io.StringIO):
    """A person at stdin."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "gone"), [("y\n", 0, True), ("\n", 2, False), ("no\n", 2, False)])
def test_a_person_is_asked(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    code: int,
    gone: bool,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert main(["prune", str(folder), "--keep-days", "25"]) == code
    assert "Delete 1 run, " in capsys.readouterr().err
    assert (folder / "run30").exists() is not gone


def test_without_a_person_yes_has_to_be_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["prune", str(folder), "--keep-days", "25"]) == 2
    assert "say --yes to delete" in capsys.readouterr().err
    assert (folder / "run30").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "give --keep-days, --max-size or both"),
        (("--keep-days", "0"), "no number of days above 0"),
        (("--keep-days", "-3"), "no number of days above 0"),
        (("--keep-days", "nan"), "no number of days above 0"),
        (("--keep-days", "soon"), "no number of days above 0"),
        (("--max-size", "10"), "give a number and a unit"),
        (("--max-size", "0GB"), "would delete every run"),
    ],
)
def test_nonsense_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert main(["prune", str(folder), "--yes", *argv]) == 2
    assert said in capsys.readouterr().err
    assert len(left(folder)) == 5
