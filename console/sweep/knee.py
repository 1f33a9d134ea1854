"""Where a load sweep should stop: the highest load that still meets the SLO before saturation (SPEC D3). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

LEAST_GAIN: Final = Fraction(1, 2)
"""Where throughput rises by less than this share of what the load rises by, the server is saturated."""

SATURATION_FORMULA: Final = (
    "throughput rises by less than half the factor that the load rises by since the level before"
)
KNEE_FORMULA: Final = "highest load before the first level that misses the SLO or saturates"

Why = Literal["slo", "saturated", "beyond"]


@dataclass(frozen=True)
class Point:
    """One level of load; `throughput` in answers per second, 0 where nothing was answered."""

    load: Fraction
    throughput: Fraction
    meets_slo: bool


@dataclass(frozen=True)
class Knee:
    """`place` among the points; None if already the lowest load misses. `why` the next one is not it.

    `beyond`: every level held, so the knee lies at the highest load that was tried, or above.
    """

    place: int | None
    why: Why


def saturated(points: Sequence[Point]) -> list[bool]:
    """Which points lie at or beyond saturation; of the first there is nothing to tell. Loads must ascend."""
    marks: list[bool] = []
    for place, point in enumerate(points):
        before = points[place - 1] if place else None
        marks.append(bool(marks and marks[-1]) or (before is not None and _flattens(before, point)))
    return marks


def find_knee(points: Sequence[Point]) -> Knee:
    """The knee of points whose loads ascend."""
    for place, (point, full) in enumerate(zip(points, saturated(points), strict=True)):
        if not point.meets_slo or full:
            return Knee(place - 1 if place else None, "slo" if not point.meets_slo else "saturated")
    return Knee(len(points) - 1 if points else None, "beyond")


def _flattens(before: Point, after: Point) -> bool:
    """Compared without dividing: `(b.t - a.t) / a.t < LEAST_GAIN * (b.load - a.load) / a.load`."""
    gained = (after.throughput - before.throughput) * before.load
    return gained < LEAST_GAIN * (after.load - before.load) * before.throughput
