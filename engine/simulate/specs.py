"""Workloads that are described, not listed: `poisson:rate=8,n=1000,prompt=lognormal(200, 0.8),output=64`, or in TOML.

The same seed gives the same workload. Arrivals, prompts, outputs, tiers and think times are drawn from streams of their
own, so that a change of one leaves the others as they were (SPEC D7).
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from engine.simulate.lengths import SpecError, distribution, number
from engine.simulate.workload import Ints, ThinkTime, Workload

SPEC: Final = re.compile(r"[a-z]+:[a-z_]+\s*=.*", re.DOTALL)
"""What a description in one line looks like."""
_S: Final = 1e9
_MOST: Final = 100_000_000
_ARRIVALS, _PROMPT, _OUTPUT, _TIERS, _THINK = range(5)

Values = Mapping[str, object]


def parse_spec(text: str) -> dict[str, object]:
    """The keys of a description in one line; commas inside brackets separate nothing."""
    kind, _, rest = text.partition(":")
    values: dict[str, object] = {"kind": kind}
    for part in re.split(r",(?![^()]*\))", rest):
        key, found, value = part.partition("=")
        if not found:
            raise SpecError(f"{text}: {part.strip()!r} is no key=value")
        if key.strip() in values:
            raise SpecError(f"{text}: {key.strip()} is given twice")
        values[key.strip()] = value.strip()
    return values


def make_workload(values: Values, seed: int) -> Workload:
    """The workload that the keys describe. Raises SpecError for a key or value that can't be."""
    kind = str(values.get("kind", ""))
    if kind not in _KINDS:
        said = f"unknown kind of workload {kind!r}" if kind else "no kind of workload is given"
        raise SpecError(f"{said}; known are {', '.join(_KINDS)}")
    keys, arrive = _KINDS[kind]
    _check_keys(values, kind, keys)
    rng = {stream: np.random.default_rng([seed, stream]) for stream in range(5)}
    arrival, n = arrive(values, rng[_ARRIVALS])
    output = _lengths(values, "output", n, rng[_OUTPUT], default=128)
    asked = _count(values, "max_tokens", 0)
    loop = "closed loop" if kind == "closed" else "open loop"
    return Workload(
        arrival=arrival,
        prompt_tokens=_lengths(values, "prompt", n, rng[_PROMPT], default=256),
        max_tokens=np.full(n, asked or int(output.max(initial=1))),
        output_tokens=output,
        open_ended=not asked,
        tiers=_tiers(values, n, rng[_TIERS]),
        closed=ThinkTime(len(arrival), _times(values, "think_s", n, rng[_THINK])) if kind == "closed" else None,
        about={"loop": loop, "spec": {key: _plain(value) for key, value in values.items()}, "arrivals": n},
    )


def _check_keys(values: Values, kind: str, keys: tuple[str, ...]) -> None:
    known = ("kind", *keys, *_COMMON)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known[1:])}"
            raise SpecError(f"a {kind} workload has no key {key!r}; {hint}")


# -- arrivals ----------------------------------------------------------------------------------------------------------


def _poisson(values: Values, rng: np.random.Generator) -> tuple[Ints, int]:
    rate, n = _positive(values, "rate"), _n(values)
    return _ns(np.cumsum(rng.exponential(1 / rate, n))), n


def _steady(values: Values, rng: np.random.Generator) -> tuple[Ints, int]:
    """One after the other at equal distances, the first at 0."""
    rate, n = _positive(values, "rate"), _n(values)
    return _ns(np.arange(n) / rate), n


def _bursts(values: Values, rng: np.random.Generator) -> tuple[Ints, int]:
    """`size` requests every `every_s`, those of a burst spread evenly at random over `spread_s`."""
    n, size, every = _n(values), max(_count(values, "size", 1), 1), _positive(values, "every_s")
    spread = number(values.get("spread_s", 0), "spread_s")
    return _ns(np.sort(np.arange(n) // size * every + rng.uniform(0, 1, n) * spread)), n


def _stages(values: Values, rng: np.random.Generator) -> tuple[Ints, int]:
    """Poisson arrivals at one rate after the other: `levels=2x60+8x30` is 2 a second for 60 s, then 8 for 30 s."""
    begins, arrivals = 0.0, []
    for part in str(values.get("levels", "")).split("+"):
        rate, _, duration = part.partition("x")
        lasts = _positive({"levels": duration or "missing"}, "levels")
        expected = number(rate, "levels") * lasts
        if expected > _MOST:
            raise SpecError(f"levels: {part} brings more than {_MOST:,} requests")
        arrivals.append(begins + np.sort(rng.uniform(0, lasts, rng.poisson(expected))))
        begins += lasts
    arrival = _ns(np.concatenate(arrivals))
    return arrival, _not_none(len(arrival), "levels")


def _closed(values: Values, rng: np.random.Generator) -> tuple[Ints, int]:
    """`users` begin at 0, or spread evenly at random over `ramp_s`."""
    n, users = _n(values), _count(values, "users", 1)
    if not 1 <= users <= n:
        raise SpecError(f"users: {users} users can't share {n} requests; give at least one each")
    ramp = number(values.get("ramp_s", 0), "ramp_s")
    return _ns(np.sort(rng.uniform(0, 1, users) * ramp)), n


_KINDS: Final[dict[str, tuple[tuple[str, ...], Callable[[Values, np.random.Generator], tuple[Ints, int]]]]] = {
    "poisson": (("rate", "n"), _poisson),
    "steady": (("rate", "n"), _steady),
    "bursts": (("size", "every_s", "spread_s", "n"), _bursts),
    "stages": (("levels",), _stages),
    "closed": (("users", "think_s", "ramp_s", "n"), _closed),
}
_COMMON: Final = ("prompt", "output", "max_tokens", "tiers")


# -- values ------------------------------------------------------------------------------------------------------------


def _ns(seconds: object) -> Ints:
    whole: Ints = np.rint(np.asarray(seconds) * _S).astype(np.int64)
    return whole


def _n(values: Values) -> int:
    return _not_none(_count(values, "n", 1000), "n")


def _not_none(n: int, key: str) -> int:
    if not 1 <= n <= _MOST:
        raise SpecError(f"{key}: {n} requests; it must be from 1 to {_MOST:,}")
    return n


def _count(values: Values, key: str, default: int) -> int:
    value = number(values.get(key, default), key)
    if value != int(value):
        raise SpecError(f"{key}: {values[key]} is not a whole number")
    return int(value)


def _positive(values: Values, key: str) -> float:
    if key not in values:
        raise SpecError(f"{key} is missing; a number above 0")
    value = number(values[key], key)
    if value <= 0:
        raise SpecError(f"{key}: {values[key]} must be above 0")
    return value


def _lengths(values: Values, key: str, n: int, rng: np.random.Generator, default: int) -> Ints:
    drawn = np.rint(distribution(values.get(key, default), key)(rng, n))
    lengths: Ints = np.maximum(drawn, 1).astype(np.int64)
    return lengths


def _times(values: Values, key: str, n: int, rng: np.random.Generator) -> Ints:
    return _ns(distribution(values.get(key, 1), key)(rng, n))


def _tiers(values: Values, n: int, rng: np.random.Generator) -> list[str] | None:
    """`paid*0.8+free*0.2`, or a table of shares; shares are made to sum to 1."""
    given = values.get("tiers")
    if not given:
        return None
    pairs = list(given.items()) if isinstance(given, Mapping) else [_tier(part) for part in str(given).split("+")]
    shares = np.array([_positive({f"tiers {name}": share}, f"tiers {name}") for name, share in pairs])
    names = [str(name) for name, _ in pairs]
    return [names[place] for place in rng.choice(len(names), n, p=shares / shares.sum()).tolist()]


def _tier(part: str) -> tuple[str, object]:
    name, _, share = part.partition("*")
    return name.strip(), share or 1


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value
