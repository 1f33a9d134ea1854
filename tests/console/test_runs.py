"""`tailtrace runs`, and every reading command on a run elsewhere, as processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.cli import main
from console.text.sizes import parse_size, size
from recorder.producer import RingProducer
from tests.console.runs import golden_rows, write_run
from tests.recorder.s3_server import filesystem, s3_environment, s3_server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs, one older, one killed, and two folders that are none."""
    runs = tmp_path / "runs"
    write_run(runs, golden_rows(), "older", created="2026-01-01T10:00:00+00:00")
    write_run(runs, golden_rows(5), "newer", sealed=False, created="2026-01-02T12:30:00+00:00")
    (runs / "notes").mkdir()
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text("{")
    return runs


def test_a_line_a_run_the_newest_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(folder)]) == 0
    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.split() == ["run", "state", "created", "(UTC)", "size", "duration", "drops", "requests"]
    assert [line.split()[:4] for line in lines] == [
        ["newer", "killed", "2026-01-02", "12:30:00"],
        ["older", "sealed", "2026-01-01", "10:00:00"],
    ]
    assert lines[1].endswith("40.0ms      2  1 open, 2 ok, 1 rejected, 1 expired, 1 cancelled, 1 failed")
    assert f"skipped broken: {folder}/broken/run.json is damaged" in err
    assert "skipped 1 folder without a run.json: notes" in err


def test_json_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in told["runs"]] == ["newer", "older"]
    older = told["runs"][1]
    assert older | {"size_bytes": 0} == {
        "run": "older",
        "where": str(folder / "older"),
        "state": "sealed",
        "created": "2026-01-01T10:00:00Z",
        "size_bytes": 0,
        "duration_ns": 40_000_000,
        "requests": {"open": 1, "ok": 2, "rejected": 1, "expired": 1, "cancelled": 1, "failed": 1},
        "drops": 2,
        "damages": [],
    }
    assert [skipped["name"] for skipped in told["skipped"]] == ["broken", "notes"]


def test_the_folder_of_serve_is_listed_by_default(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert main(["runs"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_no_runs_is_an_answer_and_no_folder_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", f"tailtrace: no runs in {tmp_path}\n")
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert "can't be listed" in capsys.readouterr().err


def test_damage_and_hostile_names_are_told_safely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, golden_rows(), sealed=False)
    RingProducer(run, "worker0", ["steps"], 0.01).close()
    (run / "rings" / "worker0.steps.ring").write_bytes(b"")
    (tmp_path / "\x1b[31mred").mkdir()
    assert main(["runs", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert "golden is damaged, its numbers are those of the rest: rings/worker0.steps.ring: is cut short" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (999_600, "1.00 MB"),
        (12_345_678, "12.3 MB"),
        (10**15, "1,000 TB"),
    ],
)
def test_sizes_are_printed_in_three_digits(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("text", "count"), [("10GB", 10**10), ("1.5 kB", 1500), ("2KiB", 2048), ("7b", 7), (" 1TiB ", 2**40), ("0MB", 0)]
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "10", "GB", "-1GB", "1e3GB", "10 apples", "1.2.3MB", "nanGB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give a number and a unit"):
        parse_size(text)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which s3://bucket holds a folder of two runs."""
    folder = tmp_path_factory.mktemp("s3")
    for name, slow in (("one", 0), ("two", 5)):
        write_run(folder / "runs", golden_rows(slow), name)
    with s3_server(folder / "log") as address:
        system = filesystem(address)
        system.mkdir("bucket")
        for path in (folder / "runs").rglob("*"):
            if path.is_file():
                system.pipe_file(f"bucket/{path.relative_to(folder)}", path.read_bytes())
        yield {**os.environ, **s3_environment(address), "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "80"}


def tailtrace(environment: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console.cli", *argv]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("runs", "s3://bucket/runs/"), "\ntwo  sealed"),
        (("report", "s3://bucket/runs/one"), "one"),
        (("compare", "s3://bucket/runs/one", "s3://bucket/runs/two"), "two"),
        (("request", "s3://bucket/runs/one", "req-1"), "req-1"),
        (("query", "s3://bucket/runs/one", "SELECT count(*) AS n FROM requests", "--format", "csv"), '"n"\n7\n'),
        (("check", "s3://bucket/runs/one"), "checks"),
    ],
)
def test_every_reading_command_takes_a_url(bucket: dict[str, str], argv: tuple[str, ...], said: str) -> None:
    result = tailtrace(bucket, *argv)
    assert said in result.stdout
    assert result.stderr == ""
    assert result.returncode == (1 if argv[0] == "check" else 0)  # the golden run breaks rules on purpose


def test_open_refuses_before_it_copies(bucket: dict[str, str]) -> None:
    result = tailtrace(bucket, "open", "s3://bucket/runs/one")
    assert result.returncode == 2
    assert "needs a terminal" in result.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("report", "s3://bucket/runs/none"), "s3://bucket/runs/none is no run"),
        (("report", "s3://no-such-bucket/run"), "bucket does not exist"),
        (("runs", "s3://bucket/runs/one"), "is a run itself"),
        (("prune", "s3://bucket/runs", "--keep-days", "1"), "not on this machine"),
        (("report", "nosuch://run"), "Protocol not known"),
    ],
)
def test_what_is_wrong_elsewhere_is_one_message(bucket: dict[str, str], argv: tuple[str, ...], said: str) -> None:
    result = tailtrace(bucket, *argv)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
