"""Marks: instants of a run that somebody wants to come back to. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

Marks = tuple["Mark", ...]
"""In the order of time, at most one an instant."""

_LETTERS: Final = 26


class Mark(msgspec.Struct, frozen=True, order=True):
    """An instant, ns on the run's clock, and what somebody calls it."""

    at: int
    label: str


def with_mark(marks: Marks, at: int, label: str) -> Marks:
    """One more mark; a second one at an instant takes the place of the first. Without a label it gets a letter."""
    others = [mark for mark in marks if mark.at != at]
    return tuple(sorted([*others, Mark(at, label.strip() or _next_letter(others))]))


def without_mark(marks: Marks, at: int) -> Marks:
    """All but the one at that instant."""
    return tuple(mark for mark in marks if mark.at != at)


def _next_letter(marks: Sequence[Mark]) -> str:
    """`a` to `z`, then `a1` and so on: the first that no mark has."""
    taken = {mark.label for mark in marks}
    names = (
        chr(ord("a") + i % _LETTERS) + (str(i // _LETTERS) if i >= _LETTERS else "") for i in range(len(marks) + 1)
    )
    return next(name for name in names if name not in taken)
