"""The parts of an account: pinned arrivals, lost hits, cells that sum, and odd runs that are told like any other."""

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.blame.cohorts import parse_slow, read_cohorts
from console.blame.ledgers import excess as blame_excess
from console.blame.ledgers import read_ledgers
from console.cli import main
from console.explain.answer import explain
from console.explain.arrivals import Gaps, Level, Pinned, pinned
from console.explain.cells import LENGTH, MISSES, NOBODY, PACE, Asked, Cell, excess, split
from console.explain.finding import Kind
from console.explain.prefixes import LEAST, Shift, Split, hits_lost
from console.filter_language import parse_filter
from console.session import Session, question, rows
from console.text.explain import explain_lines
from console.text.paint import paint
from console.timeline import Floats, Ints
from recorder.run import hold_lock, lock_path
from recorder.words import Status
from tests.console import tui_runs
from tests.console.incidents import Traffic, one_long_prompt
from tests.console.runs import golden_rows, request, write_run

S = 1_000_000_000


def asked_of(requests: dict[str, Ints], name: str, **params: object) -> list[dict[str, object]]:
    """What a question finds in a run of which no more is known than these columns, ns and tokens."""
    stamps = ["returned", "admitted", "queued", "first_scheduled", "first_token", "last_token"]
    columns = {**{stamp: pa.nulls(len(requests["arrival"]), pa.int64()) for stamp in stamps}, **requests}
    db = database()
    db.register("made", pa.table(columns))
    db.execute("CREATE OR REPLACE TABLE requests AS SELECT *, 'ok' AS status FROM made").fetchall()
    return rows(db.sql(question(name), params=params or None).to_arrow_table())


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all examples: opening takes longer than asking."""
    return duckdb.connect(":memory:", config={"threads": 1})


# -- arrivals ----------------------------------------------------------------------------------------------------------


def proof(arrival: Ints, returned: Ints) -> Pinned | None:
    """That arrivals are pinned to completions, by the stamps of the whole run."""
    stamps = {"arrival": arrival, "returned": returned}
    gaps = [Gaps(**row) for row in asked_of(stamps, "explain_gaps")]  # type: ignore[arg-type]
    levels = [Level(**row) for row in asked_of(stamps, "explain_levels")]  # type: ignore[arg-type]
    return pinned(gaps[0], levels)


def closed(users: int, n: int, seats: int, seed: int, think_s: float) -> tuple[Floats, Floats]:
    """Users who each wait for their answer, served `seats` at a time for random times."""
    draw, free = np.random.default_rng(seed), [0.0] * seats
    coming = sorted(draw.uniform(0, 1, users).tolist())
    arrivals, ends = [], []
    for _ in range(n):
        t = coming.pop(0)
        begin = max(free.pop(0), t)
        end = begin + draw.exponential(1.0)
        free = sorted([*free, end])
        arrivals.append(t)
        ends.append(end)
        coming = sorted([*coming, end + draw.exponential(think_s)])
    return np.array(arrivals) * S, np.array(ends) * S


def ints(values: Floats) -> Ints:
    whole: Ints = np.rint(values).astype(np.int64)
    return whole


@pytest.mark.parametrize("users", [4, 16, 64])
@pytest.mark.parametrize("seed", range(3))
def test_users_who_wait_for_their_answers_are_known_by_their_number(users: int, seed: int) -> None:
    arrival, ended = closed(users, 600, seats=users // 2, seed=seed, think_s=0.05)
    found = proof(ints(arrival), ints(ended))
    assert found is not None
    assert (found.level, found.met) == (users, 0)


@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_whoever_comes_when_he_comes_is_pinned_to_nothing(load: float, seed: int) -> None:
    """Poisson arrivals see time averages, below and beyond what can be served."""
    draw = np.random.default_rng(seed)
    arrival = np.cumsum(draw.exponential(1 / (4 * load), 600))
    free, ended = [0.0] * 4, []
    for t in arrival.tolist():
        free = sorted([*free[1:], max(free[0], t) + draw.exponential(1.0)])
        ended.append(free[-1])
    assert proof(ints(arrival * S), ints(np.array(ended) * S)) is None


@pytest.mark.parametrize("size", [1, 50])
def test_a_clock_waits_for_nobody(size: int) -> None:
    """Requests, or bursts of them, at equal distances: that none comes meanwhile is the clock's doing."""
    arrival = np.repeat(np.arange(600 // size) * size, size) * S
    assert proof(arrival, arrival + size * S // 2) is None


def test_bursts_at_random_are_no_closed_loop() -> None:
    draw = np.random.default_rng(3)
    begins = np.cumsum(draw.exponential(10, 60))
    arrival = np.repeat(begins, 20)
    ended = arrival + np.tile(np.arange(20) * 0.2 + 0.2, 60)
    assert proof(ints(arrival * S), ints(ended * S)) is None


def test_a_handful_proves_nothing() -> None:
    arrival, ended = closed(4, 29, seats=2, seed=0, think_s=0.01)
    assert proof(ints(arrival), ints(ended)) is None
    assert proof(np.array([], np.int64), np.array([], np.int64)) is None


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=60))
def test_any_stamps_can_be_asked(lives: list[tuple[int, int]]) -> None:
    arrival = np.array([begin for begin, _ in lives], np.int64)
    ended = np.array([begin + length for begin, length in lives], np.int64)
    found = proof(arrival, ended)
    assert found is None or 0 <= found.met <= 0.1 * found.expected


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=30))
def test_every_arrival_and_every_ns_has_its_level(lives: list[tuple[int, int]]) -> None:
    """Against a count of who is in flight, ns by ns."""
    arrival, ended = (
        np.array(each) for each in zip(*((begin, begin + length) for begin, length in lives), strict=True)
    )
    found = asked_of({"arrival": arrival, "returned": ended}, "explain_levels")
    level = [int(((arrival <= t) & (ended > t)).sum()) for t in range(min(arrival), max(arrival))]
    assert {row["level"]: row["ns"] for row in found if row["ns"]} == {n: level.count(n) for n in set(level)}
    assert sum(row["came"] for row in found) == len(lives)  # type: ignore[misc]


# -- the prefix cache --------------------------------------------------------------------------------------------------


def shift(prompt: Ints, cached: Ints) -> Shift | None:
    """Where hits were lost, of requests 7, 8, … that came 1 ns apart."""
    place = np.arange(len(prompt))
    columns = {"arrival": place, "rid": place + 7, "prompt_tokens": prompt, "cached_tokens": cached}
    (found,) = asked_of(columns, "explain_splits", least=LEAST)
    return hits_lost(Split(**found))  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(st.integers(10, 60), st.integers(10, 60), st.integers(20, 90))
def test_the_request_from_which_hits_are_lost_is_found(before: int, after: int, share: int) -> None:
    cached = np.array([share] * before + [0] * after, np.int64)
    assert shift(np.full(before + after, 100), cached) == Shift(before, before + 7, share / 100, 0.0)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 80), st.integers(0, 100))
def test_a_cache_that_gives_what_it_gave_is_no_change(n: int, share: int) -> None:
    assert shift(np.full(n, 100), np.full(n, share)) is None
    assert shift(np.full(n, 100), np.arange(n)) is None, "a cache that warms"


# -- cells -------------------------------------------------------------------------------------------------------------

COUNTS = st.integers(0, 10**6)


def asked(n: int, prompt: int, cached: int, decodes: int) -> Asked:
    return replace(NOBODY, n=n, prompt_tokens=prompt, cached_tokens=min(cached, prompt), decodes=decodes)


ASKED = st.builds(asked, st.integers(1, 100), COUNTS, COUNTS, COUNTS)
CELLS = st.lists(
    st.builds(Cell, st.sampled_from(["DECODE", "PREFILL", "RETURN"]), st.just(""), st.none(), COUNTS, COUNTS),
    max_size=9,
)


@given(CELLS, ASKED, ASKED)
def test_own_work_is_split_without_a_ns_lost(cells: list[Cell], slow: Asked, typical: Asked) -> None:
    parts = list(split(cells, slow, typical))
    for side in ("slow_ns", "typical_ns"):
        assert sum(getattr(part, side) for part in parts) == sum(getattr(cell, side) for cell in cells)
        assert all(getattr(part, side) >= 0 for part in parts)
    whole = sum((excess(cell, slow, typical) for cell in cells), Fraction(0))
    assert sum((excess(part, slow, typical) for part in parts), Fraction(0)) == whole


def test_twice_the_tokens_at_the_same_pace_are_length() -> None:
    parts = split([Cell("DECODE", "", None, 2000, 1000)], asked(1, 0, 0, 20), asked(1, 0, 0, 10))
    assert {part.root: part.slow_ns for part in parts} == {LENGTH: 2000, PACE: 0}


def test_the_same_tokens_in_twice_the_time_are_pace() -> None:
    parts = split([Cell("DECODE", "", None, 2000, 1000)], asked(1, 0, 0, 10), asked(1, 0, 0, 10))
    assert {part.root: part.slow_ns for part in parts} == {LENGTH: 1000, PACE: 1000}


def test_the_same_prompt_without_its_hits_is_misses() -> None:
    parts = split([Cell("PREFILL", "", None, 1000, 100)], asked(1, 100, 0, 0), asked(1, 100, 90, 0))
    assert {part.root: part.slow_ns for part in parts} == {LENGTH: 100, MISSES: 900, PACE: 0}


@pytest.mark.parametrize("slow", ["p95", "ttft:p90", "tpot:p90", "200ms"])
def test_the_cells_sum_to_the_excess_that_blame_tells(tmp_path: Path, slow: str) -> None:
    """SPEC F3: one decomposition, whoever tells it."""
    with Session(one_long_prompt(tmp_path / "run")) as session, session.connect() as cursor:
        account = explain(session, slow=parse_slow(slow))
        ledgers = read_ledgers(session, read_cohorts(session, parse_slow(slow), cursor), cursor)
    evidence = account.evidence
    causes: dict[str, Fraction] = {}
    for cell in evidence.cells:
        causes[cell.cause] = causes.get(cell.cause, Fraction(0)) + excess(cell, evidence.slow, evidence.typical)
    told = {row.name: row.ns for row in blame_excess(ledgers.slow, ledgers.typical, "causes")}
    assert {name: ns for name, ns in causes.items() if ns} == {name: ns for name, ns in told.items() if ns}


# -- odd runs ----------------------------------------------------------------------------------------------------------


def text(run: Path, width: int = 90) -> str:
    with Session(run) as session:
        return paint(explain_lines(explain(session), str(run), width))


ODD: dict[Callable[[Path], Path], str] = {
    tui_runs.empty: "no request is recorded",
    tui_runs.one_request: "too few answered requests",
    tui_runs.no_duration: "too few answered requests",
    tui_runs.all_rejected: "100.0% of the requests got no answer: 7 rejected",
    tui_runs.mixed_ends: "lower bound",
    tui_runs.damaged: "damaged",
}


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [40, 120])
def test_an_odd_run_is_told(make: Callable[[Path], Path], width: int, tmp_path: Path) -> None:
    said = text(make(tmp_path), width)
    assert " ".join(ODD[make].split()) in " ".join(said.split())
    assert "\x1b" not in said


def test_an_answer_that_took_no_time_is_an_answer(tmp_path: Path) -> None:
    said = " ".join(text(tui_runs.no_duration(tmp_path), 120).split())
    assert "Requests: 1 ok. Half of the answers took no time, so there is no latency to explain." in said


def test_where_all_were_refused_the_account_is_about_refusals(tmp_path: Path) -> None:
    """SPEC B1, B5: how many, why, and when they were told to come again."""
    rows = [
        {**request(rid, rid, Status.REJECTED, returned_ms=rid + 1, http_status=529), "retry_after_ms": 100 * rid}
        | {"reason": "OVERLOADED: the queue is full"}
        for rid in range(1, 10)
    ]
    run = write_run(tmp_path, {"requests": rows})
    with Session(run) as session:
        found = explain(session).findings[0]
    assert found.kind is Kind.REFUSALS
    said = " ".join(found.sentences)
    assert "9 rejected with 529" in said
    assert "OVERLOADED: the queue is full (9)" in said
    assert "9 of 9 were told when to come again (Retry-After): 100 to 900 ms, 500 in the middle" in said
    assert (found.only, found.at) == ("status:rejected", "req:req-1")


def test_reasons_that_differ_in_a_number_are_one_reason(tmp_path: Path) -> None:
    """SPEC B5: nobody learns anything from "and 59 other reasons"; the middle is that of all who were told."""
    waits = (900, 100, 300)
    rows = [
        {**request(rid, rid, Status.REJECTED, returned_ms=rid + 1, http_status=529), "retry_after_ms": wait}
        | {"reason": f"{rid + 10} requests are waiting for {rid}.5 ms"}
        for rid, wait in enumerate(waits, 1)
    ]
    with Session(write_run(tmp_path, {"requests": rows})) as session:
        found = explain(session).findings[0]
    said = " ".join(found.sentences)
    assert "Why: N requests are waiting for N ms (3)." in said
    assert "100 to 900 ms, 300 in the middle" in said
    assert found.suggestion is not None and found.suggestion.changes


def test_a_reason_that_all_share_keeps_its_numbers(tmp_path: Path) -> None:
    rows = [
        request(rid, rid, Status.REJECTED, returned_ms=rid + 1, http_status=529) | {"reason": "12 requests are waiting"}
        for rid in range(1, 4)
    ]
    with Session(write_run(tmp_path, {"requests": rows})) as session:
        assert "Why: 12 requests are waiting (3)." in explain(session).findings[0].sentences


def test_who_asked_for_what_is_never_served_is_not_helped_by_workers(tmp_path: Path) -> None:
    rows = [request(rid, rid, Status.REJECTED, returned_ms=rid + 1, http_status=400) for rid in range(1, 4)]
    with Session(write_run(tmp_path, {"requests": rows})) as session:
        found = explain(session).findings[0]
    assert found.suggestion is not None
    assert (found.suggestion.changes, "mend the requests" in found.suggestion.advice) == ((), True)


def test_refusals_without_a_time_say_so(tmp_path: Path) -> None:
    rows = [request(1, 1, Status.REJECTED, returned_ms=2, http_status=429), request(2, 1, Status.EXPIRED)]
    with Session(write_run(tmp_path, {"requests": rows})) as session:
        said = " ".join(explain(session).findings[0].sentences)
    assert "Nobody was told when to come again" in said
    assert "no reason was recorded (2)" in said


def stamped(slow_by_ms: int, **stamps: int) -> list[dict[str, object]]:
    """Forty requests of another engine, the last four slower by so much after their first token."""
    rows = []
    for rid in range(1, 41):
        late = slow_by_ms if rid > 36 else 0
        known = {name: 10 * rid + ms + (late if name in {"last_token_ms", "returned_ms"} else 0)
                 for name, ms in stamps.items()}  # fmt: skip
        rows.append(request(rid, 10 * rid, Status.OK, output_tokens=3, **known))
    return rows


def test_a_run_without_steps_says_what_cannot_be_known(tmp_path: Path) -> None:
    """SPEC F9: another engine's recording has stamps alone; the phase of a ns is known, what happened in it is not."""
    rows = stamped(90, first_token_ms=5, last_token_ms=9, returned_ms=9)
    said = " ".join(text(write_run(tmp_path, {"requests": rows}, recorded_tables=["requests"])).split())
    assert "golden: slower steps" in said
    assert "Steps were not recorded: what held them up in their own phases is in it." in said
    assert "No steps were recorded in this run: who was in which step, and who held up whom, can't be known." in said


def test_what_no_stamp_names_is_unexplained(tmp_path: Path) -> None:
    rows = stamped(90, returned_ms=9)
    said = text(write_run(tmp_path, {"requests": rows}, recorded_tables=["requests"]))
    assert "? unexplained           ████████████  100.0%" in said
    assert "nothing stands out, and 100.0% is unexplained" in said


def test_a_killed_run_and_a_live_one_are_told_as_they_are(tmp_path: Path) -> None:
    with Session(write_run(tmp_path, golden_rows(), sealed=False)) as session:
        account = explain(session)
        said = paint(explain_lines(account, "run", 90))
        with hold_lock(lock_path(session.path), fcntl.LOCK_SH):
            live = paint(explain_lines(explain(session), "run", 90))
    assert account.whole_ns is not None
    assert "The run was killed: this is the account of what it had written." in said
    assert "The run is still recorded: this is the account of what has come so far." in live


def test_lost_records_come_before_what_rests_on_them(tmp_path: Path) -> None:
    """SPEC F8: requests that lived in a gap may be shown without some of what happened to them."""
    with Session(write_run(tmp_path, golden_rows())) as session:
        account = explain(session)
    assert account.findings[0].kind is Kind.LOST_RECORDS


def test_a_filter_narrows_whom_it_is_about(tmp_path: Path) -> None:
    run = one_long_prompt(tmp_path / "run")
    with Session(run) as session:
        whole, some = explain(session), explain(session, parse_filter("prompt<1000"))
    assert (whole.evidence.slow.n, some.evidence.slow.n) == (21, 20)
    assert some.prominent[0].culprits[0].prompt_tokens == 30_000, "a culprit outside the filter keeps its name"


def test_names_are_never_markup_or_escapes(tmp_path: Path) -> None:
    assert "\x1b" not in text(tui_runs.mixed_ends(tmp_path))


@pytest.mark.parametrize(
    ("tokens", "verdict"),
    [
        (200, "nothing stands out"),
        (16_000, "mostly the requests' own work, then prompts of others"),
        (30_000, "prompts of others"),
    ],
)
def test_the_verdict_weighs_what_was_asked_for_against_what_held_it_up(
    tmp_path: Path, tokens: int, verdict: str
) -> None:
    """Some ask for fifty times as many tokens as others; four prompts hold them up besides."""
    traffic = Traffic(n=300, outputs=(8, 400), rate=2.0)
    chats = traffic.workload()
    prompts = chats.prompt_tokens.copy()
    prompts[[60, 100, 150, 200]] = tokens
    said = text(traffic.served(tmp_path / "run", replace(chats, prompt_tokens=prompts)))
    assert said.startswith(f"run: {verdict}\n")


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_json_and_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(one_long_prompt(tmp_path / "run"))
    assert main(["explain", run, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["findings"][0]["kind"] == "long_prompts"
    assert made["what_if"] == []
    assert main(["explain", run, "--slow", "p99"]) == 0
    out = capsys.readouterr().out
    assert "of the p99 excess" in out
    assert f"tailtrace whatif {run} --set long_prefill_token_threshold=256 --out WHATIF" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--slow", "fast"], "slow needs a time with a unit"), (["--filter", "e2e"], "no term of a filter")],
)
def test_bad_input_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    run = write_run(tmp_path, golden_rows())
    assert main(["explain", str(run), *options]) == 2
    assert said in capsys.readouterr().err


def test_what_if_re_runs_the_first_setting_that_is_suggested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SPEC F5: beside it the error of re-running what was recorded; a simulated run is re-run at its own cost."""
    run = Traffic(n=120, scheduler={"policy": "immediate"}, rate=8.0).served(tmp_path / "run")
    assert main(["explain", str(run), "--what-if", "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)["what_if"]
    assert {told["change"] for told in tried} == {"policy=continuous", "workers=2"}
    told = tried[0]
    assert told["change"] == "policy=continuous", "the best comes first"
    assert set(told["errors"]["e2e"].values()) == {0.0}
    assert told["trusted"]
    assert told["whatif_ns"]["e2e"]["p99"] < told["rerun_ns"]["e2e"]["p99"] == told["recorded_ns"]["e2e"]["p99"]
    assert main(["explain", str(run), "--what-if"]) == 0
    out = capsys.readouterr().out
    assert "What if policy=continuous" in out
    assert "policy=continuous: E2E at p99 falls by" in out
    assert "is off the recording's E2E by: p50 0.0%, p95 0.0%, p99 0.0%" in " ".join(out.split())
