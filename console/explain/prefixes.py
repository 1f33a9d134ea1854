"""Whether the prefix cache stopped to hit at some instant: the split of a run that tells two hit rates apart. Pure."""

from dataclasses import dataclass
from typing import Final

LEAST: Final = 10
"""Requests on each side of a split."""
_HIT: Final = 0.2
"""A cache that gave less than this share of the prompts before can't be missed."""
_LEFT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Split:
    """Where the cache may have stopped to hit: the columns are those of `Shift`, None where nothing was ever cached."""

    t: int | None
    rid: int | None
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Shift:
    """From `t` on (the arrival of request `rid`) the cache gave the share `after` of prompt tokens, `before` before."""

    t: int
    rid: int
    before: float
    after: float


def hits_lost(split: Split) -> Shift | None:
    """The change, if half of the hits or more were lost there."""
    if split.t is None or split.rid is None or split.before is None or split.after is None:
        return None
    lost = split.before >= _HIT and split.after <= _LEFT * split.before
    return Shift(split.t, split.rid, split.before, split.after) if lost else None
