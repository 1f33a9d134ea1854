"""`tailtrace timeline`: the same lines of ink as the screen's, and the same rows as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.cli import main
from tests.console.runs import write_run
from tests.console.test_report import ODD_RUNS
from tests.console.tui_runs import MS, all_rejected, damaged, empty, mixed_ends, no_duration, one_request, served


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workload, served together."""
    return served(tmp_path_factory.mktemp("runs"), "continuous")


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command writes to stdout."""
    capsys.readouterr()
    assert main(["timeline", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The same as a document."""
    document: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))
    return document


def test_the_window_has_the_lanes_that_live_in_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, run, "--from", "100ms", "--to", "200ms", "--width", 50)
    assert (found["since_ns"], found["until_ns"], found["columns"]) == (100 * MS, 200 * MS, 50)
    everything = as_json(capsys, run)["requests"]
    begin = found["begin"]
    alive = [row["rid"] for row in everything
             if row["arrival"] - begin < 200 * MS and row["finish"] - begin >= 100 * MS]  # fmt: skip
    assert [row["rid"] for row in found["requests"]] == alive
    assert found["lanes"] == len(alive) < len(everything)
    assert sum(found["selected"]["requests"].values()) == len(alive)
    for row in found["requests"]:
        spans = row["spans"]
        assert [span["start"] for span in spans[1:]] == [span["end"] for span in spans[:-1]]
        assert sum(span["end"] - span["start"] for span in spans) == row["e2e"]


def test_a_strip_has_an_entry_a_column(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (strip,) = as_json(capsys, run, "--width", 70)["strips"]
    assert {len(strip[name]) for name in ("kinds", "waiting", "kv_used", "device_busy")} == {70}
    assert max(value for value in strip["kv_used"] if value is not None) > 10
    assert all(value is None or 0 <= value <= 1 for value in strip["device_busy"])
    assert {"mixed", "decode"} <= set(strip["kinds"])


def test_lanes_are_sorted_and_limited(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, run, "--sort", "latency", "--lanes", 5)
    lives = [row["finish"] - row["arrival"] for row in found["requests"]]
    everything = as_json(capsys, run)["requests"]
    assert lives == sorted((row["finish"] - row["arrival"] for row in everything), reverse=True)[:5]
    page = printed(capsys, run, "--sort", "latency", "--lanes", 5, "--width", 100)
    assert "↓latency" in page
    assert "and 19 lanes more" in page
    names = [line.split()[1] for line in page.splitlines() if line.startswith(" ● ")]
    assert names == [row["request_id"] for row in found["requests"]]


def test_a_filter_leaves_lanes_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, run, "--filter", "id:long-*")
    assert {row["request_id"][:4] for row in found["requests"]} == {"long"}
    assert found["filter"] == found["selected"]["filter"].split(" alive:")[0] == "id:long-*"


@pytest.mark.parametrize("width", [40, 80, 130, 200])
def test_no_line_is_wider_than_asked(run: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, run, "--width", width, "--at", "50%")
    assert max(map(len, page.splitlines())) <= width
    assert "▼" in page


@pytest.mark.parametrize(
    "make", [all_rejected, damaged, empty, mixed_ends, no_duration, one_request], ids=lambda make: make.__name__
)
def test_odd_runs_are_printed(make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ANN401
    run = make(tmp_path)
    assert "Window" in printed(capsys, run)
    found = as_json(capsys, run, "--sort", "queue")
    assert found["lanes"] == len(found["requests"])


@pytest.mark.parametrize("name", ODD_RUNS)
def test_other_odd_runs_are_printed_too(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, ODD_RUNS[name])
    assert "Window" in printed(capsys, run)
    assert as_json(capsys, run)["run"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "2s", "--to", "1s"], "--from 2s is not before --to 1s"),
        (["--from", "soon"], "'soon' is no place in time"),
        (["--to", "req:nobody"], "no request 'nobody' in this run"),
        (["--width", "3"], "--width must be between 40 and 1000, got 3"),
        (["--lanes", "-1"], "--lanes must be 0 or more"),
        (["--slo-ms", "0"], "--slo-ms must be above 0"),
        (["--filter", "nonsense"], "is no term of a filter"),
    ],
)
def test_bad_input_is_told(run: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(run), *arguments]) == 2
    assert says in capsys.readouterr().err
