"""Runs of the engine's own scheduler in virtual time: every check holds and every ns has a name (SPEC F1, A3)."""

from pathlib import Path
from random import Random

import pytest

from engine.config import Config, Policy, SchedulerConfig
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost, fixed_time
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from recorder.attribution import attribute
from recorder.check import check
from recorder.tables import RunTables, open_tables
from tests.recorder.ledgers import Row

MS = 1_000_000
NO_DELAYS = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0)


def crowd(seed: int) -> list[Arrival]:
    """More than the worker can take: long prompts among short ones, and some clients that leave."""
    random, t, arrivals = Random(seed), 0, []
    for _ in range(50):
        t += int(random.expovariate(1 / 60) * MS)
        leaves = t + random.randint(0, 2000) * MS if random.random() < 0.1 else None
        prompt, most = random.choice([20, 40, 300]), random.randint(1, 40)
        tier = random.choice(["free", "paid"])
        arrivals.append(Arrival(arrival=t, prompt_tokens=prompt, max_tokens=most, cancel_at=leaves, tier=tier))
    return arrivals


def recorded(policy: Policy, seed: int, run: Path) -> RunTables:
    tokens = 128 if policy == "continuous" else 4096
    config = Config(scheduler=SchedulerConfig(policy=policy, max_num_seqs=8, max_num_batched_tokens=tokens))
    simulate(config, crowd(seed), LinearCost(), num_blocks=40, max_model_len=512, run=run)
    return open_tables(run)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", ["immediate", "static", "continuous"])
def test_every_check_holds(policy: Policy, seed: int, tmp_path: Path) -> None:
    assert [found for found in check(recorded(policy, seed, tmp_path / "run")) if not found.ok] == []


def test_nothing_is_unnamed_but_the_wake_of_an_idle_worker(tmp_path: Path) -> None:
    """In virtual time a message waits for the step in flight, or for an idle pass to be wound up."""
    tables = recorded("continuous", 3, tmp_path / "run")
    answered = {row["rid"] for row in tables.table("requests").to_pylist() if row["status"] == "ok"}
    found = [row for row in attribute(tables).to_pylist() if row["rid"] in answered]
    assert {row["cause"] for row in found} >= {
        "INGRESS",
        "STEP_IN_FLIGHT",
        "QUEUE/KV_BLOCKS",
        "QUEUE/BEHIND_TIER",
        "PREEMPTED/KV_BLOCKS",
        "RECOMPUTE",
    }
    wake = Delays().plan_ns + Delays().commit_ns
    assert all(row["ns"] <= wake for row in found if row["cause"] == "UNNAMED")


def causes_of(policy: Policy, arrivals: list[Arrival], run: Path) -> list[dict[str, int]]:
    """Causes in ms, request by request, of a worker whose every step takes 100 ms and that costs nothing else."""
    scheduler = SchedulerConfig(policy=policy, max_batch_size=4, max_queue_delay_ms=10)
    config = Config(scheduler=scheduler)
    simulate(config, arrivals, fixed_time(100 * MS), num_blocks=64, max_model_len=64, delays=NO_DELAYS, run=run)
    found: list[Row] = attribute(open_tables(run)).to_pylist()
    return [{row["cause"]: row["ns"] / MS for row in found if row["rid"] == rid} for rid in range(1, len(arrivals) + 1)]


def at(ms: int) -> Arrival:
    return Arrival(arrival=ms * MS, prompt_tokens=4, max_tokens=1)


def test_batch_timer_runs_from_the_oldest(tmp_path: Path) -> None:
    """SPEC A3: A at 0 ms and B at 7 ms leave together at 10 ms, and end at 110 ms."""
    first, second = causes_of("static", [at(0), at(7)], tmp_path / "run")
    assert first == {"QUEUE/BATCH_TIMER": 10, "PREFILL": 100}
    assert second == {"QUEUE/BATCH_TIMER": 3, "PREFILL": 100}


def test_full_batch_waits_for_nothing(tmp_path: Path) -> None:
    """SPEC A3: four arrivals at 0 ms run at once; E at 1 ms finds the worker busy and waits 99 ms for the step."""
    *batch, late = causes_of("static", [at(0)] * 4 + [at(1)], tmp_path / "run")
    assert batch == [{"PREFILL": 100}] * 4
    assert late == {"STEP_IN_FLIGHT": 99, "PREFILL": 100}
