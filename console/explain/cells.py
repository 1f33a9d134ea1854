"""The excess of slow requests over typical ones in pieces: by cause, root and culprit, to the nanosecond. Pure.

A cell holds the sums of both cohorts, so its excess is a difference of two means, and those of all cells sum to the
excess of E2E exactly. Two causes are a request's own work, and are split by what made it more: having asked for more
(LENGTH), having found less in the cache (MISSES), or slower steps (PACE). The first two are valued at the typical
requests' pace.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

DECODES: Final = frozenset({"DECODE", "DECODE/PHASE"})
PREFILLS: Final = frozenset({"PREFILL", "PREFILL/PHASE"})
"""Work on a request of its own; where steps were not recorded, with whatever held it up meanwhile."""

LENGTH: Final = "LENGTH"
MISSES: Final = "MISSES"
PACE: Final = "PACE"


@dataclass(frozen=True, slots=True)
class Cell:
    """What both cohorts lost to one cause through one culprit, sums in ns. `root` is as in the view `causes`."""

    cause: str
    root: str
    culprit: int | None
    slow_ns: int
    typical_ns: int
    culprits: int = 0
    """How many are behind it, where they are not told apart."""
    measured: bool = True


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
