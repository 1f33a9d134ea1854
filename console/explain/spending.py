"""What both cohorts asked for, what their time went into and through whom: the questions behind the cells."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from console.explain.asking import Ask
from console.explain.cells import NOBODY, Asked, Blame, Cell, Spent, cells, split
from console.explain.evidence import Sizes, View
from console.explain.prefixes import Shift
from console.views import ANY_ROOT
from recorder.attribution.budget import UNNAMED

_NAMED: Final = 100
"""Culprits of one cause and root that are told apart."""
_ASKED: Final = tuple(field.name for field in fields(Asked))


class Key(NamedTuple):
    """What time is lost to."""

    cause: str
    root: str

    @property
    def column(self) -> str:
        """Its column in `attempt_times`."""
        return f"{self.cause} {self.root}" if self.cause in ANY_ROOT else self.cause


@dataclass(frozen=True, slots=True)
class Spending:
    """`cells` and `touched` as in the evidence."""

    slow: Asked
    typical: Asked
    cells: tuple[Cell, ...]
    touched: Mapping[str, int]


def read_spending(ask: Ask, view: View, shift: Shift | None) -> Spending:
    """Of the cohort that the view is about whoever is to blame is told apart; of the other whose prompt matters."""
    keys = tuple(dict.fromkeys((Key(UNNAMED, UNNAMED), *ask.all(Key, "spent"))))
    found = {row["cohort"]: row for row in ask.of_both("cohorts", spent=tuple(key.column for key in keys))}
    slow, typical = found.get("slow"), found.get("typical")
    causes = tuple(dict.fromkeys(key.cause for key in keys))
    return Spending(
        slow=_asked(slow),
        typical=_asked(typical),
        cells=_cells(ask, keys, slow, typical, _matters(ask, view, shift)) if slow and typical else (),
        touched={row["cause"]: row["n"] for row in ask.of_slow("touched", causes=causes)},
    )


def _matters(ask: Ask, view: View, shift: Shift | None) -> dict[str, object]:
    """Whose time is told by culprit, and which culprits are apart from others, as `explain_blames` takes it."""
    (sizes,) = ask.all(Sizes, "sizes")
    named = "slow" if view == "tail" else "typical"
    return {"named": named, "most": _NAMED, "long": sizes.long, "hit": None if shift is None else shift.before}


def _cells(
    ask: Ask, keys: Iterable[Key], slow: Mapping[str, Any], typical: Mapping[str, Any], matters: dict[str, object]
) -> tuple[Cell, ...]:
    blames = (Blame(**row) for row in ask.of_both("blames", **matters))
    parts = cells(_spent(slow, keys), _spent(typical, keys), blames)
    return tuple(split(parts, _asked(slow), _asked(typical)))


def _spent(row: Mapping[str, Any], keys: Iterable[Key]) -> Spent:
    return {key: row[key.column] for key in keys}


def _asked(row: Mapping[str, Any] | None) -> Asked:
    return NOBODY if row is None else Asked(**{name: row[name] for name in _ASKED})
