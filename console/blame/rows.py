"""The rows of blame's tables that can be selected: what they are about as a filter, and whom they lead to. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from console.blame.interference import Interference
from console.filter import EVERYTHING, Blamed, Bound, Filter, Part, Term, Words


@dataclass(frozen=True, slots=True)
class Row:
    """`only` lets its requests through; `kind` is `phases` or `causes` where it is one of those; `culprit` is a rid."""

    name: str
    only: Filter = EVERYTHING
    kind: str | None = None
    culprit: int | None = None


def part_rows(names: Iterable[str], kind: str) -> list[Row]:
    """Phases or causes: whoever lost time to them."""
    word = cast("Literal['cause', 'phase']", kind.removesuffix("s"))
    found = []
    for name in names:
        is_phase_without_name = word == "phase" and name.isupper()
        only = EVERYTHING if is_phase_without_name else Filter((Part(word, name),))
        found.append(Row(name, only, kind=kind))
    return found


def matrix_rows(found: Interference) -> list[Row]:
    """Classes of victims."""
    kind = "causes" if found.by == "cause" else None
    return [Row(name, Filter(_class(found.by, name)), kind=kind) for name in found.victims]


def culprit_rows(culprits: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Culprits: whom they held up."""
    return [
        Row(str(row["culprit_id"] or row["culprit"]), Filter((Blamed((str(row["culprit"]),)),)), culprit=row["culprit"])
        for row in culprits
    ]


def _class(by: str, name: str) -> tuple[Term, ...]:
    if by == "cause":
        return (Part("cause", name),)
    if by != "prompt" or not name:
        return (Words(by, (name,)),)
    low, _, high = name.partition("-")
    return (Bound("prompt", ">=", int(low)), *([Bound("prompt", "<=", int(high))] if high else []))
