"""What figures of a run say about its health, by rules that are printed beside the verdict (SPEC B3, B5, C13). Pure.

Every rule gives a `Finding`: a name, a grade, and a sentence with the figures in it. What was not recorded gets the
grade `unknown` and says so; no rule guesses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from console.timeline import Floats, Ints
from console.widgets.ink import duration, percent

Grade = Literal["good", "watch", "bad", "unknown"]

HEALTHY_RATIO: Final = 1.8
SICK_RATIO: Final = 3.0
"""P99/P50 of a pulse test: at most the first is healthy, over the second is to be investigated (SPEC B3)."""
HEALTHY_REFUSALS: Final = (0.005, 0.03)
MOST_RETRIES: Final = 1.2
LEAST_FIRST_RETRIES: Final = 0.995
"""The rejection board's bounds (SPEC B5)."""

_BUCKETS: Final = 24
_WIDE: Final = 10
"""Buckets of the tail that a plateau spans at least: in a bell's or an exponential's tail no such stretch is level."""
_LEVEL: Final = 0.9
"""A stretch is level where its right half holds at least so many requests for each one of its left half."""
_ENOUGH: Final = 50
"""Requests over P75 from which on there is a tail to look at, and (`_LEAST`) those a plateau holds at least."""
_LEAST: Final = 40
_NOTABLE: Final = 0.05
_FEW: Final = 100
"""With fewer requests P99 is the slowest of them."""
_RISE: Final = 1.5
_SHRINK: Final = 0.8
_SOME: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule makes of the figures."""

    name: str
    grade: Grade
    said: str


@dataclass(frozen=True, slots=True)
class Ranks:
    """Latencies of `n` answered requests by nearest rank (SPEC E4), ns; None where none was answered."""

    n: int
    p50_ns: int | None
    p75_ns: int | None
    p99_ns: int | None
    p995_ns: int | None
    max_ns: int | None


Below = Callable[[Floats], Ints]
"""How many took less than each of these, in ns."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """A stretch of the right tail, ns, in which requests do not become fewer, and the share of all that lie in it."""

    low_ns: int
    high_ns: int
    requests: int
    share: float


@dataclass(frozen=True, slots=True)
class Pulse:
    """The right tail of `n` latencies. `buckets` are counts over equal stretches from P50 to the maximum, ns."""

    n: int
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    ratio: float | None
    buckets: tuple[int, ...]
    plateau: Plateau | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Refusals:
    """Attempts answered with 429 or 529, and those of them that were told in ms when to come again."""

    attempts: int
    refused: int
    timed: int


@dataclass(frozen=True, slots=True)
class Retries:
    """What became of the requests that were refused.

    `retries` are attempts after the first; `firsts` the requests with at least one, `firsts_ok` those whose first
    retry was answered. `told`: the run says of some attempt which one it retries.
    """

    requests: int
    retries: int
    firsts: int
    firsts_ok: int
    told: bool


@dataclass(frozen=True, slots=True)
class Board:
    """The rejection board (SPEC B5). A share that is not known is None."""

    refused_share: float | None
    retries_per_refused: float | None
    first_retry_ok: float | None
    findings: tuple[Finding, ...]


def pulse(latencies_ns: Ints, refusals: Refusals) -> Pulse:
    """The diagnosis of a pulse test (SPEC B3) from the raw latencies of answered requests, in any order."""
    ordered = np.sort(latencies_ns)
    n = len(ordered)
    found = [_rank(ordered, percentile) if n else None for percentile in (50, 75, 99, 99.5, 100)]
    return pulse_of(Ranks(n, *found), lambda edges: np.searchsorted(ordered, edges, "left"), refusals)


def pulse_of(ranks: Ranks, below: Below, refusals: Refusals) -> Pulse:
    """The same from a few of the latencies, and from how many lie below others."""
    p50, p99, most = ranks.p50_ns, ranks.p99_ns, ranks.max_ns
    if p50 is None or p99 is None or most is None:
        nothing = Finding("tail", "unknown", "no request was answered")
        return Pulse(0, None, None, None, None, (), None, (nothing, _refusals(refusals, "unknown")))
    edges = np.linspace(p50, max(most, p50 + 1), _BUCKETS + 1), _stretch(ranks)
    under = below(np.concatenate(edges))
    counts = np.diff(np.append(under[:_BUCKETS], ranks.n))
    plateau = _plateau_of(ranks, edges[1], under[_BUCKETS + 1 :])
    ratio = _ratio(p50, p99, ranks.n)
    findings = (ratio, _plateau(plateau, ranks.n), _refusals(refusals, ratio.grade))
    return Pulse(ranks.n, p50, p99, most, p99 / p50 if p50 > 0 else None, tuple(counts.tolist()), plateau, findings)


def _stretch(ranks: Ranks) -> Floats:
    """The edges of `_BUCKETS` equal parts of what lies from P75 to P99.5."""
    return np.linspace(ranks.p75_ns or 0, ranks.p995_ns or 0, _BUCKETS + 1)


def _plateau_of(ranks: Ranks, edges: Floats, under: Ints) -> Plateau | None:
    """The widest stretch from P75 to P99.5 that is level, where it reaches beyond what is healthy; None if none does.

    A smooth tail falls everywhere; waiting in a full queue is a stretch that does not.
    """
    n = ranks.n
    if n * (1 - 0.75) < _ENOUGH or edges[-1] - edges[0] < _BUCKETS:
        return None
    beyond = HEALTHY_RATIO * (ranks.p50_ns or 0)
    for size in range(_BUCKETS, _WIDE - 1, -1):
        for first in range(_BUCKETS - size + 1):
            if edges[first + size] > beyond and _is_level(under, first, size, n):
                inside = int(under[first + size] - under[first])
                return Plateau(int(edges[first]), int(edges[first + size]), inside, inside / n)
    return None


def _is_level(below: Ints, first: int, size: int, n: int) -> bool:
    half = size // 2
    left = below[first + half] - below[first]
    right = below[first + size] - below[first + size - half]
    return bool(left + right >= max(_LEAST, _NOTABLE * n) and right >= _LEVEL * left)


def board(refusals: Refusals, retries: Retries) -> Board:
    """The rejection board (SPEC B5)."""
    share = refusals.refused / refusals.attempts if refusals.attempts else None
    per_refused = retries.retries / retries.requests if retries.told and retries.requests else None
    first_ok = retries.firsts_ok / retries.firsts if retries.told and retries.firsts else None
    return Board(
        share,
        per_refused,
        first_ok,
        (_refused_share(share, refusals), _retries(per_refused, retries), _first_retry(first_ok, retries)),
    )


def pressure(waiting: Floats, batch: Floats, preemptions: Floats) -> tuple[Finding, ...]:
    """What grows and what shrinks (SPEC C13): requests waiting, requests in a step, preemptions, each per equal time.

    NaN where nothing was recorded, or no step ran. The last third is held against the first.
    """
    return _beyond_memory(preemptions), _limited(waiting, batch)


def _ratio(p50: int, p99: int, n: int) -> Finding:
    if p50 <= 0:
        return Finding("tail", "unknown", "P50 is 0")
    ratio = p99 / p50
    grade: Grade = "good" if ratio <= HEALTHY_RATIO else "watch" if ratio <= SICK_RATIO else "bad"
    words = {"good": "healthy", "watch": "above healthy", "bad": "investigate"}[grade]
    few = f"; of {n} requests P99 is the slowest" if n < _FEW else ""
    bounds = f"healthy to {HEALTHY_RATIO}, investigate over {SICK_RATIO:g}"
    return Finding("tail", grade, f"{words}: P99 {duration(p99)} is {ratio:.2f} x P50 {duration(p50)} ({bounds}){few}")


def _plateau(plateau: Plateau | None, n: int) -> Finding:
    if plateau is not None:
        stretch = f"from {duration(plateau.low_ns)} to {duration(plateau.high_ns)}"
        said = f"saturated queue: the tail does not fall {stretch}, {percent(plateau.share)} of the requests"
        return Finding("plateau", "bad", said)
    if n * (1 - 0.75) < _ENOUGH:
        return Finding("plateau", "unknown", f"{n} requests are too few to tell, {4 * _ENOUGH} would do")
    return Finding("plateau", "good", f"none beyond {HEALTHY_RATIO} x P50: there the tail falls")


def _refusals(refusals: Refusals, tail: Grade) -> Finding:
    if not refusals.refused:
        grade: Grade = "good" if tail == "good" else "watch"
        return Finding("429s", grade, "none: whoever came was made to wait, however long")
    timed, refused = refusals.timed, refusals.refused
    told = f"{timed:,} of {refused:,} refusals (429, 529) told in ms when to come again"
    return Finding("429s", "good" if timed == refused else "bad" if not timed else "watch", told)


def _refused_share(share: float | None, refusals: Refusals) -> Finding:
    if share is None:
        return Finding("refused", "unknown", "no attempt was made")
    low, high = HEALTHY_REFUSALS
    grade: Grade = "bad" if share > high else "watch" if share < low else "good"
    count = f"{percent(share)}: {refusals.refused:,} of {refusals.attempts:,} attempts got 429 or 529"
    return Finding("refused", grade, f"{count} (healthy {percent(low)} to {percent(high)})")


def _retries(per_refused: float | None, retries: Retries) -> Finding:
    if per_refused is None:
        return Finding("retries", "unknown", _not_known(retries))
    grade: Grade = "good" if per_refused <= MOST_RETRIES else "bad"
    return Finding("retries", grade, f"{per_refused:.2f} for each refused request (at most {MOST_RETRIES})")


def _first_retry(first_ok: float | None, retries: Retries) -> Finding:
    if first_ok is None:
        said = _not_known(retries) if not retries.told or not retries.requests else "nobody who was refused came again"
        return Finding("first retry", "unknown", said)
    grade: Grade = "good" if first_ok >= LEAST_FIRST_RETRIES else "bad"
    told = f"{percent(first_ok)} of {retries.firsts:,} first retries were answered"
    return Finding("first retry", grade, f"{told} (at least {percent(LEAST_FIRST_RETRIES)})")


def _not_known(retries: Retries) -> str:
    if not retries.requests:
        return "nobody was refused"
    return "not known: no attempt says which one it retries"


def _beyond_memory(preemptions: Floats) -> Finding:
    first, last = _thirds(preemptions, _total)
    total = int(_total(preemptions))
    if not total:
        return Finding("memory", "good", "no preemption")
    told = f"{total:,} preemptions, {first:,.0f} in the first third of the time and {last:,.0f} in the last"
    if total >= _SOME and last > _RISE * first:
        return Finding("memory", "bad", f"rising preemptions, admitted beyond memory: {told}")
    return Finding("memory", "watch", told)


def _limited(waiting: Floats, batch: Floats) -> Finding:
    (queue_then, queue_now), (batch_then, batch_now) = _thirds(waiting, _mean), _thirds(batch, _mean)
    if np.isnan([queue_then, queue_now, batch_then, batch_now]).any():
        return Finding("admission", "unknown", "too few passes to tell")
    told = f"waiting {queue_then:,.1f} then {queue_now:,.1f}, in a step {batch_then:,.1f} then {batch_now:,.1f}"
    if queue_now >= max(queue_then, 1.0) and batch_now <= _SHRINK * batch_then:
        return Finding("admission", "bad", f"full queue with shrinking batches, something limits admission: {told}")
    return Finding("admission", "good", f"nothing but load limits it: {told}")


def _thirds(values: Floats, measure: Callable[[Floats], float]) -> tuple[float, float]:
    third = max(len(values) // 3, 1)
    return measure(values[:third]), measure(values[-third:])


def _total(values: Floats) -> float:
    return float(np.nansum(values))


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _rank(ordered: Ints, percentile: float) -> int:
    """Nearest rank."""
    return int(ordered[max(-int(-len(ordered) * percentile // 100), 1) - 1])
