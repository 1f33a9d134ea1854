"""Chunks of prompts by what the decodes beside them can bear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Config, SchedulerConfig
from engine.core import Slice
from engine.scheduling.forecast import Forecast
from engine.scheduling.slack import prefill_tokens
from engine.scheduling.step_time import StepTimeModel
from engine.simulate.cost import KnownCost, LinearCost
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from recorder.words import Reason, Role
from tests.engine.driving import Driver

MS = 1_000_000
COST = LinearCost(step=10_000_000_000, decode=1_000_000_000, decode_kv=0, prefill=500_000_000, prefill_pair=1_000_000)
"""10 ms a step, 1 ms a decode, half a ms a prompt token and a little for its context."""


def decodes(count: int) -> list[Slice]:
    return [Slice(rid, Role.DECODE, 1, 20, ()) for rid in range(1, count + 1)]


@given(st.integers(1, 10), st.integers(-50, 500), st.integers(0, 300), st.integers(0, 500), st.integers(1, 40))
def test_the_chunk_is_the_largest_that_no_decode_waits_for(
    count: int, left_ms: int, room: int, context: int, least: int
) -> None:
    config = SchedulerConfig(tpot_slo_ms=50, min_prefill_tokens=least)
    forecast = Forecast(KnownCost(COST), 256)
    beside = decodes(count)
    tokens = prefill_tokens(config, forecast, beside, left_ns=left_ms * MS, room=room, context=context)

    def in_time(chunk: int) -> bool:
        takes = forecast.pass_ns([*beside, Slice(0, Role.PREFILL, chunk, context, ())])
        assert takes is not None
        return 1.2 * takes <= left_ms * MS

    assert min(least, room) <= tokens <= room
    assert tokens == min(least, room) or in_time(tokens)
    assert tokens == room or not in_time(tokens + 1)


def test_what_cannot_be_predicted_does_not_bind() -> None:
    config = SchedulerConfig(tpot_slo_ms=50)
    assert prefill_tokens(config, Forecast(StepTimeModel(), 256), decodes(2), left_ns=0, room=99, context=0) == 99


def test_a_prompt_beside_a_decode_is_cut_and_the_ledger_says_why() -> None:
    config = Config(scheduler=SchedulerConfig(tpot_slo_ms=0.0002, min_prefill_tokens=2))
    drive = Driver(config, 100, predictor=KnownCost(LinearCost(50_000, 0, 0, 1_000, 0)))
    drive.add(1, 8, 9)
    drive.tick()
    drive.add(2, 200, 2)
    drive.add(3, 9, 2)
    plan = drive.tick()
    # Its second token is due 200 ns after its first: 1.2 * (50 + tokens + 3 of host) <= 200.
    assert [(part.rid, part.tokens) for part in plan.slices] == [(1, 1), (2, 113)]
    assert plan.head is not None
    assert (plan.head.rid, plan.head.reason) == (3, Reason.DECODE_SLACK)


def test_without_decodes_a_prompt_takes_the_whole_step() -> None:
    config = Config(scheduler=SchedulerConfig(tpot_slo_ms=0.0001))
    drive = Driver(config, 100, predictor=KnownCost(COST))
    drive.add(1, 500, 2)
    assert drive.tick().slices[0].tokens == 256


@pytest.mark.parametrize(("tpot_slo_ms", "kept"), [(0.0, False), (60.0, True)])
def test_a_long_prompt_no_longer_stops_those_that_talk(tpot_slo_ms: float, kept: bool) -> None:
    """Four talk at 60 ms a token; then one with 3,000 tokens comes. Its chunks fit in between, or they wait."""
    config = Config(scheduler=SchedulerConfig(tpot_slo_ms=tpot_slo_ms, min_prefill_tokens=4))
    talk = [Arrival(arrival=0, prompt_tokens=10, max_tokens=100) for _ in range(4)]
    long = Arrival(arrival=100 * MS, prompt_tokens=3_000, max_tokens=2)
    outcomes = simulate(config, [*talk, long], COST, num_blocks=1000, max_model_len=4000)
    ends = [outcome.end for outcome in outcomes if outcome.end]
    paces = [((end.last_token or 0) - (end.first_token or 0)) / (end.output_tokens - 1) / MS for end in ends[:4]]
    assert all(pace <= 60 for pace in paces) == kept, paces
    assert ends[4].output_tokens == 2
