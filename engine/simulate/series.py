"""Stretches of passes alike as arithmetic series: each pass takes the same time longer than the one before."""

import math


def series(passes: int, pace: int, slope: int) -> int:
    """Time of `passes` passes, of which the first takes `pace` and each `slope` more than the one before."""
    return passes * pace + slope * (passes * (passes - 1) // 2)


def passes_within(gap: int, pace: int, slope: int) -> int:
    """Passes that begin within the next `gap` > 0: the least number whose series reaches it."""
    if not slope:
        return -(-gap // pace)
    half = pace - slope / 2
    passes = max(1, int((math.sqrt(half * half + 2 * slope * gap) - half) / slope))
    short = gap - series(passes, pace, slope)  # the root is rounded: correct it in whole numbers
    while short > 0:
        short -= pace + slope * passes
        passes += 1
    while passes > 1 and short + pace + slope * (passes - 1) <= 0:
        passes -= 1
        short += pace + slope * passes
    return passes
