"""The breath of a device (SPEC B4): planted periods are found, stuck ones named, noise is none."""

import numpy as np
import pytest

from console.diagnosis import Finding
from console.rhythm import Levels, Rhythm, dominant_period, rhythm
from console.timeline import Floats

MS = 1_000_000
NO_METER = np.array([])


def wave(period_ms: float, seconds: float = 30.0, every_ms: int = 10) -> Floats:
    """A utilisation that swings between 30 % and 90 %."""
    t = np.arange(int(seconds * 1e3 / every_ms)) * every_ms
    swing: Floats = 0.6 + 0.3 * np.sin(2 * np.pi * t / period_ms)
    return swing


def judged(shares: Floats, every_ms: int = 50, fine: Floats = NO_METER, meter: Floats = NO_METER) -> Rhythm:
    return rhythm("test", Levels(shares, every_ms * MS), Levels(fine, 10 * MS), meter)


def named(found: Rhythm, name: str) -> Finding:
    return next(finding for finding in found.findings if finding.name == name)


@pytest.mark.parametrize("period_ms", [30, 87.5, 120, 333, 480, 2_600])
def test_a_planted_period_is_found_in_noise(period_ms: float) -> None:
    noise = np.random.default_rng(3).normal(0, 0.2, 3_000)
    period, strength = dominant_period(wave(period_ms) + noise, 10 * MS)
    assert period is not None and strength is not None
    assert period == pytest.approx(period_ms * MS, rel=0.02)
    assert 0.1 < strength <= 1


def test_noise_and_stillness_have_no_period() -> None:
    found = [dominant_period(np.random.default_rng(seed).normal(0.5, 0.2, 2_000), 10 * MS)[0] for seed in range(50)]
    assert found.count(None) >= 49
    assert dominant_period(np.full(2_000, 0.7), 10 * MS) == (None, None)
    assert dominant_period(wave(100, seconds=0.2), 10 * MS) == (None, None)
    assert dominant_period(np.full(100, np.nan), 10 * MS) == (None, None)


def test_what_is_not_known_does_not_beat() -> None:
    holes = wave(120)
    holes[500:700] = np.nan
    period, _ = dominant_period(holes, 10 * MS)
    assert period == pytest.approx(120 * MS, rel=0.02)


@pytest.mark.parametrize(
    ("period_ms", "grade", "words"),
    [(120, "good", "a token"), (300, "good", "a chat turn"), (2_500, "watch", "gather"), (175, "watch", "neither")],
)
def test_the_period_is_held_against_the_requests(period_ms: float, grade: str, words: str) -> None:
    finding = named(judged(wave(period_ms), fine=wave(period_ms)), "period")
    assert (finding.grade, words in finding.said) == (grade, True)


def test_a_device_that_breathes_is_well() -> None:
    found = judged(np.tile(wave(300, every_ms=50, seconds=3), 110))
    assert named(found, "breath").grade == "good"
    assert named(found, "stillness").grade == "good"
    assert found.mean == pytest.approx(0.6, abs=0.01)


def test_five_minutes_at_85_to_92_percent_hide_a_queue() -> None:
    found = judged(np.full(6_000, 0.88))
    assert (named(found, "breath").grade, named(found, "stillness").grade) == ("bad", "bad")
    assert "hidden queue" in named(found, "breath").said


def test_five_still_minutes_among_lively_ones_are_found() -> None:
    lively = np.tile([0.3, 0.9], 3_000)
    found = judged(np.concatenate([lively, np.full(6_000, 0.6), lively]))
    assert found.stillest == pytest.approx(0.0, abs=1e-6)
    assert named(found, "stillness").grade == "bad"


def test_less_than_five_minutes_are_not_judged() -> None:
    found = judged(np.full(5_999, 0.88))
    assert found.stillest is None
    assert named(found, "stillness").grade == "unknown"
    assert named(found, "breath").grade == "good"


def test_mostly_idle_or_always_busy_is_watched() -> None:
    assert named(judged(np.full(100, 1.0)), "breath").grade == "watch"
    assert named(judged(np.full(100, 0.1)), "breath").grade == "watch"


def test_nothing_recorded_is_nothing_known() -> None:
    found = judged(np.array([]))
    assert (found.mean, found.deviation, found.low, found.period_ns) == (None, None, None, None)
    assert {finding.grade for finding in found.findings} == {"unknown"}


@pytest.mark.parametrize(("meter", "grade"), [([0.86, 0.9], "good"), ([0.5], "watch"), ([], "unknown")])
def test_sm_activity_should_be_over_85_percent(meter: list[float], grade: str) -> None:
    assert named(judged(wave(100), meter=np.array(meter)), "SM activity").grade == grade
