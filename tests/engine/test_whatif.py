"""What-if: exact on what was simulated, honest about what was not, and held to real recordings (SPEC F5, D7)."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.cli import main
from engine.config import Config, ConfigError, CostConfig, KvConfig, SchedulerConfig
from engine.core import StepPlan
from engine.simulate.clock import Delays
from engine.simulate.cost import Cost, LinearCost
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from engine.whatif.changes import parse_changes
from recorder.check import check
from recorder.run import load_info, save_info
from recorder.tables import open_tables
from tests.engine.runs import mixed_arrivals

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
CONFIG = Config(
    scheduler=SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=128),
    kv=KvConfig(num_blocks=120),
    cost=CostConfig(step_us=15_000, decode_us=700, host_us=400),
)
STAMPS = ("queued", "first_scheduled", "first_token", "last_token", "returned")


def recording(path: Path, arrivals: list[Arrival] | None = None, cost: Cost | None = None) -> Path:
    """A run of the simulator; without `cost`, the one that its configuration tells."""
    simulate(
        CONFIG,
        arrivals or mixed_arrivals(5, 60),
        cost or LinearCost.of(CONFIG.cost),
        num_blocks=120,
        max_model_len=2048,
        delays=Delays.of(CONFIG.cost),
        run=path,
    )
    return path


def asked(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["whatif", *map(str, argv), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def rows(run: Path, *columns: str) -> list[dict[str, Any]]:
    requests = open_tables(run).table("requests").sort_by("rid").select(["request_id", *columns])
    found: list[dict[str, Any]] = requests.to_pylist()
    return found


def errors(told: dict[str, Any]) -> list[float]:
    return [error for values in told["error"].values() for error in values.values()]


# -- exact ---------------------------------------------------------------------------------------------------------


def test_a_simulated_run_is_re_run_to_the_nanosecond(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cancelled and refused requests included."""
    run = recording(tmp_path / "run")
    told = asked(capsys, run, "--set", "max_num_seqs=4", "--out", tmp_path / "other")
    assert told["fit"]["source"] == "configuration"
    assert set(errors(told)) == {0.0}
    assert told["trusted"]
    assert rows(tmp_path / "other-rerun", "status", *STAMPS) == rows(run, "status", *STAMPS)
    assert rows(tmp_path / "other", *STAMPS) != rows(run, *STAMPS)


def test_its_runs_are_ordinary_runs_that_know_their_parent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recording(tmp_path / "run")
    told = asked(capsys, run, "--set", "scheduler.max_num_seqs=4", "--out", tmp_path / "other")
    for out in ("other", "other-rerun"):
        assert all(found.ok for found in check(open_tables(tmp_path / out)))
        info = load_info(tmp_path / out)
        assert (info.parent, info.state, info.clock.kind) == ("run", "sealed", "virtual")
        assert info.whatif["fit"] == told["fit"]
        assert info.whatif["error"] == told["error"]
    assert load_info(tmp_path / "other").config["scheduler"]["max_num_seqs"] == 4
    assert load_info(tmp_path / "other-rerun").config["scheduler"]["max_num_seqs"] == 8


def test_a_what_if_can_be_asked_about_a_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Back to what was recorded: the stored cost model leads back to the very same stamps."""
    run = recording(tmp_path / "run", cost=LinearCost(9_000_000_000, 800_000_000, 1_000_000, 900_000_000, 100_000))
    first = asked(capsys, run, "--set", "max_num_seqs=4", "--out", tmp_path / "there")
    back = asked(capsys, tmp_path / "there", "--set", "max_num_seqs=8", "--out", tmp_path / "back")
    assert set(errors(back)) == {0.0}
    assert back["fit"] == first["fit"]
    assert rows(tmp_path / "back", *STAMPS) == rows(tmp_path / "there-rerun", *STAMPS)


def test_a_cost_that_is_not_configured_is_learnt_from_the_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recording(tmp_path / "run", cost=LinearCost(9_000_000_000, 800_000_000, 1_000_000, 900_000_000, 100_000))
    told = asked(capsys, run, "--set", "max_num_seqs=4", "--out", tmp_path / "other")
    assert told["fit"]["source"] == "steps"
    assert told["fit"]["trained_on"] > 100
    assert max(map(abs, errors(told))) < 0.001


def test_more_workers_share_the_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recording(tmp_path / "run", mixed_arrivals(5, 60, cancelled=0))
    told = asked(capsys, run, "--workers", 2, "--out", tmp_path / "two")
    assert {row["worker"] for row in rows(tmp_path / "two", "worker")} == {0, 1}
    assert told["whatif_ms"]["e2e"]["p99"] < told["rerun_ms"]["e2e"]["p99"]
    again = asked(capsys, tmp_path / "two", "--workers", 1, "--out", tmp_path / "one")
    assert set(errors(again)) == {0.0}
    assert rows(tmp_path / "one", *STAMPS) == rows(run, *STAMPS)


# -- prompts that begin alike ----------------------------------------------------------------------------------------


def conversations(caching: bool, path: Path) -> Path:
    """Three who begin alike, each asked again with its answer; two of them are one conversation."""
    kv = KvConfig(num_blocks=200, enable_prefix_caching=caching)
    config = Config(scheduler=CONFIG.scheduler, kv=kv, cost=CONFIG.cost)
    arrivals = [
        Arrival(
            arrival=number * 90_000_000,
            prompt_tokens=100 + 30 * number,
            max_tokens=40,
            output_tokens=20 + number % 9,
            prefix_of=max(number - 2, 0),
            prefix_tokens=min(70 + 30 * number, 110 + 30 * (number - 3)) if number > 2 else 0,
        )
        for number in range(25)
    ]
    delays = Delays.of(config.cost)
    cost = LinearCost.of(config.cost)
    simulate(config, arrivals, cost, num_blocks=200, max_model_len=2048, delays=delays, run=path)
    return path


@pytest.mark.parametrize("caching", [True, False])
def test_prompts_that_begin_alike_do_so_in_the_re_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caching: bool
) -> None:
    """Exactly; and switching the cache on saves what switching it off costs (SPEC C4)."""
    run = conversations(caching, tmp_path / "run")
    told = asked(capsys, run, "--set", f"enable_prefix_caching={str(not caching).lower()}", "--out", tmp_path / "other")
    assert set(errors(told)) == {0.0}
    assert not any("prefix cache" in note for note in told["notes"])
    columns = ("cached_tokens", "prefix_of", "prefix_tokens", *STAMPS)
    assert rows(tmp_path / "other-rerun", *columns) == rows(run, *columns)
    found = {path: sum(row["cached_tokens"] for row in rows(tmp_path / path, *columns)) for path in ("run", "other")}
    assert (found["run"] > 1000, found["other"] > 1000) == (caching, not caching)
    ttft = (told["rerun_ms"]["ttft"]["p50"], told["whatif_ms"]["ttft"]["p50"])
    assert (ttft[0] < ttft[1]) == caching
    other = conversations(not caching, tmp_path / "really")
    assert rows(tmp_path / "other", *columns) == rows(other, *columns)


# -- recorded steps ------------------------------------------------------------------------------------------------


def uneven(plan: StepPlan) -> int:
    """A device whose steps no model explains."""
    return 20_000_000 + plan.step * 7_919 % 13_000_000


def test_recorded_steps_are_followed_to_the_end_where_nothing_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recording(tmp_path / "run", cost=uneven)
    told = asked(capsys, run, "--recorded-steps", "--out", tmp_path / "same")
    steps = told["recorded_steps"]
    assert steps["differs_at_step"] is None
    assert steps["followed"] == steps["recorded"] == open_tables(run).table("steps").num_rows
    answered = [row for row in rows(run, "status", *STAMPS) if row["status"] == "ok"]
    again = {row["request_id"]: row for row in rows(tmp_path / "same", "status", *STAMPS)}
    assert [again[row["request_id"]] for row in answered] == answered


def test_recorded_steps_are_exact_until_the_first_plan_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recording(tmp_path / "run", cost=uneven)
    told = asked(capsys, run, "--set", "max_num_seqs=4", "--recorded-steps", "--out", tmp_path / "other")
    at = told["recorded_steps"]["differs_at_step"]
    assert at == told["recorded_steps"]["followed"] > 10
    columns = ["step", "t_sched", "t_exec", "t_done", "t_end", "num_decode_requests", "sum_prefill_tokens"]
    before, after = (open_tables(path).table("steps").select(columns).to_pylist() for path in (run, tmp_path / "other"))
    assert before[:at] == after[:at]
    assert before[at]["t_sched"] == after[at]["t_sched"]
    assert [row["num_decode_requests"] for row in before[at:]] != [row["num_decode_requests"] for row in after[at:]]
    assert all(found.ok for found in check(open_tables(tmp_path / "other")))


def fleet(path: Path, workers: int) -> Path:
    """A recording of several workers whose steps no model explains."""
    arrivals = mixed_arrivals(5, 90, rate_per_s=12, cancelled=0.05)
    delays = Delays.of(CONFIG.cost)
    simulate(CONFIG, arrivals, uneven, num_blocks=120, max_model_len=2048, delays=delays, run=path, workers=workers)
    return path


def test_the_recorded_steps_of_several_workers_are_followed_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fleet(tmp_path / "run", 3)
    told = asked(capsys, run, "--recorded-steps", "--out", tmp_path / "same")
    steps = told["recorded_steps"]
    assert steps["differs_at_step"] is None
    assert steps["followed"] == steps["recorded"] == open_tables(run).table("steps").num_rows
    assert {row["worker"] for row in rows(run, "worker")} == {0, 1, 2}
    assert rows(tmp_path / "same", "worker", "status", *STAMPS) == rows(run, "worker", "status", *STAMPS)


def test_each_worker_is_followed_until_its_own_plan_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests go where they went until the first of them plans otherwise; then the router decides."""
    run = fleet(tmp_path / "run", 3)
    told = asked(capsys, run, "--set", "max_num_seqs=3", "--recorded-steps", "--out", tmp_path / "other")
    steps = told["recorded_steps"]
    columns = ["worker", "step", "t_sched", "t_exec", "t_done", "t_end", "num_decode_requests", "sum_prefill_tokens"]
    before, after = (open_tables(path).table("steps").select(columns).to_pylist() for path in (run, tmp_path / "other"))
    mine = [row for row in before if row["worker"] == steps["worker"]]
    left = mine[steps["differs_at_step"]]["t_sched"]
    then, now = ([row for row in told if row["t_end"] <= left] for told in (before, after))
    assert len(now) > 30
    assert sorted(then, key=str) == sorted(now, key=str)
    assert all(found.ok for found in check(open_tables(tmp_path / "other")))


@pytest.mark.parametrize(("then", "now"), [(1, 2), (3, 2)])
def test_recorded_steps_with_another_number_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], then: int, now: int
) -> None:
    run = fleet(tmp_path / "run", then)
    told = asked(capsys, run, "--workers", now, "--recorded-steps", "--out", tmp_path / "other")
    steps = told["recorded_steps"]
    assert 0 < steps["followed"] < steps["recorded"]
    assert {row["worker"] for row in rows(tmp_path / "other", "worker")} == set(range(now))
    assert told["unserved"] == 0
    assert all(found.ok for found in check(open_tables(tmp_path / "other")))


# -- trust -----------------------------------------------------------------------------------------------------------


def test_what_the_model_misses_is_marked_with_a_suspicion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The device became three times slower in the middle: no cost model of the whole run fits either half."""

    def tired(plan: StepPlan) -> int:
        return LinearCost()(plan) * (1 if plan.step < 250 else 3)

    run = recording(tmp_path / "run", cost=tired)
    told = asked(capsys, run, "--set", "max_num_seqs=4", "--out", tmp_path / "other")
    assert not told["trusted"]
    assert told["reasons"][0].startswith("re-running the recorded configuration misses by up to")
    assert any(reason.startswith("drift:") for reason in told["reasons"])
    assert any(reason.startswith("saturated:") for reason in told["reasons"])
    assert load_info(tmp_path / "other").whatif["trusted"] is False
    assert main(["whatif", str(run), "--set", "max_num_seqs=4", "--out", str(tmp_path / "text")]) == 0
    assert "NOT TO BE TRUSTED" in capsys.readouterr().out


def test_a_closed_loop_says_that_its_arrivals_would_have_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recording(tmp_path / "run")
    info = load_info(run)
    info.workload["loop"] = "closed loop"
    save_info(run, info)
    told = asked(capsys, run, "--set", "max_num_seqs=4", "--out", tmp_path / "other")
    assert any("would have moved its arrivals" in note for note in told["notes"])


def test_steps_larger_than_any_recorded_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recording(tmp_path / "run")
    told = asked(capsys, run, "--set", "max_num_batched_tokens=512", "--out", tmp_path / "other")
    assert any(note.startswith("extrapolated: steps reach 512 prompt tokens") for note in told["notes"])


# -- other people's recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "mean", "p99", "prefill"), [("RTXPRO6000", 0.03, 0.05, 0.08), ("RTX4090", 0.05, 0.05, 0.2)]
)
def test_half_of_a_real_recording_predicts_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, mean: float, p99: float, prefill: float
) -> None:
    """Real vLLM, known by the stamps of its requests alone; the second one under KV pressure. Both planned one step
    ahead, which one of them says and the other shows."""
    path = SAMPLES / f"vllm_bench_{device}_Llama-3.1-8B.requests.jsonl"
    if not path.exists():
        pytest.skip("the sample is not here")
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 0
    told = asked(capsys, tmp_path / "run", "--self-check")
    held_out = told["held_out"]
    assert held_out["requests"] == 150
    assert told["fit"]["trained_on"] == 150
    for name in ("ttft", "e2e"):
        assert abs(held_out[name]["mean"]) < mean
        assert abs(held_out[name]["p99"]) < p99
    assert told["fit"]["plans_ahead"]
    assert abs(told["stages"]["prefill"]["mean"]) < prefill
    assert held_out["tpot"].keys() == {"mean", "p50", "p90", "p99"}
    assert told["stages"].keys() == {"ingress", "queue", "prefill", "decode", "return"}


def test_a_run_with_steps_checks_itself_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recording(tmp_path / "run")
    told = asked(capsys, run, "--self-check", "--train-share", 0.4)
    assert told["fit"]["source"] == "steps"
    assert told["fit"]["trained_on"] < open_tables(run).table("steps").num_rows
    assert all(abs(error) < 0.01 for name in ("ttft", "tpot", "e2e") for error in told["held_out"][name].values())
    assert main(["whatif", str(run), "--self-check"]) == 0
    assert "predicted against recorded" in capsys.readouterr().out


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--set", "max_num_seq=4"], "no such key; did you mean max_num_seqs?"),
        (["--set", "max_num_seqs"], "write key=value"),
        (["--set", "max_num_seqs=0"], "must be a whole number from 1 to 4096"),
        (["--set", "max_num_seqs=4", "scheduler.max_num_seqs=5"], "is set twice"),
        (["--set", "enabled=false"], "decides nothing that a re-run in virtual time can show"),
        (["--set", "kv.memory_mb=10"], "set kv.num_blocks"),
        (["--set", "max_num_batched_tokens=4"], "is less than max_num_seqs"),
        (["--workers", "0"], "--workers 0"),
        (["--limit", "0"], "--limit 0"),
    ],
)
def test_what_can_not_be_asked_is_refused_and_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    run = recording(tmp_path / "run")
    assert main(["whatif", str(run), *argv, "--out", str(tmp_path / "other")]) == 2
    assert complaint in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_without_answers_a_run_that_is_there_and_no_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hopeless = [Arrival(arrival=0, prompt_tokens=100_000, max_tokens=1)]
    empty = recording(tmp_path / "empty", hopeless)
    assert main(["whatif", str(empty), "--out", str(tmp_path / "other")]) == 2
    assert "no answered request with its stamps is recorded" in capsys.readouterr().err
    run = recording(tmp_path / "run")
    assert main(["whatif", str(run), "--out", str(run)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["whatif", str(tmp_path), "--out", str(tmp_path / "other")]) == 2
    assert main(["whatif", str(run)]) == 2
    assert main(["whatif", str(run), "--self-check", "--set", "max_num_seqs=2"]) == 2
    assert main(["whatif", str(run), "--self-check", "--train-share", "1"]) == 2


def test_a_recording_without_a_configuration_asks_for_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"request_id": "a", "input_toks": 9, "output_toks": 5, "arrival_time": 1.0, "queued_ts": 1.0}
    line |= {"scheduled_ts": 1.1, "first_token_ts": 1.2, "last_token_ts": 1.6}
    (tmp_path / "requests.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["import", str(tmp_path / "requests.jsonl"), "--out", str(tmp_path / "run")]) == 0
    assert main(["whatif", str(tmp_path / "run"), "--out", str(tmp_path / "other")]) == 2
    assert "give --set scheduler.max_num_seqs=... scheduler.max_num_batched_tokens=..." in capsys.readouterr().err


def test_values_are_read_as_they_look() -> None:
    assert parse_changes(["max_num_seqs=4", "kv.watermark=0.1", "enable_chunked_prefill=false", "policy=static"]) == {
        "scheduler": {"max_num_seqs": 4, "enable_chunked_prefill": False, "policy": "static"},
        "kv": {"watermark": 0.1},
    }
    with pytest.raises(ConfigError, match="tailtrace config --explain"):
        parse_changes(["xyzzy=1"])
