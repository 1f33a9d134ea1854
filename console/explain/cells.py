"""The excess of slow requests over typical ones in pieces: by cause, root and culprit, to the nanosecond. Pure.

A cell holds the sums of both cohorts, so its excess is a difference of two means, and those of all cells sum to the
excess of E2E exactly. Two causes are a request's own work, and are split by what made it more: having asked for more
(LENGTH), having found less in the cache (MISSES), or slower steps (PACE). The first two are valued at the typical
requests' pace.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from recorder.attribution.budget import MODELLED

DECODES: Final = frozenset({"DECODE", "DECODE/PHASE"})
PREFILLS: Final = frozenset({"PREFILL", "PREFILL/PHASE"})
"""Work on a request of its own; where steps were not recorded, with whatever held it up meanwhile."""

LENGTH: Final = "LENGTH"
MISSES: Final = "MISSES"
PACE: Final = "PACE"


@dataclass(frozen=True, slots=True)
class Cell:
    """What the cohorts lost to one cause through one culprit, sums in ns. `root` is as in the view `causes`."""

    cause: str
    root: str
    culprit: int | None
    slow_ns: int
    typical_ns: int
    culprits: int = 0
    """How many are behind it, where they are not told apart."""
    long: bool = False
    missed: bool = False
    """Whoever is behind it had a long prompt to compute; found far less of it in the cache than was found before."""

    @property
    def measured(self) -> bool:
        """Whether stamps alone tell it."""
        return self.cause not in MODELLED


@dataclass(frozen=True, slots=True)
class Blame:
    """What one cohort lost to one cause through one culprit, or through `culprits` that are not told apart."""

    cohort: str
    cause: str
    root: str
    long: bool
    missed: bool
    culprit: int | None
    culprits: int
    ns: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What `n` requests of a cohort asked for in all; E2E in ns. `decodes` are tokens after the first.

    `running` is how many others ran when they came, on average; None where that was not recorded.
    """

    cohort: str
    n: int
    e2e_ns: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    decodes: int
    running: float | None

    @property
    def hit_share(self) -> float:
        """Share of the prompt tokens that came from the cache."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def mean(self, total: int) -> float:
        """A sum, for each request."""
        return total / self.n if self.n else 0.0


NOBODY: Final = Asked("", 0, 0, 0, 0, 0, 0, None)


Spent = Mapping[tuple[str, str], int]
"""(cause, root) -> ns."""


def cells(slow: Spent, typical: Spent, blames: Iterable[Blame]) -> Iterator[Cell]:
    """All that the cohorts lost: through others as far as these are told, and the rest of each cause and root."""
    rest = {"slow": dict(slow), "typical": dict(typical)}
    for blame in blames:
        rest[blame.cohort][blame.cause, blame.root] -= blame.ns
        sides = (blame.ns, 0) if blame.cohort == "slow" else (0, blame.ns)
        many = blame.culprits if blame.culprit is None else 0
        yield Cell(blame.cause, blame.root, blame.culprit, *sides, many, blame.long, blame.missed)
    for key in slow:
        if rest["slow"][key] or rest["typical"][key]:
            yield Cell(*key, None, rest["slow"][key], rest["typical"][key])


def excess(cell: Cell, slow: Asked, typical: Asked) -> Fraction:
    """What a slow request lost in this cell more than a typical one, on average, in ns."""
    return Fraction(cell.slow_ns, slow.n) - Fraction(cell.typical_ns, typical.n)


def split(cells: Iterable[Cell], slow: Asked, typical: Asked) -> Iterator[Cell]:
    """The cells with their own work taken apart; everything else as it is."""
    for cell in cells:
        if cell.cause in DECODES:
            yield from _by_length(cell, slow.decodes, typical.decodes)
        elif cell.cause in PREFILLS:
            yield from _by_cache(cell, slow, typical)
        else:
            yield cell


def _by_length(cell: Cell, slow: int, typical: int) -> Iterator[Cell]:
    """At the typical pace so many tokens would have taken that long; the rest is pace."""
    length = min(cell.typical_ns * slow // typical, cell.slow_ns) if typical else 0
    yield replace(cell, root=LENGTH, slow_ns=length)
    yield replace(cell, root=PACE, slow_ns=cell.slow_ns - length, typical_ns=0)


def _by_cache(cell: Cell, slow: Asked, typical: Asked) -> Iterator[Cell]:
    """As `_by_length`, over the tokens that would have been computed at the typical share of hits."""
    computed = typical.prompt_tokens - typical.cached_tokens
    hits = Fraction(typical.cached_tokens, typical.prompt_tokens) if typical.prompt_tokens else Fraction(0)
    wanted = slow.prompt_tokens * (1 - hits)
    missed = max(slow.prompt_tokens - slow.cached_tokens - wanted, Fraction(0))
    pace = Fraction(cell.typical_ns, computed) if computed > 0 else Fraction(0)
    length = min(int(pace * wanted), cell.slow_ns)
    misses = min(int(pace * missed), cell.slow_ns - length)
    yield replace(cell, root=LENGTH, slow_ns=length)
    yield replace(cell, root=MISSES, slow_ns=misses, typical_ns=0)
    yield replace(cell, root=PACE, slow_ns=cell.slow_ns - length - misses, typical_ns=0)
