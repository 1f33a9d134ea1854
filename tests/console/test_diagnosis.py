"""The rules that judge a run: at their bounds, on planted tails, and where nothing can be known."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.diagnosis import Board, Finding, Pulse, Refusals, Retries, board, pressure, pulse
from console.timeline import Floats, Ints

MS = 1_000_000
NOBODY = Refusals(100, 0, 0)


def named(findings: tuple[Finding, ...], name: str) -> Finding:
    return next(finding for finding in findings if finding.name == name)


def grade_of(found: Pulse | Board, name: str) -> str:
    return named(found.findings, name).grade


def tail_of(p50_ms: float, p99_ms: float) -> Ints:
    """200 latencies with these two percentiles by nearest rank."""
    return (np.array([p50_ms] * 197 + [p99_ms] * 3) * MS).astype(np.int64)


@pytest.mark.parametrize(
    ("p99_ms", "grade"), [(180.0, "good"), (180.1, "watch"), (300.0, "watch"), (300.1, "bad")]
)  # fmt: skip
def test_the_ratio_is_healthy_to_1_8_and_sick_beyond_3(p99_ms: float, grade: str) -> None:
    """SPEC B3."""
    found = pulse(tail_of(100, p99_ms), NOBODY)
    assert found.p99_ns == round(p99_ms * MS)
    assert found.ratio == pytest.approx(p99_ms / 100)
    assert grade_of(found, "tail") == grade


def test_a_queue_that_is_full_leaves_a_plateau() -> None:
    """SPEC B3: most are served at once, the rest wait anything up to what the queue holds."""
    dice = np.random.default_rng(1)
    at_once, queued = dice.normal(100, 8, 900), dice.uniform(150, 900, 100)
    found = pulse((np.concatenate([at_once, queued]) * MS).astype(np.int64), NOBODY)
    assert found.plateau is not None
    assert 120 * MS < found.plateau.low_ns < 320 * MS
    assert 700 * MS < found.plateau.high_ns < 900 * MS
    assert "saturated queue" in named(found.findings, "plateau").said


@pytest.mark.parametrize(
    "draw",
    [
        lambda dice: dice.normal(100, 8, 1_000),
        lambda dice: 50 + dice.exponential(40, 1_000),
        lambda dice: dice.lognormal(4, 1, 1_000),
        lambda dice: dice.gamma(3, 30, 1_000),
    ],
    ids=["bell", "exponential", "long", "gamma"],
)
def test_a_tail_that_falls_has_no_plateau(draw: Callable[[np.random.Generator], Floats]) -> None:
    """Of a hundred tails of each kind hardly any is mistaken."""
    mistaken = 0
    for seed in range(100):
        latencies = np.sort((draw(np.random.default_rng(seed)) * MS).astype(np.int64))
        mistaken += pulse(latencies, NOBODY).plateau is not None
    assert mistaken <= 5


def test_a_level_stretch_within_what_is_healthy_is_no_plateau() -> None:
    spread = np.sort(np.random.default_rng(2).uniform(100, 170, 1_000) * MS).astype(np.int64)
    assert pulse(spread, NOBODY).plateau is None


def test_too_few_requests_tell_no_plateau() -> None:
    found = pulse(np.arange(1, 100) * MS, NOBODY)
    assert grade_of(found, "plateau") == "unknown"
    assert "P99 is the slowest" in named(found.findings, "tail").said


def test_nobody_answered() -> None:
    found = pulse(np.array([], np.int64), Refusals(3, 3, 0))
    assert (found.n, found.ratio, found.plateau, found.buckets) == (0, None, None, ())
    assert grade_of(found, "tail") == "unknown"
    assert grade_of(found, "429s") == "bad"


def test_all_took_no_time() -> None:
    found = pulse(np.zeros(300, np.int64), NOBODY)
    assert found.ratio is None
    assert grade_of(found, "tail") == "unknown"
    assert sum(found.buckets) == 300


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300))
def test_the_histogram_counts_the_upper_half(latencies: list[int]) -> None:
    found = pulse(np.array(latencies), NOBODY)
    assert found.p50_ns is not None
    assert sum(found.buckets) == sum(latency >= found.p50_ns for latency in latencies)


@pytest.mark.parametrize(("timed", "grade"), [(10, "good"), (9, "watch"), (0, "bad")])
def test_refusals_should_say_when_to_come_again(timed: int, grade: str) -> None:
    assert grade_of(pulse(tail_of(100, 120), Refusals(200, 10, timed)), "429s") == grade


def test_without_refusals_a_long_tail_is_what_everybody_waits_in() -> None:
    assert grade_of(pulse(tail_of(100, 120), NOBODY), "429s") == "good"
    assert grade_of(pulse(tail_of(100, 400), NOBODY), "429s") == "watch"


@pytest.mark.parametrize(("refused", "grade"), [(4, "watch"), (5, "good"), (30, "good"), (31, "bad")])
def test_half_a_percent_to_three_are_refused_in_health(refused: int, grade: str) -> None:
    """SPEC B5."""
    assert grade_of(board(Refusals(1_000, refused, refused), Retries(0, 0, 0, 0, told=False)), "refused") == grade


def test_the_board_at_its_bounds() -> None:
    """SPEC B5: at most 1.2 retries a refused request, at least 99.5 % of the first ones answered."""
    good = board(Refusals(10_000, 100, 100), Retries(100, 120, 100, 100, told=True))
    assert (good.retries_per_refused, good.first_retry_ok) == (1.2, 1.0)
    assert [finding.grade for finding in good.findings] == ["good"] * 3
    bad = board(Refusals(10_000, 300, 300), Retries(200, 241, 200, 198, told=True))
    assert [finding.grade for finding in bad.findings] == ["good", "bad", "bad"]


def test_what_nobody_recorded_is_not_known() -> None:
    untold = board(Refusals(1_000, 10, 10), Retries(10, 0, 0, 0, told=False))
    assert (untold.retries_per_refused, untold.first_retry_ok) == (None, None)
    assert named(untold.findings, "retries").said.startswith("not known")
    unrefused = board(Refusals(1_000, 0, 0), Retries(0, 0, 0, 0, told=False))
    assert named(unrefused.findings, "retries").said == "nobody was refused"
    patient = board(Refusals(1_000, 10, 10), Retries(10, 0, 0, 0, told=True))
    assert named(patient.findings, "first retry").said == "nobody who was refused came again"
    assert grade_of(board(Refusals(0, 0, 0), Retries(0, 0, 0, 0, told=False)), "refused") == "unknown"


def over_time(*thirds: float) -> Floats:
    return np.repeat(np.array(thirds, float), 4)


def test_rising_preemptions_are_admission_beyond_memory() -> None:
    """SPEC C13."""
    flat = over_time(1, 1, 1)
    rising = named(pressure(flat, flat, over_time(1, 2, 4)), "memory")
    assert (rising.grade, "admitted beyond memory" in rising.said) == ("bad", True)
    assert named(pressure(flat, flat, over_time(2, 2, 2)), "memory").grade == "watch"
    assert named(pressure(flat, flat, over_time(0, 0, 0)), "memory").grade == "good"


def test_a_full_queue_with_shrinking_batches_is_something_that_limits_admission() -> None:
    """SPEC C13."""
    nobody = over_time(0, 0, 0)
    limited = named(pressure(over_time(5, 6, 8), over_time(10, 9, 8), nobody), "admission")
    assert (limited.grade, "something limits admission" in limited.said) == ("bad", True)
    assert named(pressure(over_time(5, 6, 8), over_time(10, 10, 9), nobody), "admission").grade == "good"
    assert named(pressure(over_time(0, 0, 0.5), over_time(10, 9, 2), nobody), "admission").grade == "good"
    assert named(pressure(over_time(8, 6, 5), over_time(10, 9, 2), nobody), "admission").grade == "good"


def test_without_steps_nothing_is_said_of_admission() -> None:
    nothing = np.full(6, np.nan)
    assert named(pressure(nothing, nothing, nothing), "admission").grade == "unknown"
    assert named(pressure(np.array([]), np.array([]), np.array([])), "admission").grade == "unknown"
