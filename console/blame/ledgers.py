"""Where the time of a cohort went, by phase and cause, to the nanosecond; and what two cohorts differ in (SPEC F3)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from console.blame.cohorts import Cohorts
from console.measures import E2E
from console.report import UNNAMED
from console.session import Session, rows
from console.theme import cause_order
from recorder.words import Phase

if TYPE_CHECKING:
    import duckdb

_PHASES: Final = tuple(phase.value for phase in Phase)

Order = Callable[[str], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Sums in ns over `n` answered requests. Phases and causes each sum to `e2e_ns`, by their rows UNNAMED.

    `modelled` are causes that in part rest on a prediction.
    """

    n: int
    e2e_ns: int
    phases: Mapping[str, int]
    causes: Mapping[str, int]
    modelled: frozenset[str] = frozenset()

    def mean(self, ns: int) -> Fraction:
        """What a request of the cohort lost on average. Raises ZeroDivisionError for a cohort of nobody."""
        return Fraction(ns, self.n)


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The cohorts of a run: the slow ones, the typical ones."""

    cohorts: Cohorts
    slow: Ledger
    typical: Ledger


@dataclass(frozen=True, slots=True)
class Excess:
    """What a slow request lost to one phase or cause more than a typical one, on average, in ns. Exact.

    `share` is of the difference of mean E2E; None where the means are equal.
    """

    name: str
    slow: Fraction
    typical: Fraction
    share: Fraction | None

    @property
    def ns(self) -> Fraction:
        """Slow minus typical."""
        return self.slow - self.typical


def read_ledgers(session: Session, cohorts: Cohorts, cursor: "duckdb.DuckDBPyConnection") -> Ledgers:
    """The ledgers of the cohorts, of the answered requests that the cursor sees."""
    found = rows(session.ask("ledger", cursor=cursor, **cohorts.params)) if cohorts.edge is not None else []

    def of(cohort: str) -> Ledger:
        return ledger_of(row for row in found if row["cohort"] == cohort)

    return Ledgers(cohorts, of("slow"), of("typical"))


def read_whole(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Ledger:
    """The ledger of all answered requests that the cursor sees."""
    nobody = {"measure": E2E.name, "edge": None, "at": False, "low": None, "high": None}
    return ledger_of(rows(session.ask("ledger", cursor=cursor, **nobody)))


def ledger_of(found: Iterable[Mapping[str, object]]) -> Ledger:
    """The ledger of one cohort from rows `kind, name, ns, n, measured`; what is missing of E2E is UNNAMED."""
    parts: dict[str, dict[str, int]] = {"e2e": {}, "phase": {}, "cause": {}}
    modelled, n = set(), 0
    for row in found:
        kind, name = str(row["kind"]), str(row["name"])
        parts[kind][name] = int(str(row["ns"]))
        if kind == "e2e":
            n = int(str(row["n"]))
        if not row["measured"]:
            modelled.add(name)
    whole = sum(parts["e2e"].values())
    phases, causes = _closed(parts["phase"], whole), _closed(parts["cause"], whole)
    return Ledger(n, whole, in_order(phases, phase_order), in_order(causes, cause_order), frozenset(modelled))


def excess(slow: Ledger, typical: Ledger, kind: str) -> list[Excess]:
    """What the slow cohort lost more, by `phases` or `causes`, largest first; none where one cohort is empty.

    The rows sum to the difference of the mean E2E exactly.
    """
    if not slow.n or not typical.n:
        return []
    ours: Mapping[str, int] = getattr(slow, kind)
    theirs: Mapping[str, int] = getattr(typical, kind)
    whole = slow.mean(slow.e2e_ns) - typical.mean(typical.e2e_ns)
    found = []
    for name in {**ours, **theirs}:
        mine, other = slow.mean(ours.get(name, 0)), typical.mean(theirs.get(name, 0))
        found.append(Excess(name, mine, other, (mine - other) / whole if whole else None))
    return sorted(found, key=lambda row: (row.name == UNNAMED, -row.ns, row.name))


def phase_order(name: str) -> tuple[int, str]:
    """Sorts phases in the order of a request's life; what has no name last."""
    return (_PHASES.index(name) if name in _PHASES else len(_PHASES) + (name == UNNAMED)), name


def in_order(parts: Mapping[str, int], order: Order) -> dict[str, int]:
    """Parts sorted as a reader expects them."""
    return {name: parts[name] for name in sorted(parts, key=order)}


def _closed(parts: Mapping[str, int], whole: int) -> dict[str, int]:
    """With the row UNNAMED, always: what the parts leave of the whole, added to what already is there."""
    return {**parts, UNNAMED: parts.get(UNNAMED, 0) + whole - sum(parts.values())}
