"""Whether a device breathes with its requests, or is held down by a queue that nobody sees (SPEC B4). Pure."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from console.diagnosis import Finding, Grade
from console.timeline import Floats
from console.widgets.ink import duration, percent

BREATHES: Final = (0.30, 0.95)
STUCK: Final = (0.85, 0.92)
STILL: Final = 0.05
WATCHED_NS: Final = 300 * 10**9
"""A utilisation that is stuck, or whose standard deviation stays under `STILL`, over five minutes."""
CHAT_TURN_NS: Final = (200_000_000, 500_000_000)
TOKEN_NS: Final = (80_000_000, 150_000_000)
HOARDED_NS: Final = 2 * 10**9
"""A period beyond this is that of something that gathers requests."""
BUSY_SMS: Final = 0.85

_MOSTLY: Final = 0.9
_LOUD: Final = 0.1
_NOISE: Final = 4.0
"""A period has to hold so many times the power that chance would give the loudest of as many frequencies."""
_SHORTEST: Final = 32
_QUIET: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Levels:
    """A utilisation (0 to 1; NaN where not known) every `every_ns`."""

    shares: Floats
    every_ns: int


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A utilisation (0 to 1) over `ns`, taken every `every_ns` from `source`. What is not known is None.

    `low` and `high` are its P5 and P95; `stillest` the smallest standard deviation of any five minutes. `period_ns`
    holds `strength` (0 to 1) of its power, one of noise alone has none.
    """

    source: str
    every_ns: int
    ns: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None
    stillest: float | None
    period_ns: int | None
    strength: float | None
    sm_activity: float | None
    findings: tuple[Finding, ...]


def rhythm(source: str, busy: Levels, fine: Levels, sm_activity: Floats) -> Rhythm:
    """Judge a utilisation, and find the period of a finer one.

    `sm_activity` are readings of the driver's meter (0 to 1), empty where it offers none.
    """
    known, every_ns = busy.shares[~np.isnan(busy.shares)], busy.every_ns
    period, strength = dominant_period(fine.shares, fine.every_ns)
    activity = float(sm_activity.mean()) if len(sm_activity) else None
    spread = [float(value) for value in np.quantile(known, [0.05, 0.95])] if len(known) else [None, None]
    stillest = _stillest(known, every_ns)
    findings = (_breath(known, every_ns), _stillness(stillest, every_ns * len(known)), _pace(period), _sms(activity))
    return Rhythm(
        source,
        every_ns,
        every_ns * len(known),
        float(known.mean()) if len(known) else None,
        float(known.std()) if len(known) else None,
        spread[0],
        spread[1],
        stillest,
        period,
        strength,
        activity,
        findings,
    )


def dominant_period(levels: Floats, every_ns: int) -> tuple[int | None, float | None]:
    """The period in ns that holds most of the power of `levels`, and its share of it; None, None where none stands out.

    By FFT under a Hann window. Periods over half of the time are left out: nothing has been seen to come back.
    """
    n = len(levels)
    if n < _SHORTEST or np.isnan(levels).all():
        return None, None
    swing = np.where(np.isnan(levels), 0.0, levels - np.nanmean(levels))
    power = np.abs(np.fft.rfft(swing * np.hanning(n))) ** 2
    power[:2] = 0.0
    whole = float(power.sum())
    if whole <= _QUIET * n:
        return None, None
    loudest = int(power.argmax())
    strength = float(power[max(loudest - 1, 0) : loudest + 2].sum()) / whole
    if strength < max(_LOUD, _NOISE * math.log(len(power)) / len(power)):
        return None, None
    return round(n * every_ns / _between(power, loudest)), strength


def _between(power: Floats, loudest: int) -> float:
    """The frequency in whole steps and a fraction: the centre of the peak and its two neighbours."""
    places = np.arange(max(loudest - 1, 0), min(loudest + 2, len(power)))
    return float((places * power[places]).sum() / power[places].sum())


def _stillest(known: Floats, every_ns: int) -> float | None:
    """The smallest standard deviation of any five minutes; None where there are no five minutes."""
    size = WATCHED_NS // every_ns
    if len(known) < size:
        return None
    sums, squares = (np.concatenate([[0.0], np.cumsum(known**power)]) for power in (1, 2))
    mean = (sums[size:] - sums[:-size]) / size
    variance = (squares[size:] - squares[:-size]) / size - mean**2
    return math.sqrt(max(float(variance.min()), 0.0))


def _breath(known: Floats, every_ns: int) -> Finding:
    if not len(known):
        return Finding("breath", "unknown", "no utilisation was recorded")
    stuck = float(((known >= STUCK[0]) & (known <= STUCK[1])).mean())
    long = every_ns * len(known) >= WATCHED_NS
    if stuck >= _MOSTLY and long:
        said = f"stuck: {percent(stuck)} of the time at {STUCK[0]:.0%} to {STUCK[1]:.0%}, a hidden queue is likely"
        return Finding("breath", "bad", said)
    within = float(((known >= BREATHES[0]) & (known <= BREATHES[1])).mean())
    above, below = float((known > BREATHES[1]).mean()), float((known < BREATHES[0]).mean())
    told = f"{percent(within)} of the time at {BREATHES[0]:.0%} to {BREATHES[1]:.0%}"
    told += f", {percent(above)} above, {percent(below)} below"
    grade: Grade = "watch" if above > 0.5 or below > 0.5 else "good"
    return Finding("breath", grade, told)


def _stillness(stillest: float | None, ns: int) -> Finding:
    if stillest is None:
        return Finding("stillness", "unknown", f"takes {duration(WATCHED_NS)} to judge, there are {duration(ns)}")
    told = f"smallest standard deviation of five minutes {stillest * 100:.1f} points"
    if stillest < STILL:
        return Finding("stillness", "bad", f"{told}, under {STILL * 100:.0f}: a hidden queue is likely")
    return Finding("stillness", "good", told)


def _pace(period_ns: int | None) -> Finding:
    if period_ns is None:
        return Finding("period", "unknown", "none stands out of the noise")
    told = f"{duration(period_ns)}"
    for name, (low, high) in (("a chat turn", CHAT_TURN_NS), ("a token", TOKEN_NS)):
        if low <= period_ns <= high:
            return Finding("period", "good", f"{told}, the pace of {name} ({duration(low)} to {duration(high)})")
    if period_ns > HOARDED_NS:
        return Finding(
            "period", "watch", f"{told}: over {duration(HOARDED_NS)}, something gathers requests, or they come so"
        )
    chat, token = (f"{duration(low)} to {duration(high)}" for low, high in (CHAT_TURN_NS, TOKEN_NS))
    return Finding("period", "watch", f"{told}, neither that of a chat turn ({chat}) nor of a token ({token})")


def _sms(activity: float | None) -> Finding:
    if activity is None:
        return Finding("SM activity", "unknown", "no driver offered it")
    grade: Grade = "good" if activity > BUSY_SMS else "watch"
    return Finding("SM activity", grade, f"mean {percent(activity)} (over {BUSY_SMS:.0%} makes use of the device)")
