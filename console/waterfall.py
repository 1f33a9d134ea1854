"""A whole cut into parts that follow each other, and the cells of a row that each of them has. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from console.theme import cause_order


@dataclass(frozen=True, slots=True)
class Fall:
    """What one cause took of an attempt, ns: it begins where the causes before it ended, `before` ns into the whole."""

    cause: str
    ns: int
    before: int
    measured: bool


def falls(causes: Iterable[Mapping[str, Any]]) -> list[Fall]:
    """Rows `cause, ns, measured` as one step a cause, in the order of a request's life; the last ends the whole."""
    taken: dict[str, int] = {}
    modelled: set[str] = set()
    for row in causes:
        taken[row["cause"]] = taken.get(row["cause"], 0) + row["ns"]
        modelled |= set() if row["measured"] else {row["cause"]}
    ordered = sorted(taken, key=cause_order)
    return falls_of_rows({"cause": name, "ns": taken[name], "measured": name not in modelled} for name in ordered)


def falls_of_rows(rows: Iterable[Mapping[str, Any]]) -> list[Fall]:
    """Rows `cause, ns, measured` as one step each, in their order."""
    found, before = [], 0
    for row in rows:
        found.append(Fall(row["cause"], row["ns"], before, row["measured"]))
        before += row["ns"]
    return found


def cells(before: int, ns: int, whole: int, room: int) -> range:
    """Which of `room` cells a part touches that begins `before` into the whole.

    Parts that follow each other share at most one cell, and whatever lasted has one.
    """
    if whole <= 0 or room <= 0 or ns <= 0:
        return range(0)
    first = min(max(before * room // whole, 0), room - 1)
    return range(first, min(max(-(-(before + ns) * room // whole), first + 1), room))
