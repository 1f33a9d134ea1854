"""What a load amounts to: nearest ranks, the lag rule, and that unanswered requests are not forgotten."""

import math

from hypothesis import given
from hypothesis import strategies as st

from engine.load.client import Outcome
from engine.load.summary import lag_limit_ms, lines, quantile, summarise

MS = 1_000_000


def _outcomes(n: int, lag_ms: float = 0.0, gap_ms: int = 100) -> list[Outcome]:
    return [
        Outcome(
            id=f"w-{i}",
            due=i * gap_ms * MS,
            sent=round((i * gap_ms + lag_ms) * MS),
            first_token=(i * gap_ms + 50) * MS,
            last_token=(i * gap_ms + 90) * MS,
            done=(i * gap_ms + 91) * MS,
            status="ok",
            output_tokens=5,
        )
        for i in range(n)
    ]


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.floats(0, 1))
def test_a_quantile_is_the_smallest_value_that_covers_its_share(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert sum(value <= found for value in values) >= q * len(values)
    smaller = [value for value in values if value < found]
    assert len(smaller) < max(1, math.ceil(q * len(values)))


def test_times_run_from_the_instant_a_request_was_due() -> None:
    summary = summarise(_outcomes(10, lag_ms=3))
    assert summary["shape"] == "open loop"
    assert summary["ttft_ms"] == {"p50": 50, "p95": 50, "p99": 50, "max": 50}
    assert summary["tpot_ms"]["p50"] == 10
    assert summary["e2e_ms"]["max"] == 91
    assert summary["send_lag_ms"]["p99"] == 3
    assert (summary["requests"], summary["ok"], summary["valid"]) == (10, 10, True)


def test_the_limit_is_10_ms_or_a_tenth_of_the_mean_gap() -> None:
    assert lag_limit_ms([0, 20 * MS, 40 * MS]) == 10
    assert lag_limit_ms([0, 0, 1000 * MS]) == 50
    assert lag_limit_ms([5]) == 10


def test_a_load_that_was_sent_late_is_invalid_and_says_so() -> None:
    assert summarise(_outcomes(100, lag_ms=10))["valid"]
    late = summarise(_outcomes(100, lag_ms=10.1))
    assert not late["valid"]
    assert any("INVALID" in line for line in lines(late))


def test_what_was_never_sent_counts_as_late() -> None:
    outcomes = _outcomes(10)
    outcomes[3].sent = outcomes[3].done = None
    outcomes[3].status = "failed"
    summary = summarise(outcomes)
    assert not summary["valid"]
    assert (summary["ok"], summary["failed"]) == (9, 1)


def test_nothing_answered_is_shown_as_unknown() -> None:
    summary = summarise([Outcome(id="a", due=0, sent=0, done=0, status="rejected")])
    assert summary["rejected"] == 1
    assert summary["ttft_ms"]["p99"] is None
    assert any("TTFT" in line and "-" in line for line in lines(summary))
