"""The demo through its own command line: two real engines, two checked runs, one comparison."""

import subprocess
import sys
from pathlib import Path

import pytest

from recorder.check import check
from recorder.run import run_state
from recorder.tables import open_tables

ROOT = Path(__file__).parents[2]
WORKLOAD = "\n".join(
    f'{{"id": "r{number}", "arrival_s": {number * 0.05}, "prompt_tokens": 20, "max_tokens": 4, "ignore_eos": true}}'
    for number in range(8)
)


def _demo(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "console.cli", "demo", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def test_it_leaves_two_sound_runs_and_prints_their_comparison(tmp_path: Path) -> None:
    workload = tmp_path / "few.jsonl"
    workload.write_text(WORKLOAD)
    done = _demo("--headless", "--load-format", "dummy", "--model", "tiny", "--workload", workload, "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    runs = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert [run.name.split("-")[0] for run in runs] == ["continuous", "immediate"]
    for run in runs:
        assert run_state(run) == "sealed"
        assert [found for found in check(open_tables(run)) if not found.ok] == []
        assert run.name in done.stdout
    assert "8 answered by both" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "tiny", "--workload", "missing.jsonl"], "missing.jsonl"),
        (["--model", "no-such-model"], "no-such-model"),
    ],
)
def test_what_can_not_start_is_said_and_exits_with_2(tmp_path: Path, words: list[str], told: str) -> None:
    done = _demo("--headless", "--load-format", "dummy", "--runs", tmp_path, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
