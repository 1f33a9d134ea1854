"""Who is refused because others are there, and when it should come again (SPEC A3, A6, B1, C7)."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config, SchedulerConfig
from engine.scheduling.rate import RateLimits
from engine.simulate.clock import Delays
from engine.simulate.cost import KnownCost, LinearCost, fixed_time
from engine.simulate.front import Arrival, Outcome
from engine.simulate.stepped import simulate
from recorder.check import check
from recorder.tables import open_tables
from recorder.words import EventKind, Status
from tests.engine.driving import Driver

MS = 1_000_000
NOTHING = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0)


def batches(arrivals: list[Arrival], run: Path | None = None, **scheduler: Any) -> list[Outcome]:  # noqa: ANN401
    """Batches of 4 that take 100 ms."""
    config = Config(scheduler=SchedulerConfig(policy="dynamic", max_batch_size=4, **scheduler))
    cost = fixed_time(100 * MS)
    return simulate(config, arrivals, cost, num_blocks=100, max_model_len=100, delays=NOTHING, run=run)


def one(t_ms: float, deadline_ms: float | None = None, **more: Any) -> Arrival:  # noqa: ANN401
    deadline = None if deadline_ms is None else round(deadline_ms * MS)
    return Arrival(arrival=round(t_ms * MS), prompt_tokens=1, max_tokens=1, deadline=deadline, **more)


def test_who_cannot_meet_its_deadline_is_refused_and_told_by_how_much(tmp_path: Path) -> None:
    """SPEC A3, B1: the worker is busy from 0 to 100; E, due at 150, would be finished at 200, 50 ms late."""
    outcomes = batches([one(0)] * 4 + [one(1, 150)], tmp_path / "run", deadline_admission=True)
    refused = outcomes[4]
    assert (refused.status, refused.http_status, refused.retry_after_ms) == (Status.REJECTED, 429, None)
    assert "50.0 ms after its deadline, even if nobody else were here" in refused.reason
    tables = open_tables(tmp_path / "run")
    assert [made for made in check(tables) if not made.ok] == []
    event = next(row for row in tables.table("events").to_pylist() if row["kind"] == EventKind.REJECTED)
    assert (event["rid"], event["reason"]) == (5, "DEADLINE")


def test_whoever_comes_after_the_given_wait_is_taken_and_in_time() -> None:
    """SPEC B1: the exact instant. Four wait already for the next batch, so a fifth of 150 ms is 150 ms too late."""
    crowd = [one(0)] * 4 + [one(0.5)] * 4
    first = batches([*crowd, one(1, 260)], deadline_admission=True)[8]
    assert (first.status, first.http_status, first.retry_after_ms) == (Status.REJECTED, 429, 40)
    again = batches([*crowd, one(101 + 40, 141 + 260)], deadline_admission=True)[8]
    assert again.status is Status.OK
    assert again.end
    assert (again.end.last_token or 0) <= (141 + 260) * MS


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 600)), min_size=1, max_size=40), st.integers(1, 4))
def test_of_those_let_in_none_is_late(script: list[tuple[int, int]], size: int) -> None:
    """SPEC B1, with a fixed execution time: what was admitted meets its deadline, whatever comes after it."""
    t, arrivals = 0, []
    for gap, due in script:
        t += gap
        arrivals.append(one(t, t + due))
    outcomes = (
        batches(arrivals, deadline_admission=True, max_queue_delay_microseconds=0)
        if size == 4
        else simulate(
            Config(
                scheduler=SchedulerConfig(
                    policy="static", max_batch_size=size, max_queue_delay_microseconds=0, deadline_admission=True
                )
            ),
            arrivals,
            fixed_time(100 * MS),
            num_blocks=100,
            max_model_len=100,
            delays=NOTHING,
        )
    )
    for outcome in outcomes:
        assert outcome.status in {Status.OK, Status.REJECTED}
        if outcome.status is Status.OK:
            assert outcome.end
            assert (outcome.end.last_token or 0) <= (outcome.arrival.deadline or 0)


def test_a_full_queue_refuses_by_count_and_by_memory() -> None:
    """SPEC A6."""
    drive = Driver(Config(scheduler=SchedulerConfig(max_num_seqs=1, max_queue_size=2)), 100)
    assert [drive.add(rid, 8, 5) for rid in (1, 2, 3)] == [True, True, False]
    assert "2 requests are waiting" in drive.refused[3]
    drive = Driver(Config(scheduler=SchedulerConfig(max_num_seqs=1, max_queue_tokens=20)), 100)
    assert [drive.add(rid, prompt, 5) for rid, prompt in ((1, 99), (2, 1), (3, 1))] == [True, False, False]
    drive.tick()
    assert [drive.add(rid, 15, 5) for rid in (4, 5)] == [True, False]


def test_the_first_level_has_what_is_reserved_for_it() -> None:
    """SPEC C7: free first."""
    config = SchedulerConfig(max_num_seqs=1, max_queue_size=4, reserved_share=0.5, tiers=("paid", "free"))
    drive = Driver(Config(scheduler=config), 100)
    tiers = ["free", "free", "free", "paid", "paid", "paid"]
    taken = [drive.add(rid, 8, 5, tier=tier) for rid, tier in enumerate(tiers, 1)]
    assert taken == [True, True, False, True, True, False]


@pytest.mark.parametrize(("tier", "status"), [("paid", Status.OK), ("free", Status.REJECTED)])
def test_beyond_the_wait_to_expect_nobody_is_taken_the_free_first(tier: str, status: Status) -> None:
    """SPEC C7: queued tokens over recent throughput. About 2 s of prompts wait; of 3 s, half is reserved."""
    config = Config(
        scheduler=SchedulerConfig(
            max_num_seqs=2, max_estimated_wait_ms=3_000, reserved_share=0.5, tiers=("paid", "free")
        )
    )
    cost = LinearCost(step=1_000_000_000, decode=0, decode_kv=0, prefill=1_000_000_000, prefill_pair=0)
    crowd = [Arrival(arrival=0, prompt_tokens=500, max_tokens=4, tier="paid") for _ in range(6)]
    late = Arrival(arrival=1_000 * MS, prompt_tokens=5, max_tokens=1, tier=tier)
    outcome = simulate(config, [*crowd, late], cost, num_blocks=1000, max_model_len=1000)[6]
    assert outcome.status is status
    if status is Status.REJECTED:
        assert outcome.http_status == 529
        assert 100 < (outcome.retry_after_ms or 0) < 1_500


def test_what_is_not_known_yet_refuses_nobody() -> None:
    config = SchedulerConfig(max_num_seqs=1, deadline_admission=True, max_estimated_wait_ms=1)
    drive = Driver(Config(scheduler=config), 100)
    assert drive.add(1, 8, 5, deadline=1)
    drive = Driver(Config(scheduler=config), 100, predictor=KnownCost(LinearCost()))
    assert not drive.add(1, 8, 5, deadline=1)


# -- token rates -------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 200),
    st.sampled_from([1e-9, 1e-6, 0.013]),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 300), st.integers(0, 300)), max_size=40),
)
def test_no_tenant_uses_more_than_its_rate_and_the_wait_told_is_enough(
    burst: int, rate: float, script: list[tuple[int, int, int]]
) -> None:
    """SPEC C8: whatever is asked, used tokens stay within burst, rate x time, and the one charge beyond the burst."""
    limits, now, used = RateLimits(burst), 0, 0
    for gap, tokens, unused in script:
        now += gap
        wait = limits.charge("ada", tokens, now, rate)
        if wait:
            assert limits.charge("ada", tokens, now, rate) > 0, "a refusal charges nothing"
            now += wait
            assert limits.charge("ada", tokens, now, rate) == 0
        used += tokens - min(unused, tokens)
        limits.refund("ada", min(unused, tokens))
        assert used <= burst + rate * now + max(tokens, burst) + 1
    assert limits.charge("cy", burst, now, rate) == 0, "each tenant has an account of its own"


def test_what_was_not_used_is_given_back() -> None:
    """SPEC C8: 8 + 90 are charged and 8 + 2 used, so there is room for another of the same, and not for a third."""
    config = SchedulerConfig(tenant_tokens_per_s=0.001, tenant_burst_tokens=110)
    drive = Driver(Config(scheduler=config), 100, {1: 2, 2: 90})
    assert drive.add(1, 8, 90, tenant="ada")
    assert not drive.add(9, 8, 90, tenant="ada")
    assert drive.add(3, 8, 90, tenant="bob")
    drive.run()
    assert drive.add(2, 8, 90, tenant="ada")
    drive.run()
    assert not drive.add(4, 8, 90, tenant="ada")
    assert "98 tokens" in drive.refused[4]


def test_a_rate_may_be_a_share_of_what_the_worker_can_do(tmp_path: Path) -> None:
    """SPEC C8: 10 tokens in 100 ms are measured, a tenth is 1. Of 20, 9 and then 0 are left; 2 of 11 came since."""
    config = Config(
        scheduler=SchedulerConfig(tenant_capacity_share=0.1, tenant_burst_tokens=20, max_num_batched_tokens=16)
    )
    asked = [
        Arrival(arrival=t * MS, prompt_tokens=10, max_tokens=1, tenant=tenant)
        for t, tenant in ((0, "bob"), (200, "ada"), (400, "ada"), (600, "ada"))
    ]
    outcomes = simulate(
        config, asked, fixed_time(100 * MS), num_blocks=100, max_model_len=100, delays=NOTHING, run=tmp_path / "run"
    )
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 3 + [Status.REJECTED]
    assert (outcomes[3].http_status, outcomes[3].retry_after_ms) == (429, 901)
    events = open_tables(tmp_path / "run").table("events").to_pylist()
    assert "RATE_LIMIT" in {row["reason"] for row in events if row["kind"] == EventKind.REJECTED}
