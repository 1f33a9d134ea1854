"""Jumps give the integers of step by step, whatever the workload and configuration; also in every table of the run."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calls import Attention
from engine.config import Config, ConfigError, Key, KvConfig, SchedulerConfig, from_dict, keys
from engine.simulate.clock import Delays
from engine.simulate.cost import KnownTime, LinearCost, Shape, TwoRegimes
from engine.simulate.covered import covers
from engine.simulate.files import VirtualRun
from engine.simulate.front import Outcome
from engine.simulate.jumped import jump_through
from engine.simulate.results import Results
from engine.simulate.running import Decodes, Running
from engine.simulate.series import passes_within, series
from engine.simulate.setup import Setup
from engine.simulate.sources import ClosedLoop, OpenLoop
from engine.simulate.specs import make_workload
from engine.simulate.stepped import step_through
from engine.simulate.workload import ThinkTime, Workload
from recorder.check import check
from recorder.schema import NONE, TABLES
from recorder.tables import open_tables

US = 1_000
MS = 1_000_000


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """What no linear cost has: sizes that suit, and calls of attention."""
    sizes = draw(st.lists(st.integers(0, 900_000_000), max_size=6))
    waste, tile = draw(st.sampled_from([0, 2, 8])), draw(st.sampled_from([0, 5]))
    attention = Attention(draw(st.sampled_from([1, 4, 16])), waste, tile)
    return Shape(tuple(sizes), draw(st.integers(0, 700_000_000)), attention)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """Tight and roomy, chunked and not, on fast and slow devices."""
    seqs = draw(st.integers(1, 8))
    config = Config(
        scheduler=SchedulerConfig(
            max_num_seqs=seqs,
            max_num_batched_tokens=draw(st.integers(seqs, 80)),
            enable_chunked_prefill=draw(st.booleans()),
            long_prefill_token_threshold=draw(st.sampled_from([0, 0, 3, 16])),
        ),
        kv=KvConfig(block_size=draw(st.sampled_from([1, 4, 16])), watermark=draw(st.sampled_from([0.0, 0.01, 0.3]))),
    )
    one, other = (
        LinearCost(*(draw(st.integers(0, top)) for top in (5_000_000_000, 900_000_000, 3_000_007, 90_000_000, 700_001)))
        for _ in range(2)
    )
    costs: list[KnownTime] = [one, TwoRegimes(one, other), TwoRegimes(one, other, draw(shapes()))]
    cost = draw(st.sampled_from(costs))
    delays = Delays(
        ingress_ns=draw(st.integers(0, 3 * MS)),
        plan_ns=draw(st.integers(0, 200 * US)),
        commit_ns=draw(st.integers(1, 200 * US)),
        link_ns=draw(st.integers(0, 2 * MS)),
        write_ns=draw(st.integers(0, 30 * US)),
    )
    blocks = draw(st.integers(10, 40)) * 16 // config.kv.block_size // draw(st.integers(1, 4))
    return Setup(
        config=config,
        cost=cost,
        num_blocks=max(blocks, 2),
        max_model_len=draw(st.integers(60, 200)),
        delays=delays,
        workers=draw(st.sampled_from([1, 1, 2, 3])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Crowds and lone requests; some stop early, some never fit; open loop or closed."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    gap = draw(st.sampled_from([0, 1, 100 * US, 3 * MS, 20 * MS, 300 * MS]))
    arrival = np.cumsum(rng.integers(0, gap + 1, n) * (rng.random(n) < 0.8)).astype(np.int64)
    output = rng.integers(0, draw(st.sampled_from([4, 30, 90])) + 1, n)
    closed = None
    if draw(st.integers(0, 3)) == 0:
        users = draw(st.integers(1, n))
        arrival = arrival[:users]
        closed = ThinkTime(users, rng.integers(0, 5 * MS, n))
    return Workload(
        arrival=arrival,
        prompt_tokens=rng.integers(1, draw(st.sampled_from([3, 40, 120])) + 1, n),
        max_tokens=np.maximum(output + rng.integers(-3, 10, n), 1),
        output_tokens=output,
        tiers=["chat" if x else "batch" for x in rng.integers(0, 2, n)],
        closed=closed,
    )


def step(setup: Setup, workload: Workload, files: VirtualRun | None = None) -> list[Outcome]:
    """The same as `jump_through`, pass by pass."""
    source = (ClosedLoop if workload.closed else OpenLoop)(workload, workload.request)
    return step_through(setup, source, files)


def stamps(outcome: Outcome) -> tuple[int | None, ...]:
    """What jumps have of an outcome."""
    end = outcome.end
    known = (end.queued, end.first_scheduled, end.first_token, end.last_token) if end else (None,) * 4
    again = (end.preemptions, end.recomputed_tokens) if end else (0, 0)
    return (outcome.worker, outcome.arrival.arrival, *known, outcome.returned, *again)


def jumped(results: Results) -> list[tuple[int | None, ...]]:
    """The same of jumps."""
    names = ("worker", "arrival", "queued", "first_scheduled", "first_token", "last_token", "returned")
    columns = [results.column(name).tolist() for name in (*names, "preemptions", "recomputed")]
    return [tuple(None if value == NONE else value for value in row) for row in zip(*columns, strict=True)]


@settings(max_examples=300, deadline=None)
@given(setups(), workloads())
def test_jumps_give_the_stamps_of_step_by_step(setup: Setup, workload: Workload) -> None:
    assert covers(setup)
    expected = [stamps(outcome) for outcome in step(setup, workload)]
    assert jumped(jump_through(setup, workload)) == expected


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    """Every row of a table, in an order that does not depend on how it was written."""
    return sorted(open_tables(run).table(table).to_pylist(), key=lambda row: [str(value) for value in row.values()])


@settings(max_examples=40, deadline=None)
@given(setup=setups(), workload=workloads())
def test_jumps_write_the_tables_of_step_by_step(
    tmp_path_factory: pytest.TempPathFactory, setup: Setup, workload: Workload
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    with VirtualRun(folder / "step", setup, {}) as files:
        step(setup, workload, files)
    with VirtualRun(folder / "jump", setup, {}) as files:
        jump_through(setup, workload, files)
    for table in TABLES:
        assert rows(folder / "jump", table) == rows(folder / "step", table), table
    failed = [(made.name, made.detail) for made in check(open_tables(folder / "jump")) if not made.ok]
    assert failed == []


# -- what is not covered is never jumped over --------------------------------------------------------------------------


def plain(**sections: dict[str, object]) -> Setup:
    """The defaults, but for these keys."""
    return Setup.of(from_dict(sections, "test"), 100)


def other_values(key: Key) -> list[object]:
    """Allowed values of a key that are not its default."""
    if isinstance(key.default, bool):
        return [not key.default]
    words = re.findall(r'"(\w+)"', key.allowed)
    if isinstance(key.default, str):
        return [word for word in words if word != key.default]
    if isinstance(key.default, tuple):
        return [["a"], [1]]
    return [value for value in (1, 2) if value != key.default]


@pytest.mark.parametrize("section", ["scheduler", "kv"])
def test_every_key_that_jumps_do_not_know_is_lived_through(section: str) -> None:
    assert covers(plain())
    heeded = {"block_size", "num_blocks", "memory_mb", "token_bytes", "watermark"}
    heeded |= {"max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "long_prefill_token_threshold"}
    heeded |= {"max_batch_size", "max_queue_delay_ms", "max_queue_delay_microseconds"}
    tried = 0
    for name, key in keys(section).items():
        for value in other_values(key) if name not in heeded else []:
            with suppress(ConfigError):  # not every value goes with every other key
                tried += 1
                assert not covers(plain(**{section: {name: value}})), (name, value)
    assert tried > 0 or section == "kv"


def test_a_cost_that_is_not_linear_is_lived_through() -> None:
    assert not covers(replace(plain(), cost=lambda plan: 5))
    with pytest.raises(TypeError, match="linear"):
        jump_through(replace(plain(), cost=lambda plan: 5), make_workload({"kind": "steady", "rate": 1}, 0))


def test_memory_in_mb_needs_what_a_token_takes_as_there_is_no_model() -> None:
    with pytest.raises(ConfigError, match="token_bytes"):
        plain(kv={"memory_mb": 5})
    assert covers(plain(kv={"memory_mb": 5, "token_bytes": 5}))


# -- the arithmetic ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**16), st.integers(1, 10**11), st.integers(0, 10**9))
def test_a_stretch_ends_with_the_first_pass_that_reaches_the_limit(gap: int, pace: int, slope: int) -> None:
    passes = passes_within(gap, pace, slope)
    assert series(passes, pace, slope) >= gap
    assert passes == 1 or series(passes - 1, pace, slope) < gap


@given(st.integers(1, 17), st.lists(st.integers(0, 60), min_size=1, max_size=9), st.integers(0, 40), st.integers(0, 50))
def test_blocks_of_decodes_are_those_of_a_walk_over_them(
    size: int, computed: list[int], passes: int, free: int
) -> None:
    decodes = Decodes(size)
    for place, tokens in enumerate(computed):
        running = Running(place, tokens, 10_000)
        running.computed, running.order = tokens, place
        decodes.add(running)

    def needed(n: int) -> int:
        return sum(-(-(tokens + n) // size) - -(-tokens // size) for tokens in computed)

    assert decodes.needed(passes) == needed(passes)
    affordable = decodes.affordable(free)
    assert needed(affordable) <= free < needed(affordable + 1)
