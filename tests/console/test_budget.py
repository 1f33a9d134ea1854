"""Budgets: what can't hold is refused with the conflict named, what is held is counted exactly (SPEC A4)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.budget import PARTS, BudgetError, conflict, judge, read_budget
from console.filter_language import parse_filter
from console.session import Session
from console.slo import Slo, SloError
from recorder.words import Status
from tests.console.runs import MS, request, write_run

ROOT = Path(__file__).parents[2]
SEED = {"ingress": 20, "waiting": 60, "execution": 100, "return": 20}
"""SPEC A4."""


def write_budget(folder: Path, e2e_ms: float, parts: dict[str, float], more: str = "") -> Path:
    path = folder / "budget.toml"
    lines = [f"[slo]\ne2e_ms = {e2e_ms}\n{more}\n[budget]"]
    path.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in parts.items())]) + "\n")
    return path


def tailtrace(run: Path, budget: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console.cli", "budget", str(run), "--budget", str(budget), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def timed(rid: int, *parts: int) -> dict[str, Any]:
    """An answered request of so many ms of ingress, waiting, execution and return."""
    ingress, waiting, execution, back = parts
    queued = rid + ingress
    scheduled = queued + waiting
    last = scheduled + execution
    return request(
        rid,
        rid,
        queued_ms=queued,
        first_scheduled_ms=scheduled,
        first_token_ms=last,
        last_token_ms=last,
        returned_ms=last + back,
        output_tokens=1,
    )


# -- feasibility -------------------------------------------------------------------------------------------------------


def test_the_budget_of_the_seed_adds_up(tmp_path: Path) -> None:
    """SPEC A4: 200 = 20 + 60 + 100 + 20."""
    budget = read_budget(write_budget(tmp_path, 200, dict(SEED)))
    assert budget.slo == Slo(e2e_ns=200 * MS)
    assert budget.parts == {name: ms * MS for name, ms in SEED.items()}


@pytest.mark.parametrize(
    ("e2e_ms", "parts", "said"),
    [
        (
            100,
            {"execution": 100},
            "100 ms end to end with 100 ms of execution leaves nothing for ingress, waiting, ret",
        ),
        (100, SEED, "100 ms end to end with 100 ms of execution leaves nothing"),
        (100, {**SEED, "ingress": 0, "waiting": 0, "return": 0}, "leaves nothing for ingress, waiting, return"),
        (190, SEED, "= 200 ms, which is 10 ms more than the 190 ms end to end"),
        (210, SEED, "= 200 ms, and 10 ms of the 210 ms end to end are given to no part"),
        (200.000001, SEED, "and 1e-06 ms of the 200.000001 ms"),
        (200, {"ingress": 20, "execution": 100, "return": 20}, "no budget for waiting.*left are 60 ms"),
        (200, {}, "no budget for ingress, waiting, execution, return"),
    ],
)
def test_an_infeasible_budget_is_refused_with_the_conflict(
    tmp_path: Path, e2e_ms: float, parts: dict[str, float], said: str
) -> None:
    """SPEC A4."""
    with pytest.raises(BudgetError, match=f"infeasible: .*{said}"):
        read_budget(write_budget(tmp_path, e2e_ms, parts))


def test_a_first_token_that_comes_too_late_is_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="80 ms, which leaves nothing of the 80 ms to the first token"):
        read_budget(write_budget(tmp_path, 200, dict(SEED), "ttft_ms = 80"))
    assert read_budget(write_budget(tmp_path, 200, dict(SEED), "ttft_ms = 80.1"))


@given(st.lists(st.integers(0, 10**6), min_size=4, max_size=4), st.integers(1, 4 * 10**6))
def test_only_parts_that_are_each_less_and_together_the_whole_are_feasible(some: list[int], whole: int) -> None:
    parts = dict(zip(PARTS, some, strict=True))
    feasible = sum(some) == whole and max(some) < whole
    assert (conflict(Slo(e2e_ns=whole), parts) is None) == feasible
    assert (conflict(Slo(e2e_ns=max(sum(some), 1)), parts) is None) == (sum(x > 0 for x in some) > 1)


def test_causes_have_limits_too_and_a_family_is_all_below_it(tmp_path: Path, golden_run: Path) -> None:
    parts = {"ingress": 10.0, "waiting": 60.0, "execution": 100.0, "return": 30.0}
    path = write_budget(tmp_path, 200, parts)
    path.write_text(path.read_text() + "[causes]\nqueue = 1\nPREFILL = 50\n")
    budget = read_budget(path)
    assert budget.causes == {"QUEUE": 1 * MS, "PREFILL": 50 * MS}
    with Session(golden_run) as session:
        verdict = judge(session, budget, parse_filter("id:req-2"))
        lost = session.query("SELECT sum(ns)::BIGINT AS ns FROM causes WHERE rid = 2 AND cause LIKE 'QUEUE/%'")
    by_name = {kept.name: kept for kept in verdict.kept}
    assert list(by_name)[-2:] == ["QUEUE", "PREFILL"]
    assert (by_name["QUEUE"].ok, by_name["QUEUE"].of) == (False, 1)
    assert by_name["QUEUE"].worst == [{"request_id": "req-2", "ns": lost.to_pylist()[0]["ns"]}]
    assert (by_name["PREFILL"].ok, by_name["PREFILL"].inside) == (True, 1)
    assert by_name["e2e"].of == 1
    path.write_text(path.read_text().replace("queue", "quee"))
    with pytest.raises(SloError, match="did you mean QUEUE"):
        read_budget(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slo]\ne2e_ms = 1\n", "no section [budget]"),
        ("[budget]\n", "no section [slo]"),
        ("[slo]\nttft_ms = 1\n[budget]\n", "has no e2e_ms"),
        ("[slo]\ne2e_ms = 1\n[budget]\nwaitng = 1", "did you mean waiting"),
        ("[slo]\ne2e_ms = 1\n[budget]\nwaiting = -1", "not between 0"),
        ("[slo]\ne2e_ms = 1\n[budget]\nwaiting = 'long'", "not a number"),
    ],
)
def test_a_file_that_is_no_budget_is_told(tmp_path: Path, golden_run: Path, text: str, said: str) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(text)
    done = tailtrace(golden_run, path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_each_part_is_counted_against_its_own_limit(tmp_path: Path) -> None:
    lives = [(20, 60, 100, 20), (5, 75, 100, 20), (20, 10, 101, 21), (0, 0, 1, 0)]
    rows = {"requests": [timed(rid, *life) for rid, life in enumerate(lives, 1)]}
    run, path = write_run(tmp_path, rows), write_budget(tmp_path, 200, dict(SEED))
    done = tailtrace(run, path, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["budget"]
    assert {name: part["inside"] for name, part in found.items()} == {
        "ingress": 4, "waiting": 3, "execution": 3, "return": 3, "e2e": 4,
    }  # fmt: skip
    assert {name: part["ok"] for name, part in found.items() if not part["ok"]}.keys() == {
        "waiting", "execution", "return",
    }  # fmt: skip
    assert found["waiting"]["worst"] == [{"request_id": "req-2", "ms": 75.0}]
    assert (found["waiting"]["p50"], found["waiting"]["p95"], found["waiting"]["p99"]) == (10.0, 75.0, 75.0)


def test_a_kept_budget_is_exit_code_0_and_a_share_forgives_the_rest(tmp_path: Path) -> None:
    rows = {"requests": [*(timed(rid, 20, 60, 100, 20) for rid in range(1, 4)), timed(4, 20, 61, 100, 20)]}
    run = write_run(tmp_path, rows)
    assert tailtrace(run, write_budget(tmp_path, 200, dict(SEED))).returncode == 1
    done = tailtrace(run, write_budget(tmp_path, 200, dict(SEED), "share = 0.75"))
    assert done.returncode == 0, done.stdout
    assert "the budget is kept" in done.stdout
    assert "req-4 61.0" in done.stdout


def test_who_got_no_answer_is_outside_end_to_end_and_who_has_not_ended_is_in_no_share(tmp_path: Path) -> None:
    """SPEC F4."""
    rows = {
        "requests": [
            *(timed(rid, 20, 60, 100, 20) for rid in range(1, 4)),
            request(4, 9, Status.REJECTED, returned_ms=10, output_tokens=0),
            request(5, 9, Status.OPEN),
        ]
    }
    done = tailtrace(write_run(tmp_path, rows), write_budget(tmp_path, 200, dict(SEED)))
    assert done.returncode == 1
    assert "over budget: e2e" in done.stdout
    assert "75.0%" in done.stdout
    assert "1 request without an answer: outside, end to end" in done.stdout
    assert "1 request not ended: in no share" in done.stdout


def test_the_parts_sum_to_the_whole_and_phases_are_shown_within(golden: Session, tmp_path: Path) -> None:
    parts = {"ingress": 1, "waiting": 20, "execution": 20, "return": 2}
    verdict = judge(golden, read_budget(write_budget(tmp_path, 43, dict(parts), "ttft_ms = 33\ntpot_ms = 9")))
    inside = {kept.name: (kept.inside, kept.of) for kept in verdict.kept}
    assert inside == {
        "ingress": (1, 2), "waiting": (1, 2), "execution": (2, 2), "return": (1, 2),
        "ttft": (2, 2), "tpot": (0, 1), "e2e": (2, 6),
    }  # fmt: skip
    assert [phase["name"] for phase in verdict.phases["waiting"]] == ["queue"]
    assert verdict.phases["execution"][0] == {"name": "prefill", "p50": 10.0, "p95": 10.0, "p99": 10.0}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({}, "no request has ended"),
        ({"requests": [request(1, 0, Status.OPEN)]}, "no request has ended"),
        ({"requests": [request(1, 0, returned_ms=5)]}, "stamps are missing"),
    ],
)
def test_a_run_that_cannot_tell_says_so(tmp_path: Path, rows: dict[str, Any], said: str) -> None:
    done = tailtrace(write_run(tmp_path, rows), write_budget(tmp_path, 200, dict(SEED)))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_budget_needs_neither_the_engine_nor_screens() -> None:
    script = "import sys, console.commands.budget; print(sorted({'torch', 'engine', 'textual'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_lines_fit_and_no_run_is_bad_input(golden_run: Path, tmp_path: Path) -> None:
    done = tailtrace(golden_run, write_budget(tmp_path, 200, dict(SEED)))
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert tailtrace(Path("/no/such/run"), write_budget(tmp_path, 200, dict(SEED))).returncode == 2
