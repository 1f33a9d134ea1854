"""What makes latency vary: Var(E2E) = sum of Var(part) + 2 sum of Cov(part, part), over phases or causes (VProfiler).

Everything is exact: sums of products of whole ns come from SQL, and fractions of them are shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING, Final

from console.report import UNNAMED
from console.session import Session, rows
from console.views import PHASES
from recorder.attribution import CAUSES

if TYPE_CHECKING:
    import duckdb

_WHOLE: Final = "E2E"
_ONE: Final = "1"
_WORD: Final = 2**63
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
    bounds = rows(session.find(bounds_sql(kind), cursor=cursor))[0]
    most = {_ONE: 1, **{name: int(str(ns)) for name, ns in bounds.items() if ns is not None}}
    names = [name for name in sorted(most) if name not in (_ONE, _WHOLE, UNNAMED)]
    pairs = [(_WHOLE, _WHOLE), *((a, b) for a, b in combinations_with_replacement([_ONE, *names], 2))]
    pairs += [(name, _WHOLE) for name in (_ONE, *names)]
    sums = rows(session.find(products_sql(kind, pairs, most), cursor=cursor))[0]
    return spread_of((a, b, int(str(sums[f"s{place}"] or 0))) for place, (a, b) in enumerate(pairs))


def bounds_sql(kind: str) -> str:
    """The most ns that any request spent in each part and in all, NULL where there is no such part.

    A filter narrows phases; a cause of the run is a part of every spread, though it be 0.
    """
    parts, table = (PHASES, "phase_times") if kind == "phases" else (CAUSES, "memory.main.cause_times")
    longest = [f'max(abs({_column(name)})) AS "{name}"' for name in (_WHOLE, *parts)]
    return f"SELECT {', '.join(longest)} FROM {table}"


def products_sql(kind: str, pairs: Sequence[tuple[str, str]], most: Mapping[str, int]) -> str:
    """The sums over all answered requests of the products of these pairs, `s0`, `s1`, ..., as text: they are exact.

    A product that `most` says to fit into a word is worked out in one, which takes a third of the time.
    """
    table = "phase_times" if kind == "phases" else "cause_times"
    sums = [f"sum({_product(a, b, most)})::VARCHAR AS s{place}" for place, (a, b) in enumerate(pairs)]
    return f"SELECT {', '.join(sums)} FROM {table} WHERE status = 'ok' AND e2e_ns IS NOT NULL"


def _product(a: str, b: str, most: Mapping[str, int]) -> str:
    fits = most.get(a, 0) * most.get(b, 0) < _WORD
    return f"{_column(a)}{'' if fits else '::HUGEINT'} * {_column(b)}"


def _column(name: str) -> str:
    return {_ONE: "1", _WHOLE: "e2e_ns"}.get(name, f'"{name}"')


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
