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
from console.views import quoted

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
    table, name = ("spans", "name") if kind == "phases" else ("causes", "cause")
    found = session.query(f"SELECT DISTINCT {name} AS name FROM {table} ORDER BY name", cursor=cursor)
    names = [str(one) for one in found["name"].to_pylist() if one != UNNAMED]
    pairs = [(_WHOLE, _WHOLE), *((a, b) for a, b in combinations_with_replacement([_ONE, *names], 2))]
    pairs += [(name, _WHOLE) for name in (_ONE, *names)]
    sums = rows(session.query(products_sql(table, name, names, pairs), cursor=cursor))[0]
    return spread_of((a, b, int(str(sums[f"s{place}"] or 0))) for place, (a, b) in enumerate(pairs))


def products_sql(table: str, column: str, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> str:
    """The sums over all answered requests of the products of these pairs, `s0`, `s1`, ..., as text: they are exact.

    A part is a column of one row a request, since rows of parts joined with themselves would be tens of times as many.
    """
    columns = {_ONE: "1::HUGEINT", _WHOLE: "e2e_ns", **{name: f"p{place}" for place, name in enumerate(names)}}
    spent = "ns" if table == "causes" else '"end" - start'
    parts = [f"sum({spent}) FILTER ({column} = {quoted(name)}) AS {columns[name]}" for name in names]
    sums = [f"sum({columns[a]} * {columns[b]})::VARCHAR AS s{place}" for place, (a, b) in enumerate(pairs)]
    return f"""
WITH lived AS (SELECT rid, attempt, e2e_ns::HUGEINT AS e2e_ns FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL),
parts AS (
    SELECT {", ".join(["rid", "attempt", *parts])}
    FROM {table} SEMI JOIN lived USING (rid, attempt)
    GROUP BY rid, attempt
)
SELECT {", ".join(sums)} FROM lived LEFT JOIN parts USING (rid, attempt)"""


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
