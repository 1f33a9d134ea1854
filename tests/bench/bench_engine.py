"""The engine under load: tokens/s and p99 TTFT at concurrency 1 and 16, what recording costs, and the host's share.

`python -m tests.bench.bench_engine [--repeats N] [--concurrency 1 16]` serves the real model by `tailtrace serve`,
recording on and off in turn (128 tokens in, 32 out, closed loop, as vLLM's own benchmark does), and prints one JSON
object of medians. `recording_ratio` is tokens/s with recording over tokens/s without, pair by pair.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp

from console.session import Session
from tests.bench.serving import serving

PROMPT_TOKENS = 128
OUTPUT_TOKENS = 32
VLLM_CPU_TOKENS_PER_S = {1: 11, 16: 68}
"""vLLM 0.32 on CPU, same model, lengths and class of machine: an anchor, measured in another run."""


async def load(url: str, concurrency: int, requests: int) -> dict[str, float]:
    """Tokens/s and p99 TTFT of `requests` requests, at most `concurrency` of them at once."""
    dice = random.Random(concurrency)
    prompts = [[dice.randrange(100, 40_000) for _ in range(PROMPT_TOKENS)] for _ in range(requests)]
    first_after: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        began = time.perf_counter()

        async def client() -> None:
            while prompts:
                first_after.append(await _one(session, url, prompts.pop()))

        await asyncio.gather(*(client() for _ in range(concurrency)))
    took = time.perf_counter() - began
    ttft_p99 = sorted(first_after)[max(0, -(-99 * len(first_after) // 100) - 1)]
    return {"tokens_per_s": requests * OUTPUT_TOKENS / took, "ttft_p99_ms": ttft_p99 * 1e3}


async def _one(session: aiohttp.ClientSession, url: str, prompt: list[int]) -> float:
    """Send one request, read it to its end; seconds to the first token."""
    body = {"prompt": prompt, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True, "stream": True, "temperature": 0}
    began = time.perf_counter()
    first = 0.0
    async with session.post(f"{url}/v1/completions", json=body | {"model": "smollm2-135m"}) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data:") and not first:
                first = time.perf_counter() - began
    return first


def host_share(run: Path) -> float:
    """Share of the time of computing steps in which the worker neither ran nor waited for the model."""
    with Session(run) as session:
        row = session.connect().execute(
            "SELECT sum((t_exec - t_sched) + (t_end - t_done)) / sum(t_end - t_sched) FROM steps WHERE kind <> 'idle'"
        )
        (share,) = row.fetchone() or (0.0,)
        return float(share)


def measure(concurrencies: list[int], *, record: bool) -> dict[str, dict[str, float]]:
    """One fresh engine through every concurrency; with recording also the host's share of its last run."""
    found: dict[str, dict[str, float]] = {}
    for concurrency in concurrencies:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with serving(folder, f"[record]\nenabled = {str(record).lower()}\n") as url:
                asyncio.run(load(url, concurrency, concurrency))
                found[str(concurrency)] = asyncio.run(load(url, concurrency, max(6, 3 * concurrency)))
            if record:
                (run,) = (folder / "runs").iterdir()
                found[str(concurrency)]["host_share"] = host_share(run)
    return found


def main() -> None:
    """Alternate recording on and off, so that whatever else the machine does hits both alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16])
    args = parser.parse_args()
    pairs = [
        (measure(args.concurrency, record=True), measure(args.concurrency, record=False)) for _ in range(args.repeats)
    ]
    print(json.dumps({str(level): summary(level, pairs) for level in args.concurrency}, indent=2))


def summary(
    level: int, pairs: list[tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]]
) -> dict[str, float]:
    """Medians over the repeats at one concurrency."""
    on = [pair[0][str(level)] for pair in pairs]
    ratios = [pair[0][str(level)]["tokens_per_s"] / pair[1][str(level)]["tokens_per_s"] for pair in pairs]
    medians = {key: round(statistics.median(run[key] for run in on), 4) for key in on[0]}
    vllm = VLLM_CPU_TOKENS_PER_S.get(level)
    beside = {"over_vllm_cpu_anchor": round(medians["tokens_per_s"] / vllm, 2)} if vllm else {}
    return medians | {"recording_ratio": round(statistics.median(ratios), 4)} | beside


if __name__ == "__main__":
    main()
