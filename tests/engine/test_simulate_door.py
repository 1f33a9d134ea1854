"""The gate in virtual time: the seeds' instants, promises that are kept, clients that come again (SPEC A3, A8, B1)."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.cli import main
from engine.config import Config, ConfigError, KvConfig, SchedulerConfig, from_dict
from engine.load.retry import Retrying
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost, fixed_time
from engine.simulate.front import Arrival, Outcome
from engine.simulate.run import prepare, record_workload
from engine.simulate.setup import Setup
from engine.simulate.stepped import simulate
from recorder.check import check
from recorder.tables import open_tables
from recorder.words import EventKind, Status

MS = 1_000_000
NOTHING = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0)


def batches(arrivals: list[Arrival], run: Path | None = None, **scheduler: Any) -> list[Outcome]:  # noqa: ANN401
    """Batches of at most 4 that take 100 ms."""
    asked = {"policy": "dynamic", "max_batch_size": 4, **scheduler}
    config, cost = Config(scheduler=SchedulerConfig(**asked)), fixed_time(100 * MS)
    return simulate(config, arrivals, cost, num_blocks=100, max_model_len=100, delays=NOTHING, run=run)


def one(t_ms: float, deadline_ms: float | None = None, **more: Any) -> Arrival:  # noqa: ANN401
    deadline = None if deadline_ms is None else round(deadline_ms * MS)
    return Arrival(**{"arrival": round(t_ms * MS), "prompt_tokens": 1, "max_tokens": 1, "deadline": deadline, **more})


# -- at arrival --------------------------------------------------------------------------------------------------------


def test_a3_e_is_known_at_arrival_to_be_unable_to_meet_its_deadline(tmp_path: Path) -> None:
    """SPEC A3: worker busy from 0 to 100 ms, E at 1 ms, due at 150 ms: refused at 1 ms, not when the worker frees."""
    refused = batches([one(0)] * 4 + [one(1, 150)], tmp_path / "run", deadline_admission=True)[4]
    assert (refused.status, refused.returned, refused.http_status) == (Status.REJECTED, 1 * MS, 429)
    tables = open_tables(tmp_path / "run")
    assert [made for made in check(tables) if not made.ok] == []
    (event,) = [row for row in tables.table("events").to_pylist() if row["kind"] == EventKind.REJECTED]
    assert (event["t"], event["rid"], event["reason"], event["step"]) == (1 * MS, 5, "DEADLINE", None)
    row = tables.table("requests").to_pylist()[4]
    told = ("status", "http_status", "retry_after_ms", "reason", "deadline", "admitted", "queued", "returned")
    words = "it would be finished 50.0 ms after its deadline"
    assert [row[name] for name in told] == ["rejected", 429, 50, words, 150 * MS, None, None, 1 * MS]


def test_a3_without_a_deadline_e_waits_99_ms() -> None:
    """SPEC A3: the same E is served from 100 to 200 ms; due at 200 ms it is in time."""
    for due in (None, 200):
        served = batches([one(0)] * 4 + [one(1, due)], deadline_admission=True)[4]
        assert served.end
        assert (served.end.first_scheduled, served.returned) == (100 * MS, 200 * MS)


def test_whoever_comes_after_the_given_wait_is_taken_and_in_time() -> None:
    """SPEC B1: the exact instant. Four wait already for the next batch, so who is due at 260 would be 40 ms late."""
    crowd = [one(0)] * 4 + [one(0.5)] * 4
    first = batches([*crowd, one(1, 260)], deadline_admission=True)[8]
    assert (first.status, first.http_status, first.retry_after_ms) == (Status.REJECTED, 429, 40)
    again = batches([*crowd, one(41, 300)], deadline_admission=True)[8]
    assert (again.status, again.returned) == (Status.OK, 300 * MS)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 600)), min_size=1, max_size=40),
    st.integers(1, 4),
    st.sampled_from(["static", "dynamic"]),
    st.sampled_from([0, 0, 30]),
)
def test_of_those_let_in_none_is_late(script: list[tuple[int, int]], size: int, policy: str, delay_ms: int) -> None:
    """SPEC B1, with a fixed execution time: what was admitted meets its deadline, whatever comes after it."""
    t, arrivals = 0, []
    for gap, due in script:
        t += gap
        arrivals.append(one(t, t + due))
    terms: dict[str, Any] = {"policy": policy, "max_batch_size": size, "max_queue_delay_ms": delay_ms}
    for outcome in batches(arrivals, deadline_admission=True, **terms):
        assert outcome.status in {Status.OK, Status.REJECTED}
        if outcome.status is Status.OK:
            assert (outcome.returned or 0) <= (outcome.arrival.deadline or 0)
        else:
            assert outcome.returned == outcome.arrival.arrival


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 250), st.integers(0, 2_000), st.integers(1, 40), st.integers(1, 6)), max_size=30),
    st.integers(1, 3),
    st.sampled_from(["continuous", "continuous", "immediate", "static"]),
    st.sampled_from([0, 16]),
)
def test_of_those_let_in_none_is_late_where_outputs_are_long(
    script: list[tuple[int, int, int, int]], places: int, policy: str, threshold: int
) -> None:
    """SPEC B1, the same of several passes each, also of prompts that take several."""
    t, arrivals = 0, []
    for gap, due, prompt, most in script:
        t += gap
        arrivals.append(one(t, t + due, prompt_tokens=prompt, max_tokens=most))
    terms: dict[str, Any] = {"policy": policy, "max_num_seqs": places, "max_batch_size": 0, "max_queue_delay_ms": 0}
    for outcome in batches(arrivals, **terms, deadline_admission=True, long_prefill_token_threshold=threshold):
        if outcome.status is not Status.REJECTED:
            assert outcome.status is Status.OK
            assert (outcome.returned or 0) <= (outcome.arrival.deadline or 0)


@st.composite
def crowds(draw: st.DrawFn) -> list[Arrival]:
    """Requests of several passes, one after the other."""
    t, arrivals = 0, []
    for _ in range(draw(st.integers(2, 14))):
        t += draw(st.integers(0, 150))
        arrivals.append(one(t, prompt_tokens=draw(st.integers(1, 20)), max_tokens=draw(st.integers(1, 6))))
    return arrivals


@settings(max_examples=150, deadline=None)
@given(
    crowds(),
    st.integers(1, 3),
    st.sampled_from(
        [{"max_queue_size": 2}, {"max_queue_tokens": 25}, {"max_queue_memory_mb": 1}, {"policy": "static"}]
    ),
)
def test_where_nobody_else_comes_there_is_room_after_the_given_wait(
    arrivals: list[Arrival], places: int, limit: dict[str, Any]
) -> None:
    """SPEC B1, A6: whoever is refused for a full queue is taken after exactly the wait it was told."""
    scheduler = SchedulerConfig(**{"max_queue_size": 2, **limit, "max_num_seqs": places})
    config = Config(scheduler=scheduler, kv=KvConfig(token_bytes=2**15))

    def serve(some: list[Arrival]) -> list[Outcome]:
        cost = fixed_time(100 * MS)
        return simulate(config, some, cost, num_blocks=1000, max_model_len=100, delays=NOTHING)

    refused = next((o for o in serve(arrivals) if o.status is Status.REJECTED), None)
    if refused is None:
        return
    so_far = [arrival for arrival in arrivals if arrival.arrival <= refused.arrival.arrival]
    so_far = so_far[: refused.rid]
    wait_ns = (refused.retry_after_ms or 0) * MS
    again = one((refused.arrival.arrival + wait_ns) / MS, prompt_tokens=refused.arrival.prompt_tokens)
    assert serve([*so_far, again])[-1].status is Status.OK


def test_a_rate_is_measured_and_kept_in_virtual_time() -> None:
    """SPEC C8: 10 tokens in 100 ms are measured, a tenth is 1. Of 20, 9 and then 0 are left; 2 of 11 came since.

    What a pass took is told with the next one: who comes at 200 is not charged yet.
    """
    config = Config(
        scheduler=SchedulerConfig(tenant_capacity_share=0.1, tenant_burst_tokens=20, max_num_batched_tokens=16)
    )
    asked = [
        one(t, prompt_tokens=10, tenant=tenant)
        for t, tenant in ((0, "bob"), (200, "ada"), (400, "ada"), (600, "ada"), (800, "ada"))
    ]
    outcomes = simulate(config, asked, fixed_time(100 * MS), num_blocks=100, max_model_len=100, delays=NOTHING)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 4 + [Status.REJECTED]
    assert (outcomes[4].http_status, outcomes[4].retry_after_ms) == (429, 901)


# -- clients that come again -------------------------------------------------------------------------------------------


def test_a_refused_client_comes_again_when_it_was_told_as_another_attempt(tmp_path: Path) -> None:
    """SPEC A8, B2: four run and four wait until 100 ms; a moment later there is room again."""
    config = Config(scheduler=SchedulerConfig(policy="dynamic", max_batch_size=4, max_queue_size=4))
    arrivals = [one(0)] * 4 + [one(0.5)] * 4 + [one(1, request_id="e", tenant="ada")]
    outcomes = simulate(
        config,
        arrivals,
        fixed_time(100 * MS),
        num_blocks=100,
        max_model_len=100,
        delays=NOTHING,
        run=tmp_path / "run",
        retrying=Retrying(3),
    )
    assert [made for made in check(open_tables(tmp_path / "run")) if not made.ok] == []
    rows = [row for row in open_tables(tmp_path / "run").table("requests").to_pylist() if row["request_id"] == "e"]
    chain = [(row["rid"], row["attempt"], row["retry_of"], row["status"], row["arrival"] / MS) for row in rows]
    assert chain == [(9, 1, None, "rejected", 1), (10, 2, 9, "ok", 101)]
    assert outcomes[9].returned == 300 * MS
    assert {row["tenant"] for row in rows} == {"ada"}


def test_a_client_gives_up_at_its_deadline_its_limit_or_when_all_have_retried_enough() -> None:
    """SPEC A8, B2."""
    config = Config(scheduler=SchedulerConfig(policy="immediate", max_queue_size=1))

    def attempts(retrying: Retrying, deadline_ms: float | None) -> Counter[str]:
        late = [one(1, deadline_ms, request_id=f"late-{number}") for number in range(4)]
        outcomes = simulate(
            config,
            [one(0, max_tokens=20), one(0.5, max_tokens=20), *late],
            fixed_time(100 * MS),
            num_blocks=100,
            max_model_len=100,
            delays=NOTHING,
            retrying=retrying,
        )
        return Counter(outcome.arrival.request_id for outcome in outcomes[2:])

    assert set(attempts(Retrying(5, 1.0), 1_000).values()) == {1}, "the first comes to its place at 2 s"
    assert max(attempts(Retrying(2, 1.0), None).values()) == 3
    assert sum(attempts(Retrying(50, 0.1), None).values()) == 4 + 3, "three are in reserve, and 0.6 for 6 requests"


# -- what a whole run keeps --------------------------------------------------------------------------------------------


def served(tmp_path: Path, name: str, *, summary: bool) -> list[dict[str, Any]]:
    """A crowd with deadlines at a small gate, also of a request that never fits, by way of a workload file."""
    lines: list[dict[str, Any]] = [
        {"arrival_s": number / 50, "prompt_tokens": 20, "max_tokens": 8, "tier": "free", "deadline_ms": 700}
        for number in range(40)
    ]
    lines[7]["prompt_tokens"] = 5_000
    for line in lines[::3]:
        line["deadline_ms"] = 300
    (tmp_path / "w.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    scheduler = {"max_num_seqs": 4, "max_queue_size": 6, "deadline_admission": True, "reserved_share": 0.5}
    config = from_dict({"scheduler": scheduler, "engine": {"max_model_len": 100}}, "test")
    setup, workload = prepare(str(tmp_path / "w.jsonl"), config, workers=2, retries=2, retry_budget=0.1)
    record_workload(setup, workload, tmp_path / name, summary=summary)
    rows: list[dict[str, Any]] = open_tables(tmp_path / name).table("requests").to_pylist()
    return rows


def test_a_summary_has_the_same_rows_of_requests_as_a_whole_run(tmp_path: Path) -> None:
    whole, summary = served(tmp_path, "whole", summary=False), served(tmp_path, "summary", summary=True)
    assert whole == summary
    assert {row["http_status"] for row in whole} >= {200, 400, 429, 529}
    assert {row["queue_depth"] for row in whole} > {0}
    assert all(row["retry_after_ms"] is not None for row in whole if row["http_status"] == 529)
    assert all(row["deadline"] is not None for row in whole)
    assert len({row["rid"] for row in whole}) == len(whole) > 40
    by_rid = {row["rid"]: row for row in whole}
    for row in whole:
        if row["retry_of"] is not None:
            before = by_rid[row["retry_of"]]
            assert (before["request_id"], before["attempt"] + 1) == (row["request_id"], row["attempt"])
    for name in ("whole", "summary"):
        assert [made.name for made in check(open_tables(tmp_path / name)) if not made.ok] == []


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        served(tmp_path, name, summary=False)
    one_, two = (sorted((tmp_path / name).rglob("*.parquet")) for name in ("one", "two"))
    assert len(one_) > 6
    assert [path.relative_to(tmp_path / "one") for path in one_] == [path.relative_to(tmp_path / "two") for path in two]
    assert [path.read_bytes() for path in one_] == [path.read_bytes() for path in two]


def test_a_recording_with_refusals_is_re_run_with_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SPEC F5: what was refused then is refused again, and the steps of the others are followed to the end."""
    config = Config(scheduler=SchedulerConfig(max_num_seqs=3, max_queue_size=2))
    arrivals = [one(t, prompt_tokens=20, max_tokens=9, request_id=f"r{t}") for t in range(0, 1_000, 25)]
    simulate(
        config,
        arrivals,
        lambda plan: 20_000_000 + plan.step * 7_919 % 13_000_000,
        num_blocks=100,
        max_model_len=100,
        delays=Delays.of(config.cost),
        run=tmp_path / "run",
    )
    assert main(["whatif", str(tmp_path / "run"), "--recorded-steps", "--out", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recorded_steps"]["differs_at_step"] is None
    columns = ["request_id", "status", "http_status", "retry_of", "first_token"]
    then, again = (open_tables(tmp_path / name).table("requests").select(columns) for name in ("run", "again"))
    assert then.to_pylist() == again.to_pylist()
    assert {row["http_status"] for row in then.to_pylist()} == {200, 529}


def test_a_run_in_virtual_time_is_no_flight_recorder() -> None:
    config = from_dict({"record": {"keep": "tail"}}, "test")
    with pytest.raises(ConfigError, match=r'keep = "tail" is for servers'):
        prepare("poisson:rate=1,n=1", config)


def test_limits_in_mib_need_what_a_token_takes() -> None:
    for section, key in (("kv", "memory_mb"), ("scheduler", "max_queue_memory_mb")):
        with pytest.raises(ConfigError, match=rf"\[{section}\] {key} = 3 says nothing without a model"):
            Setup.of(from_dict({section: {key: 3}}, "test"), 100)
    kv = {"memory_mb": 3, "token_bytes": 2**14, "block_size": 32}
    assert Setup.of(from_dict({"kv": kv}, "test"), 100).num_blocks == 6
    with pytest.raises(ConfigError, match="holds no block"):
        Setup.of(from_dict({"kv": {**kv, "token_bytes": 2**20}}, "test"), 100)


# -- whatever comes ----------------------------------------------------------------------------------------------------


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Config, int, Retrying]:
    """Configurations at which anybody may be refused, expire, be preempted, or come again; and how many workers."""
    seqs = draw(st.integers(1, 4))
    scheduler = SchedulerConfig(
        policy=draw(st.sampled_from(["immediate", "static", "dynamic", "continuous", "continuous"])),
        order=draw(st.sampled_from(["fcfs", "priority", "edf", "fair"])),
        max_num_seqs=seqs,
        max_num_batched_tokens=draw(st.sampled_from([seqs, 24])),
        max_queue_size=draw(st.sampled_from([0, 1, 4])),
        max_queue_tokens=draw(st.sampled_from([0, 40])),
        max_estimated_wait_ms=draw(st.sampled_from([0.0, 300.0])),
        deadline_admission=draw(st.booleans()),
        reserved_share=draw(st.sampled_from([0.0, 0.5])),
        tenant_tokens_per_s=draw(st.sampled_from([0.0, 60.0])),
        tenant_burst_tokens=80,
        max_queue_delay_ms=draw(st.sampled_from([0.0, 40.0])),
        timeout_action=draw(st.sampled_from(["reject", "delay"])),
    )
    retrying = Retrying(draw(st.sampled_from([0, 0, 3])), draw(st.sampled_from([0.1, 1.0])))
    return Config(scheduler=scheduler), draw(st.integers(1, 3)), retrying


@st.composite
def visitors(draw: st.DrawFn) -> list[Arrival]:
    """Some stop early, some leave, some are in a hurry, some can never fit."""
    t, arrivals = 0, []
    for number in range(draw(st.integers(1, 25))):
        t += draw(st.sampled_from([0, 0, 3, 40, 200]))
        leaves = draw(st.sampled_from([None, None, None, 5, 300]))
        due = draw(st.sampled_from([None, None, 60, 500]))
        arrivals.append(
            one(
                t,
                None if due is None else t + due,
                prompt_tokens=draw(st.sampled_from([1, 9, 30, 900])),
                max_tokens=draw(st.integers(1, 20)),
                output_tokens=draw(st.one_of(st.none(), st.integers(1, 25))),
                cancel_at=None if leaves is None else (t + leaves) * MS,
                priority=draw(st.integers(0, 3)),
                tenant=draw(st.sampled_from(["ada", "bob"])),
                request_id=f"r{number}",
            )
        )
    return arrivals


def lived(world: tuple[Config, int, Retrying], arrivals: list[Arrival]) -> list[Outcome]:
    config, workers, retrying = world
    cost = LinearCost(20_000_000_000, 2_000_000_000, 10_000_000, 800_000_000, 1_000)
    return simulate(config, arrivals, cost, num_blocks=8, max_model_len=110, workers=workers, retrying=retrying)


ENDS = {
    Status.OK: {"stop", "length"},
    Status.CANCELLED: {"the client went away"},
    Status.EXPIRED: {"its deadline passed while it waited to be started"},
}


@settings(max_examples=150, deadline=None)
@given(fleets(), visitors())
def test_every_arrival_ends_exactly_once(world: tuple[Config, int, Retrying], arrivals: list[Arrival]) -> None:
    """Conservation: no request is lost or doubled, each attempt has one end, and of the tokens asked for none more."""
    outcomes = lived(world, arrivals)
    first = [outcome.arrival.request_id for outcome in outcomes if outcome.arrival.attempt == 1]
    assert first == [arrival.request_id for arrival in arrivals]
    retried = [outcome.arrival.retry_of for outcome in outcomes if outcome.arrival.attempt > 1]
    assert len(set(retried)) == len(retried), "nobody is retried twice"
    for rid in retried:
        assert outcomes[(rid or 0) - 1].status is Status.REJECTED
    for outcome in outcomes:
        asked, end = outcome.arrival, outcome.end
        if outcome.status is Status.REJECTED:
            assert end is None
            continue
        assert outcome.reason in ENDS[outcome.status]
        assert end is not None
        whole = min(asked.output_tokens or asked.max_tokens, asked.max_tokens)
        assert end.output_tokens == whole if outcome.status is Status.OK else end.output_tokens <= whole


@settings(max_examples=100, deadline=None)
@given(fleets(), visitors(), st.integers(0, 24), st.integers(1, 25))
def test_how_long_later_outputs_are_changes_nothing_before(
    world: tuple[Config, int, Retrying], arrivals: list[Arrival], place: int, other: int
) -> None:
    """DESIGN 3: at the gate, too. Whatever those that come from an instant on will say, all before it stays."""
    place %= len(arrivals)
    now = arrivals[place].arrival
    changed = [replace(arrival, output_tokens=other) if arrival.arrival >= now else arrival for arrival in arrivals]
    assert before(lived(world, arrivals), now) == before(lived(world, changed), now)


def before(outcomes: list[Outcome], now: int) -> list[tuple[object, ...]]:
    """All that was decided until then."""

    def until(t: int | None) -> int | None:
        return t if t is not None and t < now else None

    stamps = ("queued", "first_scheduled", "first_token", "last_token", "ended")
    return [
        (
            outcome.rid,
            outcome.worker,
            outcome.http_status,
            outcome.retry_after_ms,
            *(until(getattr(outcome.end, stamp)) if outcome.end else None for stamp in stamps),
        )
        for outcome in outcomes
        if outcome.arrival.arrival < now
    ]
