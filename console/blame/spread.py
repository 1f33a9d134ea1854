"""What makes latency vary: Var(E2E) = sum of Var(part) + 2 sum of Cov(part, part), over phases or causes (VProfiler).

Everything is exact: sums of products of whole ns come from SQL, and fractions of them are shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Final

from console.report import UNNAMED
from console.session import Session, rows

if TYPE_CHECKING:
    import duckdb

_WHOLE: Final = "E2E"
_ONE: Final = "1"
KINDS: Final = ("phases", "causes")


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of `n` requests' E2E in ns², and the covariances of the parts that make it up.

    `covariances` holds every two parts once, a part with itself (its variance) included. Twice those of two different
    parts and once those of a part with itself sum to `variance` exactly.
    """

    n: int
    variance: Fraction
    covariances: Mapping[tuple[str, str], Fraction]

    @property
    def parts(self) -> list[str]:
        """The parts, the one with the largest share of the variance first; UNNAMED last."""
        names = [a for a, b in self.covariances if a == b]
        return sorted(names, key=lambda name: (name == UNNAMED, -self.with_whole(name), name))

    def of(self, a: str, b: str) -> Fraction:
        """Cov(a, b), in ns²."""
        return self.covariances[a, b] if (a, b) in self.covariances else self.covariances[b, a]

    def with_whole(self, name: str) -> Fraction:
        """Cov(part, E2E): over all parts these sum to the variance exactly, so it is the part's share of the spread."""
        return sum((cov for pair, cov in self.covariances.items() if name in pair), Fraction(0))

    def share(self, name: str) -> Fraction | None:
        """The part's share of the variance; None where nothing varies. Below 0 where it evens out what others do."""
        return self.with_whole(name) / self.variance if self.variance else None

    def pairs(self) -> list[tuple[str, str, Fraction]]:
        """Two parts and 2 Cov of them, those that matter most first: rising together, or evening each other out."""
        found = [(a, b, 2 * cov) for (a, b), cov in self.covariances.items() if a != b and cov]
        return sorted(found, key=lambda pair: (-abs(pair[2]), pair[:2]))


def read_spread(session: Session, kind: str, cursor: "duckdb.DuckDBPyConnection") -> Spread:
    """The spread of the answered requests that the cursor sees, by one of `KINDS`."""
    found = rows(session.ask(f"spread_{kind}", cursor=cursor))
    return spread_of((str(row["a"]), str(row["b"]), int(str(row["product"]))) for row in found)


def spread_of(products: Iterable[tuple[str, str, int]]) -> Spread:
    """From sums of products of every two parts, of E2E and of the constant 1. What parts leave of E2E is UNNAMED."""
    sums: dict[tuple[str, str], int] = {}
    for a, b, product in products:
        sums[a, b] = sums[b, a] = product
    n = sums.get((_ONE, _ONE), 0)
    if not n:
        return Spread(0, Fraction(0), {})
    names = sorted({a for a, _ in sums} - {_ONE, _WHOLE, UNNAMED})

    def covariance(a: str, b: str) -> Fraction:
        return Fraction(sums.get((a, b), 0) * n - sums.get((a, _ONE), 0) * sums.get((b, _ONE), 0), n * n)

    known = {(a, b): covariance(a, b) for a, b in [*((name, name) for name in names), *combinations(names, 2)]}
    whole = {name: covariance(name, _WHOLE) for name in names}
    return Spread(n, covariance(_WHOLE, _WHOLE), _closed(names, known, whole, covariance(_WHOLE, _WHOLE)))


def _closed(
    names: list[str],
    known: Mapping[tuple[str, str], Fraction],
    whole: Mapping[str, Fraction],
    variance: Fraction,
) -> dict[tuple[str, str], Fraction]:
    """With UNNAMED = E2E - sum of the named parts, whose covariances follow, as Cov is linear on both sides."""
    rest = {name: whole[name] - sum(known[min(name, other), max(name, other)] for other in names) for name in names}
    own = variance - sum(whole.values()) - sum(rest.values())
    return {**known, **{(name, UNNAMED): cov for name, cov in rest.items()}, (UNNAMED, UNNAMED): own}
