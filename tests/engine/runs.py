"""Synthetic runs for tests and for building screens: the real scheduler and ledger on a virtual clock."""

import random
from pathlib import Path

from engine.config import Config, Policy, SchedulerConfig
from engine.core import StepPlan
from engine.simulate.cost import LinearCost
from engine.simulate.front import Arrival, Outcome
from engine.simulate.stepped import simulate

MS = 1_000_000


def mixed_arrivals(seed: int, n: int, rate_per_s: float = 3.5, cancelled: float = 0.05) -> list[Arrival]:
    """Long prompts among short chats, Poisson arrivals; a few clients go away, and one request can never fit."""
    choose = random.Random(seed)
    t, arrivals = 0, []
    for number in range(n):
        t += round(choose.expovariate(rate_per_s) * 1e9)
        long = choose.random() < 0.2
        prompt = choose.randint(300, 900) if long else choose.randint(8, 60)
        output = choose.randint(4, 24) if long else choose.randint(8, 64)
        if number == n // 2:
            prompt = 100_000
        leaves = choose.random() < cancelled
        arrivals.append(
            Arrival(
                arrival=t,
                prompt_tokens=prompt,
                max_tokens=output + choose.choice([0, 0, 16]),
                output_tokens=output,
                request_id=f"w-{number + 1:04d}",
                tier="batch" if long else "chat",
                tenant=choose.choice(["ada", "bob", "cy"]),
                cancel_at=t + choose.randint(10, 4000) * MS if leaves else None,
            )
        )
    return arrivals


def make_demo_run(
    path: Path, policy: Policy = "continuous", seed: int = 0, n: int = 60, num_blocks: int = 80
) -> list[Outcome]:
    """Write the run folder `path` (must not exist). The same seed and n give the same arrivals under every policy.

    80 blocks of 16 tokens are tight enough that the continuous policy preempts; steps are noisy, now and then one
    stalls.
    """
    config = Config(scheduler=SchedulerConfig(policy=policy, max_batch_size=4, max_queue_delay_ms=200.0))
    cost, noise = LinearCost(), random.Random(seed + 1)

    def noisy(plan: StepPlan) -> int:
        stall = 250 * MS if noise.random() < 0.002 else 0
        return round(cost(plan) * noise.uniform(0.95, 1.1)) + stall

    arrivals = mixed_arrivals(seed, n)
    return simulate(config, arrivals, noisy, num_blocks=num_blocks, max_model_len=2048, run=path)
