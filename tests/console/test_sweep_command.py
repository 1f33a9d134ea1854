"""`tailtrace sweep` from the outside: figures that other commands confirm, exit codes, nothing left of bad input."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.cli import main
from recorder.run import run_state
from recorder.tables import open_tables

ROOT = Path(__file__).parents[2]
CONFIG = """
[scheduler]
max_num_seqs = 8
max_num_batched_tokens = 64
[kv]
num_blocks = 60
[cost]
step_us = 900
decode_us = 20.5
decode_kv_token_ns = 40
prefill_token_us = 35
prefill_pair_ns = 0.5
"""
SPEC = "poisson:rate=40,n=120,prompt=uniform(5,90),output=uniform(1,40)"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "console.cli", *arguments]


def tailtrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def swept(config: str, *options: str, code: int = 0) -> dict[str, Any]:
    done = tailtrace("sweep", "--workload", SPEC, "--config", config, "--json", *options)
    assert done.returncode == code, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def test_a_level_says_what_its_run_says(tmp_path: Path, config: str) -> None:
    """Against `simulate` for the level that is the workload itself, and against the rows of kept runs (SPEC D2)."""
    runs = tmp_path / "runs"
    made = swept(config, "--load", "1,8", "--slo-e2e-ms", "40.5", "--slo-tpot-ms", "2.1", "--runs", str(runs))
    assert [level["level"] for level in made["levels"]] == ["1", "8"]
    done = tailtrace("simulate", "--workload", SPEC, "--config", config, "--summary", "--json")
    whole = json.loads(done.stdout)
    for level, report in ((made["levels"][0], whole), (made["levels"][1], _report(runs / "load-8"))):
        for measure in ("ttft", "tpot", "e2e"):
            for rank in ("p50", "p95", "p99", "max"):
                assert level[f"{rank}_{measure}_ms"] == pytest.approx(report[f"{measure}_ms"][rank], rel=1e-12)
        assert level["throughput"] == pytest.approx(report["throughput"]["requests_per_s"], rel=1e-12)
        rows = open_tables(Path(level["run"])).table("requests").to_pylist()
        inside = sum(
            row["returned"] - row["arrival"] <= 40_500_000
            and (row["last_token"] - row["first_token"]) * 10 <= 21_000_000 * (row["output_tokens"] - 1)
            for row in rows
        )
        assert 0 < inside < len(rows)
        assert level["requests"]["inside"] == inside
        assert level["goodput"] == pytest.approx(inside / report["window_s"], rel=1e-12)
        assert level["cost_per_success"] == pytest.approx(report["window_s"] / inside, rel=1e-12)
        assert level["meets_slo"] == (inside * 100 >= 99 * len(rows))
        assert run_state(Path(level["run"])) == "sealed"


def test_levels_are_paired_request_by_request(tmp_path: Path, config: str) -> None:
    """SPEC D7: the same numbers as a comparison of the two runs."""
    runs = tmp_path / "runs"
    made = swept(config, "--vary", "max_num_seqs=8,2", "--runs", str(runs))
    first, second = (level["paired_e2e_ms"] for level in made["levels"])
    done = tailtrace("compare", made["levels"][0]["run"], made["levels"][1]["run"], "--json")
    assert first is None
    assert second == json.loads(done.stdout)["paired"]["e2e_ms"]
    assert second["slower"] > second["faster"]


def _report(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tailtrace("report", str(run), "--json").stdout)
    return found


def test_the_knee_is_the_last_load_that_holds(config: str) -> None:
    """SPEC D3."""
    made = swept(config, "--load", "16,0.5,1,2,64", "--slo-e2e-ms", "150")
    assert [level["level"] for level in made["levels"]] == ["0.5", "1", "2", "16", "64"]
    assert [level["meets_slo"] for level in made["levels"]] == [True, True, True, False, False]
    assert made["knee"] == {"level": "2", "why": "slo"}
    assert made["levels"][-1]["saturated"]
    offered = [level["offered"] for level in made["levels"]]
    assert offered[1] == pytest.approx(2 * offered[0], rel=1e-6)


def test_the_same_sweep_gives_the_same_answer_whatever_the_jobs(config: str) -> None:
    one, two = (swept(config, "--vary", "max_num_seqs=2,8", "--jobs", jobs) for jobs in ("1", "2"))
    assert one == two
    assert one["knee"] is None
    assert one["levels"][0]["p99_e2e_ms"] > one["levels"][1]["p99_e2e_ms"]


def test_workers_cost_and_a_price(config: str) -> None:
    made = swept(config, "--vary", "workers=1,2", "--cost-per-hour", "7.2")
    by_seconds = swept(config, "--vary", "workers=1,2")
    for priced, counted in zip(made["levels"], by_seconds["levels"], strict=True):
        assert priced["cost_per_success"] == pytest.approx(counted["cost_per_success"] * 0.002, rel=1e-12)
    assert by_seconds["levels"][1]["cost_per_success"] > 1.5 * by_seconds["levels"][0]["cost_per_success"]


def test_a_broken_guard_rail_is_exit_code_1_and_names_the_level(config: str) -> None:
    """SPEC D7."""
    options = ("sweep", "--workload", SPEC, "--config", config, "--load", "1,64", "--guard", "p99_e2e_ms<200")
    done = tailtrace(*options, "rejected_share<=0")
    assert done.returncode == 1
    assert "guard rail broken at load=64: p99_e2e_ms<200" in done.stderr
    assert "load=1:" not in done.stderr.split("guard rail")[1]
    assert "load=64 breaks p99_e2e_ms<200" in done.stdout
    assert "Traceback" not in done.stderr
    made = swept(config, "--load", "1,64", "--guard", "p99_e2e_ms<200", code=1)
    assert made["failed"] == [{"level": "64", "guard": "p99_e2e_ms<200"}]
    assert swept(config, "--load", "1", "--guard", "p99_e2e_ms<200")["failed"] == []


def test_rejections_are_counted_and_are_outside(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG + "[engine]\nmax_model_len = 64\n")
    spec = "steady:rate=10,n=50,prompt=uniform(5,90),output=10,max_tokens=10"
    done = tailtrace(
        "sweep", "--workload", spec, "--config", str(path), "--load", "1", "--json", "--slo-e2e-ms", "9999"
    )
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    rejected = level["requests"]["rejected"]
    assert 0 < rejected < 50
    assert level["rejected_share"] == rejected / 50
    assert level["inside_share"] == 1 - rejected / 50
    assert level["meets_slo"] is False


def test_a_person_gets_tables_progress_and_the_knee_in_words(config: str) -> None:
    done = tailtrace("sweep", "--workload", SPEC, "--config", config, "--load", "1,2", "--slo-e2e-ms", "150")
    assert done.returncode == 0, done.stderr
    assert "knee: load 2 is the highest that meets the SLO before saturation" in done.stdout
    assert "[2/2] load=" in done.stderr
    assert "┤" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(("policy", "reference"), [("immediate", True), ("continuous", False)])
def test_a_terminal_gets_the_curve_and_the_reference_line_where_it_applies(
    tmp_path: Path, policy: str, reference: bool
) -> None:
    """SPEC D3, D8."""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.replace("[scheduler]", f'[scheduler]\npolicy = "{policy}"'))
    arguments = command("sweep", "--workload", SPEC, "--config", str(path), "--load", "0.5,1", "--slo-e2e-ms", "900")
    told = on_a_terminal(arguments)
    assert "E2E p99" in told
    assert "▲ knee" in told
    assert "┤" in told
    assert ("intuition only" in told) == reference


def on_a_terminal(arguments: list[str]) -> str:
    """What the command writes to a terminal without colours."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(
        arguments, cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        chunks = []
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(ours)
    assert process.returncode == 0
    return b"".join(chunks).decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a sweep changes one variable"),
        (["--vary", "max_num_seq=1,2"], "did you mean max_num_seqs"),
        (["--vary", "max_num_seqs=1", "--load", "1"], "one variable"),
        (["--vary", "max_num_seqs=1", "--vary", "order=spf"], "one variable"),
        (["--load", ","], "empty"),
        (["--load", "1", "--guard", "luck>1"], "unknown measure luck"),
        (["--load", "1", "--slo", "nowhere.toml"], "can't read it"),
        (["--load", "1", "--slo", "nowhere.toml", "--slo-e2e-ms", "3"], "leave --slo-"),
        (["--load", "1", "--slo-share", "0.5"], "needs a limit"),
        (["--load", "1", "--slo-e2e-ms", "soon"], "not a number"),
        (["--load", "1", "--cost-per-hour", "free"], "not a number"),
        (["--load", "0.0000001,1"], "would come after"),
        (["--load", "1", "--jobs", "0"], "--jobs 0"),
        (["--load", "1", "--workers", "0"], "--workers 0"),
        (["--load", "1", "--seed", "-1"], "--seed -1"),
        (["--vary", "kv.memory_mb=5,6"], "memory_mb"),
        (["--load", "1", "--config", "nowhere.toml"], "can't read the configuration"),
    ],
)
def test_bad_input_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["sweep", "--workload", SPEC, *arguments, "--runs", str(tmp_path / "runs")]) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert said in told
    assert "Traceback" not in told
    assert "[1/" not in told
    assert not (tmp_path / "runs").exists()


def test_a_closed_loop_has_no_load_of_its_own_but_can_be_varied(config: str) -> None:
    closed = ("--workload", "closed:users=3,n=30,think_s=0.1,output=8", "--config", config)
    done = tailtrace("sweep", *closed, "--load", "1,2")
    assert done.returncode == 2
    assert "closed loop" in done.stderr
    assert tailtrace("sweep", *closed, "--vary", "max_num_seqs=1,2").returncode == 0


def test_a_run_is_never_overwritten(tmp_path: Path, config: str) -> None:
    (tmp_path / "load-2").mkdir()
    done = tailtrace(
        "sweep", "--workload", SPEC, "--config", config, "--load", "1,2", "--runs", str(tmp_path)
    )  # fmt: skip
    assert done.returncode == 2
    assert "load-2 exists already" in done.stderr
    assert list((tmp_path / "load-2").iterdir()) == []
    assert not (tmp_path / "load-1").exists()


def test_a_sweep_needs_neither_torch_nor_http_nor_screens() -> None:
    script = (
        "import sys, console.commands.sweep;"
        "print(sorted({'torch', 'aiohttp', 'textual', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _interrupt(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGINT)


def _kill_a_level(process: "subprocess.Popen[str]") -> None:
    levels = [one for one in psutil.Process(process.pid).children() if "spawn_main" in " ".join(one.cmdline())]
    levels[0].kill()


@pytest.mark.parametrize(
    ("breaking", "code", "said"), [(_interrupt, 130, ""), (_kill_a_level, 2, "the process of a level was killed")]
)
def test_a_sweep_that_is_broken_off_leaves_no_half_written_run(
    tmp_path: Path, config: str, breaking: Callable[["subprocess.Popen[str]"], None], code: int, said: str
) -> None:
    """Levels that would take minutes: one run is begun when it happens."""
    runs = tmp_path / "runs"
    spec = "poisson:rate=40,n=400000,prompt=uniform(5,90),output=uniform(1,40)"
    options = ("sweep", "--workload", spec, "--config", config, "--load", "1,2", "--runs", str(runs), "--jobs", "2")
    with subprocess.Popen(command(*options), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        deadline = time.monotonic() + 60
        while not list(runs.glob("*/run.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert it.poll() is None
        breaking(it)
        out, told = it.communicate(timeout=60)
    assert (it.returncode, out) == (code, "")
    assert said in told
    assert "Traceback" not in told
    assert list(runs.glob("*")) == []
