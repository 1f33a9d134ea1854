"""Planted incidents are named first, through whom and where; their healthy twins raise no such alarm (SPEC F1-F5)."""

import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from console.explain.answer import document, explain, open_command
from console.explain.finding import Finding, Kind
from console.explain.ranking import Account
from console.filter_language import parse_filter
from console.jsonout import finite
from console.session import Session
from console.text.explain import explain_lines
from console.text.paint import paint
from recorder.check import check
from recorder.tables import open_tables
from tests.console import incidents
from tests.console.incidents import INCIDENTS

Told = Callable[[Callable[[Path], Path]], tuple[Path, Account]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The run that a maker makes, and its account; each is made once."""
    folder = tmp_path_factory.mktemp("incidents")

    @cache
    def tell(make: Callable[[Path], Path]) -> tuple[Path, Account]:
        run = make(folder / make.__name__)
        with Session(run) as session:
            return run, explain(session)

    return tell


def first(account: Account) -> Finding:
    return account.prominent[0]


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_planted_culprit_comes_first(told: Told, name: str) -> None:
    _, account = told(INCIDENTS[name].plant)
    assert first(account).kind == INCIDENTS[name].finding


@pytest.mark.parametrize("name", INCIDENTS)
def test_its_healthy_twin_raises_no_such_alarm(told: Told, name: str) -> None:
    _, account = told(INCIDENTS[name].twin)
    assert INCIDENTS[name].finding not in [finding.kind for finding in account.prominent]


@pytest.mark.parametrize("name", INCIDENTS)
def test_every_ns_belongs_to_one_finding_or_to_none(told: Told, name: str) -> None:
    for make in (INCIDENTS[name].plant, INCIDENTS[name].twin):
        _, account = told(make)
        shares = [finding.share for finding in account.findings if finding.share is not None]
        if account.view == "tail":
            assert sum(shares) + account.small + account.unexplained == 1
        assert abs(account.unexplained) < 0.01


@pytest.mark.parametrize(
    "make", [incidents.slow_clients, incidents.collections, incidents.blocked_loop], ids=lambda make: make.__name__
)
def test_what_is_planted_into_a_run_leaves_a_ledger_that_adds_up(told: Told, make: Callable[[Path], Path]) -> None:
    run, _ = told(make)
    assert [found.name for found in check(open_tables(run)) if not found.ok] == []


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_link_opens_on_somebody(told: Told, name: str) -> None:
    """What the evidence link filters by lets some request through, and what it seeks is there."""
    run, account = told(INCIDENTS[name].plant)
    command = open_command(str(run), first(account))
    if name == "a closed loop":
        assert not command
        return
    words = shlex.split(command)
    assert words[:5] == ["tailtrace", "open", str(run), "--screen", "timeline"]
    with Session(run) as session:
        assert session.picked(parse_filter(words[words.index("--filter") + 1])).num_rows > 0
        if "--at" in words and words[words.index("--at") + 1].startswith("req:"):
            name = words[words.index("--at") + 1].removeprefix("req:")
            assert session.ask("find_request", id=name, rid=None).num_rows > 0


def test_quiet_runs_say_that_nothing_stands_out(told: Told) -> None:
    for make in (incidents.chats_alone, incidents.kv_plenty, incidents.unhurried, incidents.cache_hits):
        run, account = told(make)
        assert account.prominent == ()
        assert "nothing stands out" in paint(explain_lines(account, str(run), 100))


def test_the_long_prompt_is_named_with_its_steps(told: Told) -> None:
    run, account = told(incidents.one_long_prompt)
    found = first(account)
    assert found.culprits[0].prompt_tokens == 30_000
    assert found.culprits[0].share > 0.9
    assert found.steps is not None
    with Session(run) as session:
        rid = found.culprits[0].rid
        steps = session.query(
            f"SELECT min(step) AS a, max(step) AS b FROM slices WHERE rid = {rid} AND role = 'prefill'"
        )
    assert (found.steps.first, found.steps.last) == (steps["a"][0].as_py(), steps["b"][0].as_py())
    assert found.suggestion is not None
    assert found.suggestion.changes[0].options == ("--set", "long_prefill_token_threshold=256")
    assert "30,000 prompt tokens caused" in " ".join(found.sentences)


def test_the_storm_is_told_with_what_it_threw_away(told: Told) -> None:
    run, account = told(incidents.kv_storm)
    with Session(run) as session:
        row = session.query("SELECT count(*) AS n, sum(lost_tokens) AS lost FROM events WHERE kind = 'preempted'")
    assert first(account).figures["preemptions"] == row["n"][0].as_py() > 0
    assert first(account).figures["lost_tokens"] == row["lost"][0].as_py()


def test_what_all_wait_for_is_found_where_there_is_no_tail(told: Told) -> None:
    _, account = told(incidents.batch_timer)
    assert account.view == "everyone"
    assert (first(account).everyone or 0.0) > 0.5
    assert first(account).figures == {"max_queue_delay_ms": 400.0}


def test_slow_clients_are_named_and_nobody_else(told: Told) -> None:
    _, account = told(incidents.slow_clients)
    assert all(culprit.rid % 25 == 0 for culprit in first(account).culprits)


def test_the_longest_collection_is_where_the_link_goes(told: Told) -> None:
    run, account = told(incidents.collections)
    found = first(account)
    assert (found.figures["stalls"], found.figures["longest_ns"]) == (5, 600_000_000)
    with Session(run) as session:
        began = session.query("SELECT min(arrival) AS t FROM requests")["t"][0].as_py()
        stalls = session.query("SELECT t_start FROM stalls")["t_start"].to_pylist()
    assert f"{(min(stalls) - began) / 1e9:.6f}s" == found.at


def test_the_front_end_is_told_as_where_the_loop_was_held_up(told: Told) -> None:
    _, account = told(incidents.blocked_loop)
    found = first(account)
    assert found.causes[0] == "HOST_LOOP"
    assert (found.figures["stalls"], found.measured) == (12, True)
    assert "in the front end" in " ".join(found.sentences)


def test_cold_steps_are_told_with_their_shape(told: Told) -> None:
    _, account = told(incidents.cold_steps)
    assert first(account).kind is Kind.COLD_STEPS
    assert not first(account).measured, "what a step would have taken is a prediction"
    assert "the longest 600ms in worker 0, shape decode 8" in " ".join(first(account).sentences)


def test_who_got_no_answer_comes_before_who_waited(told: Told) -> None:
    """SPEC B5: the account of an overloaded engine begins with those it refused."""
    run, account = told(incidents.refused)
    assert [finding.kind for finding in account.prominent] == [Kind.REFUSALS, Kind.QUEUE_SATURATED]
    with Session(run) as session:
        n = session.query("SELECT count(*) AS n FROM requests WHERE status = 'rejected'")["n"][0].as_py()
    assert first(account).figures["refused"] == n
    assert f"{n} of {n} were told when to come again (Retry-After)" in " ".join(first(account).sentences)


def test_the_tier_that_waits_is_named(told: Told) -> None:
    _, account = told(incidents.starved_tier)
    assert first(account).figures == {"tier": "free"}


def test_a_closed_loop_is_known_by_its_arrivals_and_not_by_what_the_run_says(told: Told) -> None:
    run, account = told(incidents.closed_loop)
    assert first(account).figures["level"] == 24
    assert first(account).figures["met"] == 0
    assert "closed" not in str(open_tables(run).info.workload)


def test_the_lost_worker_is_told_with_what_became_of_its_requests(told: Told) -> None:
    """SPEC A7, C9."""
    run, account = told(incidents.worker_lost)
    found = first(account)
    with Session(run) as session:
        hit = session.query("SELECT count(*) AS n FROM requests WHERE status = 'failed'")["n"][0].as_py()
    assert found.figures == {"workers": [1], "attempts": hit, "answered_again": hit}
    assert "the queue that began to grow then" in " ".join(found.sentences)
    assert found.share is not None
    assert found.share > 0.9


def test_the_rush_leaves_a_plateau(told: Told) -> None:
    """SPEC B3: a plateau in the tail is a saturated queue."""
    _, account = told(incidents.saturated)
    assert "a saturated queue" in " ".join(first(account).sentences)


def test_the_request_from_which_the_cache_missed_is_named(told: Told) -> None:
    _, account = told(incidents.cache_misses)
    assert first(account).figures["since_rid"] == 241
    assert first(account).figures["hits_after"] < 0.05
    assert first(account).figures["hits_before"] > 0.9


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_document_is_the_account(told: Told, name: str) -> None:
    run, account = told(INCIDENTS[name].plant)
    made = json.loads(json.dumps(finite(document(account, str(run)))))
    assert made["findings"][0]["kind"] == INCIDENTS[name].finding
    parts = [found["share"] if account.view == "tail" else found["everyone_share"] for found in made["findings"]]
    assert sum(part for part in parts if part is not None) + made["small_share"] + made["unexplained_share"] == (
        pytest.approx(1)
    )
