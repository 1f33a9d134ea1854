"""Who took whose time: victims and culprits, by class and one by one. All of it sums to the budget (SPEC F2)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from console.measures import phase_column
from console.session import Session, rows
from console.theme import cause_order
from console.views import PHASES

if TYPE_CHECKING:
    import duckdb

CLASSES: Final = ("tier", "prompt", "model", "tenant", "cause")
"""What requests can be grouped by: `prompt` is a band of the prompt's length in tokens; by `cause` the rows are causes
of lost time, and culprits have bands of prompts."""

TOP: Final = 20


@dataclass(frozen=True, slots=True)
class Interference:
    """A matrix in ns: `cells[victims, culprits][cause]`. Culprits None: nobody, the time is the victim's own.

    A class "" is of requests without that word; culprits "unknown" are not in the run. All cells sum to `e2e_ns`, the
    end-to-end time of all victims.
    """

    by: str
    cells: Mapping[tuple[str, str | None], Mapping[str, int]]

    @property
    def victims(self) -> list[str]:
        """The rows, those who lost most to others first."""
        return sorted({victim for victim, _ in self.cells}, key=lambda victim: (-self.blamed(victim), victim))

    @property
    def culprits(self) -> list[str]:
        """The columns without nobody, those who took most first."""
        found = {culprit for _, culprit in self.cells if culprit is not None}
        return sorted(found, key=lambda culprit: (-sum(self.ns(v, culprit) for v in self.victims), culprit))

    @property
    def e2e_ns(self) -> int:
        """The budget: what all victims' requests took."""
        return sum(sum(causes.values()) for causes in self.cells.values())

    def ns(self, victims: str, culprits: str | None) -> int:
        """What one class lost to another."""
        return sum(self.cells.get((victims, culprits), {}).values())

    def blamed(self, victims: str) -> int:
        """What a class lost to others in all."""
        return sum(sum(causes.values()) for (v, c), causes in self.cells.items() if v == victims and c is not None)


def read_interference(session: Session, by: str, cursor: "duckdb.DuckDBPyConnection") -> Interference:
    """The matrix by one of `CLASSES`; victims are the answered requests that the cursor sees."""
    found = rows(session.ask("interference", cursor=cursor, by="prompt" if by == "cause" else by))
    return interference_of(by, found)


def interference_of(by: str, found: Iterable[Mapping[str, object]]) -> Interference:
    """From rows `victims, culprits, cause, ns`."""
    cells: dict[tuple[str, str | None], Counter[str]] = {}
    for row in found:
        culprits = None if row["culprits"] is None else str(row["culprits"])
        victims = str(row["cause" if by == "cause" else "victims"])
        cells.setdefault((victims, culprits), Counter())[str(row["cause"])] += int(str(row["ns"]))
    in_order = {key: dict(sorted(causes.items(), key=lambda one: cause_order(one[0]))) for key, causes in cells.items()}
    return Interference(by, in_order)


def read_pairs(session: Session, cursor: "duckdb.DuckDBPyConnection", top: int = TOP) -> Sequence[dict[str, Any]]:
    """Victims and culprits one by one: `rid`, `attempt`, `request_id`, `culprit`, `culprit_id`, `ns`, `causes`."""
    return rows(session.ask("interference_pairs", cursor=cursor, top=top))


def read_victims(
    session: Session, cursor: "duckdb.DuckDBPyConnection", kind: str, name: str, top: int = TOP
) -> Sequence[dict[str, Any]]:
    """Who lost most to one of the `phases` or `causes`: `rid`, `attempt`, `request_id`, `ns`, `e2e_ns`, `share`."""
    if kind == "phases" and name not in PHASES:
        return []  # what phases leave of a request's time is a row of the budget, and in no table
    column = phase_column(name) if kind == "phases" else name
    return rows(session.ask("victims", cursor=cursor, column=column, top=top))


def read_culprits(
    session: Session, cursor: "duckdb.DuckDBPyConnection", top: int = TOP, cause: str | None = None
) -> Sequence[dict[str, Any]]:
    """Who took most, in all or by one cause: `culprit`, `culprit_id`, `tier`, `prompt_tokens`, `ns`, `victims`.

    `causes` are what of, `whole_ns` is what all culprits took together.
    """
    return rows(session.ask("culprits", cursor=cursor, top=top, cause=cause))
