"""Virtual time: the seeds' timelines to the nanosecond, and runs that read like recorded ones."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config, Policy, SchedulerConfig
from engine.simulate.clock import Delays, VirtualClock
from engine.simulate.cost import LinearCost, fixed_time
from engine.simulate.front import Arrival, Outcome
from engine.simulate.stepped import VirtualInbox, simulate
from recorder.check import check
from recorder.run import RunError, load_info, run_state
from recorder.tables import open_tables
from recorder.words import Status
from tests.engine.runs import make_demo_run, mixed_arrivals

MS = 1_000_000
NOTHING = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0)
POLICIES: list[Policy] = ["immediate", "static", "continuous"]


def batches(*arrivals_ms: int, execution_ms: int = 100, limit: int = 4, wait_ms: float = 10) -> list[Outcome]:
    """One worker that runs batches of fixed time: each request is one step long."""
    config = Config(
        scheduler=SchedulerConfig(policy="static", max_batch_size=limit, max_queue_delay_ms=wait_ms),
    )
    arrivals = [Arrival(arrival=t * MS, prompt_tokens=1, max_tokens=1) for t in arrivals_ms]
    cost = fixed_time(execution_ms * MS)
    return simulate(config, arrivals, cost, num_blocks=100, max_model_len=100, delays=NOTHING)


def times_ms(outcomes: list[Outcome]) -> list[tuple[float, float]]:
    """When each started and when it was returned."""
    return [((o.end.first_scheduled or 0) / MS, (o.returned or 0) / MS) for o in outcomes if o.end]


# -- SPEC A3 -----------------------------------------------------------------------------------------------------------


def test_a_half_full_batch_leaves_when_its_oldest_has_waited_enough() -> None:
    """SPEC A3: A at 0 and B at 7 run together at 10 and finish at 110: 110 and 103 ms."""
    outcomes = batches(0, 7)
    assert times_ms(outcomes) == [(10, 110), (10, 110)]
    assert [((o.returned or 0) - o.arrival.arrival) / MS for o in outcomes] == [110, 103]


def test_a_full_batch_leaves_at_once() -> None:
    """SPEC A3: four arrivals at 0 run at 0 and finish at 100."""
    assert times_ms(batches(0, 0, 0, 0)) == [(0, 100)] * 4


def test_a_busy_worker_takes_what_has_waited_enough_when_it_frees() -> None:
    """SPEC A3: worker busy from 0, E at 1 ms starts at 100 and finishes at 200: 99 ms waited."""
    outcomes = batches(0, 0, 0, 0, 1)
    assert times_ms(outcomes)[4] == (100, 200)


def test_the_timer_is_not_restarted_while_the_worker_is_busy() -> None:
    """SPEC A2: at 100 ms the one from 95 has waited 5 ms of its 10, so its batch leaves at 105, not at 110."""
    assert times_ms(batches(0, 0, 0, 0, 95, 104))[4:] == [(105, 205), (105, 205)]


def test_capacity_is_batches_a_second_times_their_size() -> None:
    """SPEC A5: 10 batches a second, 320 requests a second at 32 a batch; more than that queues up."""
    outcomes = batches(*[n * 1000 // 400 for n in range(800)], limit=16)
    finished = [returned for _, returned in times_ms(outcomes)]
    assert sum(t <= 2000 for t in finished) == 5 + 18 * 16, "the first leaves at 10 ms with 5, all others are full"


# -- the pieces --------------------------------------------------------------------------------------------------------


def test_the_clock_never_goes_back() -> None:
    clock = VirtualClock(5)
    clock.charge(3)
    clock.wait_until(2)
    assert clock.now() == 8
    clock.wait_until(20)
    assert clock.now() == 20


def test_waiting_for_nothing_is_an_error() -> None:
    inbox = VirtualInbox(VirtualClock(), [])
    assert len(inbox.poll()) == 1, "the drain"
    with pytest.raises(RuntimeError, match="nothing will ever come"):
        inbox.wait(None)


def test_no_arrivals_no_outcomes() -> None:
    assert simulate(Config(), [], LinearCost(), num_blocks=10, max_model_len=100) == []


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for policy in POLICIES:
        make_demo_run(folder / policy, policy)
    return {policy: folder / policy for policy in POLICIES}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_sealed_whole_and_virtual(runs: dict[str, Path], policy: str) -> None:
    tables, info = open_tables(runs[policy]), load_info(runs[policy])
    assert run_state(runs[policy]) == "sealed"
    assert tables.damages == []
    assert info.clock.kind == "virtual"
    assert info.config["scheduler"]["policy"] == policy
    requests = tables.table("requests").to_pylist()
    assert [row["rid"] for row in requests] == list(range(1, 61))
    assert {row["status"] for row in requests} <= {"ok", "rejected", "cancelled"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_passes_every_check(runs: dict[str, Path], policy: str) -> None:
    failed = [(made.name, made.detail) for made in check(open_tables(runs[policy])) if not made.ok]
    assert failed == []


@pytest.mark.parametrize("policy", POLICIES)
def test_spans_tile_each_request_from_arrival_to_return(runs: dict[str, Path], policy: str) -> None:
    tables = open_tables(runs[policy])
    spans: dict[int, list[tuple[int, int]]] = {}
    for span in tables.table("spans").to_pylist():
        spans.setdefault(span["rid"], []).append((span["start"], span["end"]))
    finished = [row for row in tables.table("requests").to_pylist() if row["status"] == "ok"]
    assert len(finished) > 20
    for row in finished:
        own = sorted(spans[row["rid"]])
        assert (own[0][0], own[-1][1]) == (row["arrival"], row["returned"])
        assert all(before[1] == after[0] for before, after in pairwise(own))


@pytest.mark.parametrize("policy", POLICIES)
def test_blocks_add_up_at_every_step(runs: dict[str, Path], policy: str) -> None:
    """kv_free + held == kv_total, held being what slices took and events gave back."""
    tables = open_tables(runs[policy])
    taken: dict[int, int] = {}
    for row in tables.table("slices").to_pylist():
        taken[row["step"]] = taken.get(row["step"], 0) + row["new_blocks"]
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for event in tables.table("events").to_pylist():
        freed = after if event["kind"] == "finished" else before
        freed[event["step"]] = freed.get(event["step"], 0) + event["freed_blocks"]
    held = 0
    for step in tables.table("steps").to_pylist():
        number = step["step"]
        held += taken.get(number, 0) - before.get(number, 0)
        assert step["kv_free"] + held == step["kv_total"]
        held -= after.get(number, 0)
    assert held == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_slices_add_up_to_their_steps(runs: dict[str, Path], policy: str) -> None:
    tables = open_tables(runs[policy])
    sums: dict[int, list[int]] = {}
    for row in tables.table("slices").to_pylist():
        totals = sums.setdefault(row["step"], [0, 0, 0, 0, 0])
        if row["role"] == "decode":
            totals[3] += 1
            totals[4] += row["computed_before"]
        else:
            totals[0] += 1
            totals[1] += row["tokens"]
            totals[2] += row["computed_before"]
    for step in tables.table("steps").to_pylist():
        names = [
            "num_prefill_requests",
            "sum_prefill_tokens",
            "sum_prefill_kv_tokens",
            "num_decode_requests",
            "sum_decode_kv_tokens",
        ]
        assert [step[name] for name in names] == sums.get(step["step"], [0] * 5)


def test_the_demo_run_has_something_of_everything(runs: dict[str, Path]) -> None:
    tables = open_tables(runs["continuous"])
    assert {row["status"] for row in tables.table("requests").to_pylist()} >= {"ok", "rejected"}
    assert {row["kind"] for row in tables.table("steps").to_pylist()} == {"idle", "prefill", "decode", "mixed"}
    kinds = {row["kind"] for row in tables.table("events").to_pylist()}
    assert kinds >= {"queued", "scheduled", "first_token", "finished", "rejected", "preempted", "resumed"}
    known = [row for row in tables.table("steps").to_pylist() if row["predicted_ns"] is not None]
    assert len(known) > tables.table("steps").num_rows / 2


def test_a_request_is_recorded_with_the_state_it_came_into(tmp_path: Path) -> None:
    arrivals = [Arrival(arrival=t * MS, prompt_tokens=20, max_tokens=5) for t in (0, 150, 199, 450)]
    config = Config(scheduler=SchedulerConfig(policy="immediate"))
    delays = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=3 * MS, write_ns=0)
    cost = fixed_time(100 * MS)
    simulate(config, arrivals, cost, num_blocks=100, max_model_len=100, delays=delays, run=tmp_path / "run")
    seen = [
        (row["queue_depth"], row["queued_tokens"], row["running"], row["kv_used"])
        for row in open_tables(tmp_path / "run").table("requests").to_pylist()
    ]
    assert seen == [(0, 0, 0, 0), (0, 0, 1, 2), (0, 0, 1, 2), (2, 40, 1, 2)]


def test_a_run_does_not_overwrite_another(runs: dict[str, Path]) -> None:
    with pytest.raises(RunError, match="exists already"):
        make_demo_run(runs["static"])


def test_every_policy_serves_the_same_requests(runs: dict[str, Path]) -> None:
    asked = [
        [(row["request_id"], row["arrival"], row["prompt_tokens"]) for row in table.to_pylist()]
        for table in (open_tables(run).table("requests") for run in runs.values())
    ]
    assert asked[0] == asked[1] == asked[2]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(0, 10_000))
def test_every_request_comes_to_its_end(policy: Policy, seed: int) -> None:
    config = Config(scheduler=SchedulerConfig(policy=policy, max_num_seqs=4))
    arrivals = mixed_arrivals(seed, 20, rate_per_s=5, cancelled=0.3)
    outcomes = simulate(config, arrivals, LinearCost(), num_blocks=70, max_model_len=2048)
    for outcome in outcomes:
        assert outcome.status in (Status.OK, Status.REJECTED, Status.CANCELLED)
        if outcome.status is Status.OK:
            assert outcome.end is not None
            assert outcome.end.output_tokens == outcome.arrival.output_tokens
            assert outcome.returned is not None
        if outcome.status is Status.CANCELLED:
            assert outcome.arrival.cancel_at is not None
