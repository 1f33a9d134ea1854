"""Distributions of lengths and times as people write them: 128, uniform(1, 64), lognormal(200, 0.8) and the like."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from recorder.errors import UserError

Numbers = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]
"""So many values of a distribution."""

_CALL: Final = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL)
_LARGEST: Final = 1e9


class SpecError(UserError):
    """A workload that is described in a way that can't be made: says which key, and what it takes."""


def distribution(text: object, key: str) -> Draw:
    """What `text` says, for the key `key`. Raises SpecError."""
    call = _CALL.fullmatch(str(text))
    if call is None:
        return _fixed([number(text, key)], key)
    name, inside = call.groups()
    if name == "empirical":
        return _empirical(Path(inside.strip()), key)
    if name not in _MAKERS:
        raise SpecError(f"{key}: unknown distribution {name}; known are {', '.join([*_MAKERS, 'empirical'])}")
    maker, takes, least, most = _MAKERS[name]
    numbers = [number(part, key) for part in inside.split(",")]
    if not least <= len(numbers) <= most:
        raise SpecError(f"{key}: write {name}({takes}), not {text}")
    return maker(numbers, key)


def number(text: object, key: str) -> float:
    """A plain number from 0 to 1e9. Raises SpecError."""
    try:
        value = float(str(text))
    except ValueError as error:
        raise SpecError(f"{key}: {str(text).strip()!r} is not a number") from error
    if not 0 <= value <= _LARGEST:
        raise SpecError(f"{key}: {str(text).strip()} is not between 0 and {_LARGEST:g}")
    return value


def _fixed(numbers: Sequence[float], key: str) -> Draw:
    (value,) = numbers
    return lambda rng, n: np.full(n, value)


def _uniform(numbers: Sequence[float], key: str) -> Draw:
    low, high = numbers
    if low > high:
        raise SpecError(f"{key}: uniform({low:g}, {high:g}) has no values; write the smaller number first")
    return lambda rng, n: rng.uniform(low, high, n)


def _lognormal(numbers: Sequence[float], key: str) -> Draw:
    median, sigma, *limit = numbers
    if median <= 0:
        raise SpecError(f"{key}: the median of a lognormal must be above 0")
    most = limit[0] if limit else _LARGEST
    return lambda rng, n: np.minimum(rng.lognormal(math.log(median), sigma, n), most)


def _exponential(numbers: Sequence[float], key: str) -> Draw:
    (mean,) = numbers
    return lambda rng, n: rng.exponential(mean, n)


def _empirical(path: Path, key: str) -> Draw:
    """Values drawn from those of a file, one a line."""
    try:
        lines = path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{key}: can't read the values in {path}: {error}") from error
    values = np.array([number(line, f"{key}: {path}:{place}") for place, line in enumerate(lines, 1)])
    if not len(values):
        raise SpecError(f"{key}: {path} is empty; write one number a line")
    return lambda rng, n: rng.choice(values, n)


_MAKERS: Final[dict[str, tuple[Callable[[Sequence[float], str], Draw], str, int, int]]] = {
    "fixed": (_fixed, "value", 1, 1),
    "uniform": (_uniform, "least, most", 2, 2),
    "lognormal": (_lognormal, "median, sigma[, most]", 2, 3),
    "exponential": (_exponential, "mean", 1, 1),
}
