"""`tailtrace simulate` from the outside: an ordinary run, the report of it, and nothing left behind by bad input."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder.check import check
from recorder.run import load_info, run_state
from recorder.tables import open_tables

ROOT = Path(__file__).parent.parent.parent
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
SPEC = "poisson:rate=40,n=120,prompt=uniform(5,90),output=uniform(1,40),tiers=chat+batch"


def tailtrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def simulated(config: str, run: Path, *options: str, spec: str = SPEC) -> dict[str, Any]:
    done = tailtrace("simulate", "--workload", spec, "--config", config, "--out", str(run), "--json", *options)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def test_the_run_is_an_ordinary_one_and_the_json_its_report(tmp_path: Path, config: str) -> None:
    made = simulated(config, tmp_path / "run", "--seed", "4")
    assert json.loads(tailtrace("report", str(tmp_path / "run"), "--json").stdout) == made
    assert made["requests"]["ok"] == 120
    assert run_state(tmp_path / "run") == "sealed"
    info = load_info(tmp_path / "run")
    assert (info.clock.kind, info.seed, info.workload["loop"]) == ("virtual", 4, "open loop")
    assert [found.name for found in check(open_tables(tmp_path / "run")) if not found.ok] == []
    assert {"steps", "slices", "events", "spans", "deliveries", "requests"} <= {
        path.parent.name for path in (tmp_path / "run").glob("*/*.parquet")
    }


def test_the_same_seed_gives_the_same_rows_and_several_workers_share_them(tmp_path: Path, config: str) -> None:
    for name in ("one", "two"):
        simulated(config, tmp_path / name, "--workers", "3")
    one, two = (open_tables(tmp_path / name) for name in ("one", "two"))
    for table in ("requests", "steps", "slices", "events", "spans", "deliveries"):
        assert one.table(table).equals(two.table(table)), table
    workers = one.table("requests").to_pydict()["worker"]
    assert set(workers) == {0, 1, 2}
    assert [found.name for found in check(one) if not found.ok] == []


@pytest.mark.parametrize("policy", ["continuous", "static"])
def test_a_summary_says_the_same_of_latencies(tmp_path: Path, config: str, policy: str) -> None:
    """Also under a policy that is lived through pass by pass."""
    path = tmp_path / "policy.toml"
    path.write_text(CONFIG.replace("[scheduler]", f'[scheduler]\npolicy = "{policy}"'))
    whole = simulated(str(path), tmp_path / "run")
    done = tailtrace("simulate", "--workload", SPEC, "--config", str(path), "--summary", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    for key in ("requests", "ttft_ms", "tpot_ms", "e2e_ms", "throughput", "window_s", "censored"):
        assert summary[key] == whole[key], key
    assert summary["workers"] == []


def test_a_closed_loop_is_labelled(tmp_path: Path, config: str) -> None:
    made = simulated(config, tmp_path / "run", spec="closed:users=3,n=30,think_s=0.1,output=8")
    assert made["setup"]["workload"]["loop"] == "closed loop"
    assert made["requests"]["ok"] == 30
    running = open_tables(tmp_path / "run").table("steps").to_pydict()["running"]
    assert max(running) <= 3


def test_a_person_gets_the_report_as_text(tmp_path: Path, config: str) -> None:
    done = tailtrace("simulate", "--workload", SPEC, "--config", config, "--summary")
    assert done.returncode == 0, done.stderr
    assert "virtual clock" in done.stdout
    assert "open loop: 120 requests" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "nowhere.jsonl"], "can't read the workload"),
        (["--workload", "poison:rate=3"], "unknown kind"),
        (["--workload", SPEC, "--workers", "0"], "--workers 0"),
        (["--workload", SPEC, "--seed", "-1"], "--seed -1"),
        (["--workload", SPEC, "--config", "nowhere.toml"], "can't read the configuration"),
    ],
)
def test_bad_input_is_told_and_leaves_no_run(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = tailtrace("simulate", *arguments, "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tailtrace: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("toml", "said"),
    [('[scheduler]\npolicy = "psychic"\n', "policy"), ("[cost]\nstep_u = 3\n", "did you mean step_us")],
)
def test_an_unknown_policy_or_key_is_told(tmp_path: Path, toml: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(toml)
    done = tailtrace("simulate", "--workload", SPEC, "--config", str(path), "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_without_out_only_a_summary_is_possible_and_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert "--out" in tailtrace("simulate", "--workload", SPEC).stderr
    (tmp_path / "run").mkdir()
    done = tailtrace("simulate", "--workload", SPEC, "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert list((tmp_path / "run").iterdir()) == []


def test_simulation_needs_neither_torch_nor_http_nor_screens() -> None:
    script = (
        "import sys, console.commands.simulate;"
        "print(sorted({'torch', 'aiohttp', 'textual', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
