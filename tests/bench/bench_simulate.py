"""Speed of simulation: jumps without tables and with all of them, beside the loop that lives every pass.

`python -m tests.bench.bench_simulate [--requests N] [--stepped N] [--million]` prints one JSON object. The work is the
start of Azure's conversation trace of 2023 where it lies in shared/samples, else a Poisson load of like lengths; batch
limit 256, costs like an 8B model on one large GPU. Times are seconds, best of some rounds: by the wall clock, and of
the process alone, for the machine may be shared.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.config import Config, CostConfig, KvConfig, SchedulerConfig
from engine.simulate.cost import LinearCost, TwoRegimes
from engine.simulate.formats import read
from engine.simulate.jumped import jump_through
from engine.simulate.run import record_workload
from engine.simulate.setup import Setup
from engine.simulate.sources import OpenLoop
from engine.simulate.stepped import step_through
from engine.simulate.workload import Workload

TRACE = Path(__file__).parents[3] / "shared" / "samples" / "azure_llm_2023_conv.csv"
COST = CostConfig(step_us=6_000, decode_us=20, decode_kv_token_ns=40, prefill_token_us=35, prefill_pair_ns=0.5)
ALIKE = "poisson:rate=5.5,n=10000,prompt=lognormal(800,1),output=lognormal(150,0.9)"
ROUNDS = 5
AIMS = {"summary": 100_000, "tables": 5_000}


def first(workload: Workload, n: int) -> Workload:
    """Its first `n` requests; beyond its end it begins anew, later."""
    places = np.arange(n) % len(workload)
    again = np.arange(n) // len(workload)
    return replace(
        workload,
        arrival=workload.arrival[places] + again * (int(workload.arrival[-1]) + 10**9),
        prompt_tokens=workload.prompt_tokens[places],
        max_tokens=workload.max_tokens[places],
        output_tokens=workload.output_tokens[places],
    )


def setup_for(workload: Workload, num_blocks: int = 0) -> Setup:
    """`num_blocks` 0: memory never ends."""
    scheduler = SchedulerConfig(max_num_seqs=256, max_num_batched_tokens=2048)
    return Setup.of(Config(scheduler=scheduler, kv=KvConfig(num_blocks=num_blocks), cost=COST), workload.longest)


def two_regimes(setup: Setup) -> Setup:
    """With steps that cost twice as much by themselves where they compute prompts, as fits to recordings find."""
    cost = LinearCost.of(COST)
    return replace(setup, cost=TwoRegimes(cost, replace(cost, step=2 * cost.step)))


def timed(work: Callable[[], object], requests: int, rounds: int) -> dict[str, float]:
    """Best times of some rounds, and requests a second."""
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "requests": requests,
        "wall_s": round(min(walls), 3),
        "cpu_s": round(min(cpus), 3),
        "requests_per_s": round(requests / min(walls)),
        "requests_per_cpu_s": round(requests / min(cpus)),
    }


def recorded(setup: Setup, workload: Workload) -> None:
    """All tables, onto the disk."""
    with tempfile.TemporaryDirectory() as folder:
        record_workload(setup, workload, Path(folder) / "run")


def million(workload: Workload) -> list[dict[str, float]]:
    """Whether time stays linear and memory bounded: ten times as much, and once more."""
    made = []
    for n in (10_000, 100_000, 1_000_000):
        many = first(workload, n)
        setup = setup_for(many)
        took = timed(lambda setup=setup, many=many: jump_through(setup, many), n, 1)  # type: ignore[misc]
        made.append({**took, "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)})
    return made


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--stepped", type=int, default=1_000, help="requests of the loop that lives every pass")
    parser.add_argument("--million", action="store_true", help="also up to a million requests")
    args = parser.parse_args()
    source = (
        str(TRACE) if TRACE.exists() else "poisson:rate=5.5,n=10000,prompt=lognormal(800,1),output=lognormal(150,0.9)"
    )
    whole = read(source, 0)
    workload, few = first(whole, args.requests), first(whole, args.stepped)
    setup, tight = setup_for(workload), setup_for(workload, 3_000)
    made: dict[str, Any] = {
        "workload": workload.about,
        "output_tokens": int(workload.output_tokens.sum()),
        "aims_requests_per_s": AIMS,
        "summary": timed(lambda: jump_through(setup, workload), len(workload), ROUNDS),
        "summary_two_regimes": timed(lambda: jump_through(two_regimes(setup), workload), len(workload), ROUNDS),
        "summary_tight_memory": timed(lambda: jump_through(tight, workload), len(workload), ROUNDS),
        "tables": timed(lambda: recorded(setup, workload), len(workload), 3),
        "every_pass": timed(lambda: step_through(setup_for(few), OpenLoop(few, few.request)), len(few), 1),
    }
    if args.million:
        made["growth"] = million(whole)
    sys.stdout.write(json.dumps(made, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
