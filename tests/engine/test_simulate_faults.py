"""Planted losses of workers in virtual time: nobody is lost with them, and the same incident is the same every time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config, ConfigError, FaultsConfig, KvConfig, RouterConfig, SchedulerConfig
from engine.simulate.cost import LinearCost
from engine.simulate.faults import Loss, planned_losses
from engine.simulate.front import Arrival, Outcome, answers
from engine.simulate.results import Results
from engine.simulate.run import prepare, record_workload, simulate_workload
from engine.simulate.setup import Setup
from engine.simulate.stepped import simulate
from engine.whatif.changes import engine_of, parse_changes
from engine.whatif.fitting import fit_recording
from engine.whatif.handed_on import recorded_losses
from engine.whatif.measures import measured
from engine.whatif.recorded import WhatIfError, read_recorded, recorded_config
from engine.whatif.recorded_steps import replay_steps
from engine.whatif.rerun import stamps_of
from engine.whatif.script import read_scripts
from recorder.check import check
from recorder.schema import code
from recorder.tables import open_tables
from recorder.words import Status

MS, S = 10**6, 10**9


def config(lost: str = "", silent: str = "", router: RouterConfig | None = None) -> Config:
    return Config(
        scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=64),
        router=router or RouterConfig(),
        faults=FaultsConfig(worker_lost=lost, worker_silent=silent),
    )


def arrivals(count: int = 12, gap_ms: int = 100, output: int = 30) -> list[Arrival]:
    return [
        Arrival(arrival=n * gap_ms * MS, prompt_tokens=20 + n, max_tokens=output + 5, output_tokens=output)
        for n in range(count)
    ]


def serve(
    asked: list[Arrival], how: Config, run: Path | None = None, workers: int = 2, blocks: int = 60
) -> list[Outcome]:
    return simulate(how, asked, LinearCost(), num_blocks=blocks, max_model_len=400, workers=workers, run=run)


def delivered(outcome: Outcome, asked: Arrival) -> int:
    """Tokens that the client has, over all attempts."""
    assert outcome.end is not None
    return outcome.arrival.prompt_tokens - asked.prompt_tokens + outcome.end.output_tokens


# -- the configuration -------------------------------------------------------------------------------------------------


def test_losses_are_read_in_order_of_time() -> None:
    planned = planned_losses(config(lost="1@2.5 0@0.000000001", silent="2@1"), 3)
    assert planned == [Loss(0, 1, silent=False), Loss(2, S, silent=True), Loss(1, 2_500 * MS, silent=False)]


@pytest.mark.parametrize(
    ("how", "words"),
    [(config(lost="2@1"), "names worker 2, and of 2 the last is 1"), (config("1@1", "1@2"), "loses worker 1 twice")],
)
def test_losses_that_can_not_be_are_refused_before_anything_is_written(how: Config, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Setup.of(how, 100, 2)


def test_a_what_if_can_ask_for_a_loss() -> None:
    assert parse_changes(["worker_lost=1@2.5"]) == {"faults": {"worker_lost": "1@2.5"}}


# -- what happens ------------------------------------------------------------------------------------------------------


def test_what_a_dying_worker_held_goes_on_elsewhere(tmp_path: Path) -> None:
    """SPEC A7, C9; the same tables as of a server whose worker was killed."""
    asked = arrivals()
    outcomes = serve(asked, config(lost="1@0.75"), tmp_path / "run")
    last = answers(outcomes)
    assert [outcome.status for outcome in last] == [Status.OK] * len(asked)
    assert [delivered(outcome, one) for outcome, one in zip(last, asked, strict=True)] == [30] * len(asked)
    again = [outcome for outcome in last if outcome.arrival.attempt == 2]
    assert again
    for outcome in again:
        first = outcomes[(outcome.arrival.retry_of or 0) - 1]
        assert (first.status, first.worker, first.reason) == (Status.FAILED, 1, "worker 1 died")
        assert outcome.worker == 0
    tables = open_tables(tmp_path / "run")
    assert [(found.name, found.detail) for found in check(tables) if not found.ok] == []
    steps = tables.table("steps").to_pylist()
    assert max(row["t_end"] for row in steps if row["worker"] == 1) <= 750 * MS
    (lost,) = [row for row in tables.table("events").to_pylist() if row["kind"] == "worker_lost"]
    assert (lost["worker"], lost["reason"]) == (1, "NONE")
    assert lost["t"] == 750 * MS + 100_000, "the link's end takes the link's time"
    routed = [row["reason"] for row in tables.table("events").to_pylist() if row["kind"] == "routed"]
    assert (routed.count("HANDED_BACK"), len(routed)) == (len(again), len(outcomes))


def test_a_silent_worker_is_found_by_its_heartbeat() -> None:
    how = config(silent="1@0.75", router=RouterConfig(heartbeat_timeout_ms=3000))
    quick, slow = serve(arrivals(), config(lost="1@0.75")), serve(arrivals(), how)
    handed_on = {outcome.arrival.handed_on for outcome in slow if outcome.arrival.handed_on}
    assert handed_on == {3750 * MS}
    worst = [max((outcome.returned or 0) for outcome in answers(found)) for found in (quick, slow)]
    assert worst[1] > worst[0]
    assert {outcome.reason for outcome in slow if outcome.status is Status.FAILED} == {
        "worker 1 was silent for too long"
    }


def test_streams_that_have_begun_may_end_with_an_error_instead() -> None:
    outcomes = serve(arrivals(), config(lost="1@0.75", router=RouterConfig(on_worker_lost="fail")))
    failed = [outcome for outcome in answers(outcomes) if outcome.status is Status.FAILED]
    assert failed
    assert all(outcome.given and "safe to send it again" in outcome.reason for outcome in failed)
    assert all(outcome.given == 0 for outcome in outcomes if outcome.reason == "worker 1 died")


def test_who_runs_on_every_worker_that_dies_is_isolated() -> None:
    """SPEC A7: the second loss while it runs is the last."""
    asked = arrivals(count=1, output=200)
    (first, second) = serve(asked, config(lost="0@1 1@3"), workers=3)
    assert (first.worker, second.worker) == (0, 1)
    assert second.status is Status.FAILED
    assert "isolated" in second.reason
    patient = config("0@1 1@3", router=RouterConfig(max_worker_losses=3))
    assert [outcome.status for outcome in serve(asked, patient, workers=3)] == [*[Status.FAILED] * 2, Status.OK]


def test_without_any_worker_left_requests_end_and_later_ones_are_turned_away() -> None:
    asked = arrivals(count=30)
    last = answers(serve(asked, config(lost="0@0.5 1@1")))
    assert Status.FAILED in {outcome.status for outcome in last}
    turned_away = [outcome for outcome in last if outcome.status is Status.REJECTED]
    assert {outcome.http_status for outcome in turned_away} == {503}
    assert [outcome.rid for outcome in turned_away] == [o.rid for o in last if o.arrival.arrival >= S + 100_000]


def test_a_client_that_has_left_is_not_served_elsewhere() -> None:
    asked = [replace(one, cancel_at=one.arrival + 400 * MS) for one in arrivals(output=300)]
    for outcome in answers(serve(asked, config(lost="1@0.75"))):
        assert outcome.status is Status.CANCELLED


def test_users_of_a_closed_loop_go_on_asking(tmp_path: Path) -> None:
    setup, workload = prepare(
        "closed:users=6,n=40,think_s=0.1,prompt=uniform(5,40),output=uniform(5,30)", config("1@1.5"), workers=2, seed=3
    )
    results = simulate_workload(setup, workload)
    assert results.column("status").tolist() == [code(Status.OK)] * 40
    record_workload(setup, workload, tmp_path / "run", seed=3)
    assert all(found.ok for found in check(open_tables(tmp_path / "run")))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nobody_is_lost_and_everything_is_the_same_again(data: st.DataObject) -> None:
    """Conservation and determinism, whatever dies when."""
    workers = data.draw(st.integers(2, 4))
    dying = data.draw(st.lists(st.integers(0, workers - 1), unique=True, max_size=workers))
    silent = {number for number in dying if data.draw(st.booleans())}
    at = {number: data.draw(st.integers(0, 3000)) for number in dying}
    lost, quiet = (
        " ".join(f"{n}@{at[n] / 1000:.3f}" for n in dying if (n in silent) is which) for which in (False, True)
    )
    how = config(lost, quiet, RouterConfig(max_attempts=9, max_worker_losses=9, heartbeat_timeout_ms=700))
    sizes = st.tuples(st.integers(0, 3000), st.integers(1, 90), st.integers(1, 40))
    asked = [
        Arrival(arrival=t * MS, prompt_tokens=prompt, max_tokens=output, output_tokens=output)
        for t, prompt, output in sorted(data.draw(st.lists(sizes, min_size=1, max_size=25)))
    ]
    outcomes = serve(asked, how, workers=workers, blocks=30)
    last = answers(outcomes)
    assert len(last) == len(asked)
    assert not [outcome for outcome in outcomes if outcome.status is Status.OPEN]
    for outcome, one in zip(last, asked, strict=True):
        assert outcome.arrival.arrival == one.arrival
        if len(dying) < workers:
            assert outcome.status is Status.OK
            assert delivered(outcome, one) == one.output_tokens
    assert outcomes == serve(asked, how, workers=workers, blocks=30)


# -- prefixes ----------------------------------------------------------------------------------------------------------


def chats(factor: float) -> list[Outcome]:
    """Five conversations of eight turns, interleaved; each turn begins with the whole turn before it."""
    how = Config(kv=KvConfig(enable_prefix_caching=True), router=RouterConfig(prefix_load_factor=factor))
    asked = []
    for n in range(40):
        turn, before = n // 5, n - 5 + 1 if n >= 5 else 0
        asked.append(
            Arrival(
                arrival=n * 60 * MS,
                prompt_tokens=64 + 32 * turn,
                max_tokens=4,
                output_tokens=4,
                prefix_of=before,
                prefix_tokens=64 + 32 * (turn - 1) if before else 0,
            )
        )
    return simulate(how, asked, LinearCost(), num_blocks=400, max_model_len=600, workers=3)


def test_a_conversation_stays_where_its_beginning_is_held() -> None:
    """SPEC C6: more tokens are found in caches, and everybody is answered sooner for it."""

    def cached(outcomes: list[Outcome]) -> int:
        return sum(outcome.end.cached_tokens for outcome in outcomes if outcome.end)

    def waited(outcomes: list[Outcome]) -> int:
        return sum((outcome.returned or 0) - outcome.arrival.arrival for outcome in outcomes)

    drawn, indifferent = chats(1.0), chats(0.0)
    assert [len({outcome.worker for outcome in drawn[n::5]}) for n in range(5)] == [1] * 5
    assert cached(drawn) > 1.2 * cached(indifferent)
    assert waited(drawn) < waited(indifferent)


def test_results_are_of_last_attempts() -> None:
    setup, workload = prepare(
        "poisson:rate=8,n=30,prompt=uniform(5,40),output=uniform(5,30)", config("1@1.5"), workers=2
    )
    results = simulate_workload(setup, workload)
    assert isinstance(results, Results)
    assert len(results) == 30
    assert set(results.column("status").tolist()) == {code(Status.OK)}


# -- asked about later -------------------------------------------------------------------------------------------------


def test_a_recording_with_a_loss_is_re_run_with_it(tmp_path: Path) -> None:
    """Who was handed on asked once, and the re-run of a virtual run is that run."""
    asked, how = arrivals(), config(lost="1@0.75")
    outcomes = serve(asked, how, tmp_path / "run")
    tables = open_tables(tmp_path / "run")
    recorded = read_recorded(tables)
    told = [(one.arrival, one.prompt_tokens, one.max_tokens, one.output_tokens) for one in recorded.arrivals]
    assert told == [(one.arrival, one.prompt_tokens, one.max_tokens, one.output_tokens) for one in asked]
    rerun = serve(list(recorded.arrivals), recorded_config(recorded.info), workers=recorded.workers)
    assert [outcome.returned for outcome in answers(rerun)] == [outcome.returned for outcome in answers(outcomes)]
    again = measured(stamps_of(answers(rerun)))
    for name, values in measured(recorded.stamps).items():
        np.testing.assert_array_equal(values, again[name], err_msg=name)
    assert recorded_losses(tables, 0) == "1@0.750100000", "of a server, the event is all there is"


def test_recorded_steps_are_not_followed_into_a_loss(tmp_path: Path) -> None:
    serve(arrivals(), config(lost="1@0.75"), tmp_path / "lost")
    with pytest.raises(WhatIfError, match="lost a worker"):
        read_scripts(read_recorded(open_tables(tmp_path / "lost")))
    serve(arrivals(), config(), tmp_path / "whole")
    recorded = read_recorded(open_tables(tmp_path / "whole"))
    engine = engine_of(recorded, {"faults": {"worker_lost": "1@0.75"}})
    assert engine.config.faults.worker_lost == "1@0.75"
    with pytest.raises(WhatIfError, match="no recorded step tells of a worker that is lost"):
        replay_steps(recorded, engine, fit_recording(recorded, engine), tmp_path / "what-if")


def test_a_worker_that_served_nobody_is_there_in_a_re_run(tmp_path: Path) -> None:
    serve(arrivals(count=1), config(lost="2@0.1"), tmp_path / "run", workers=3)
    recorded = read_recorded(open_tables(tmp_path / "run"))
    assert recorded.workers == 3
    assert engine_of(recorded).workers == 3
