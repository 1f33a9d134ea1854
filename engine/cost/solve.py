"""Least squares for costs: no coefficient below zero, and few wild observations do not pull the rest."""

from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_HUBER: Final = 1.345
"""Residuals beyond this many standard deviations count less than by their square; the textbook's value."""
_ROUNDS: Final = 12


def non_negative(columns: Array, target: Array) -> Array:
    """Shape (k,): the coefficients >= 0 that bring `columns` (n, k) closest to `target` (n,). k is small.

    The best solution is an ordinary one over some of the columns, so every subset of them is tried, on the triangle of
    one QR decomposition.
    """
    scale = np.linalg.norm(columns, axis=0)
    scale[scale == 0] = 1
    triangle: Array = np.linalg.qr(np.column_stack([columns / scale, target])).R
    left, right = triangle[:, :-1], triangle[:, -1]
    best, least = np.zeros(columns.shape[1]), float(right @ right)
    for size in range(1, columns.shape[1] + 1):
        for chosen in combinations(range(columns.shape[1]), size):
            some, *_ = np.linalg.lstsq(left[:, chosen], right, rcond=1e-12)
            missed = left[:, chosen] @ some - right
            if (some >= 0).all() and float(missed @ missed) < least:
                least = float(missed @ missed)
                best = np.zeros(columns.shape[1])
                best[list(chosen)] = some
    solved: Array = best / scale
    return solved


def robust(columns: Array, target: Array) -> Array:
    """Shape (k,): as `non_negative`, for positive targets of any size, with relative residuals and Huber's weights.

    What small stalls add is no property of a step, yet it is time that passes: at the end all coefficients are scaled
    by `passed`.
    """
    found = _huber(columns, target, target)
    return found * passed(target, columns @ found)


def passed(target: Array, predicted: Array) -> float:
    """The factor that brings predictions to the time that passed. A large stall counts no more than its step itself:
    what comes once in a recording would be spread over every step that is ever predicted."""
    whole = float(predicted.sum())
    return float(np.minimum(target, 2 * predicted).sum()) / whole if whole > 0 else 1.0


def slopes(columns: Array, target: Array, kind: Array) -> Array:
    """Shape (k,): how the positive `target` (n,) rises with `columns` (n, k) among observations of one `kind` (n,).

    What a kind takes by itself is thus of no importance. As `robust`, but nothing is scaled.
    """
    columns, centred = columns.copy(), target.copy()
    for each in np.unique(kind):
        alike = kind == each
        columns[alike] -= columns[alike].mean(axis=0)
        centred[alike] -= np.median(target[alike])
    return _huber(columns, centred, target)


def _huber(columns: Array, target: Array, size: Array) -> Array:
    """Coefficients >= 0 for residuals relative to `size`, the large ones weighted down."""
    weights = 1 / size
    found = non_negative(columns * weights[:, None], target * weights)
    for _ in range(_ROUNDS):
        relative = (columns @ found - target) / size
        spread = 1.4826 * float(np.median(np.abs(relative)))
        if spread < 1e-9:
            break
        huber = np.sqrt(np.minimum(1, _HUBER * spread / np.maximum(np.abs(relative), 1e-300)))
        weights = huber / size
        found = non_negative(columns * weights[:, None], target * weights)
    return found
