"""Changes of state, as the playhead steps through them: those of the workers, and every request's coming and going."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from console.timeline import Ints
from recorder.schema import NONE

_ARRIVAL: Final = "arrival"
_RETURNED: Final = "returned"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of state at instant `t`."""

    t: int
    rid: int
    kind: str
    reason: str
    other_rid: int | None


class Changes:
    """All of a run. The workers' are rows `t, rid, kind, reason, other_rid`; requests tell of themselves."""

    def __init__(self, events: pa.Table, rids: Ints, arrivals: Ints, returns: Ints) -> None:
        self._words, codes = zip(*(_coded(events[name]) for name in ("kind", "reason")), strict=True)
        numbers = [events[name].to_numpy() for name in ("t", "rid", "other_rid")]
        order = _order(numbers[0], numbers[1], codes[0])
        self._times, self._whose, self._others = (column[order] for column in numbers)
        self._codes = [each[order] for each in codes]
        self._rids, self._arrivals, self._returns = rids, arrivals, returns

    @cached_property
    def instants(self) -> Ints:
        """When anything changed; each instant once, in order."""
        returns = self._returns[self._returns != NONE]
        # They are nearly sorted, three times: a stable sort is done with them at once.
        every: Ints = np.sort(np.concatenate([self._times, self._arrivals, returns]), kind="stable")
        instants: Ints = every[np.append(True, every[1:] != every[:-1])[: len(every)]]
        return instants

    def last(self, t: int) -> Change | None:
        """The newest at or before `t`; of those at the same instant the one of the latest request."""
        found = [change for change in (self._event(t), self._arrival(t), self._return(t)) if change is not None]
        return max(found, key=lambda change: (change.t, change.rid, change.kind), default=None)

    def _event(self, t: int) -> Change | None:
        place = int(np.searchsorted(self._times, t, "right")) - 1
        if place < 0:
            return None
        kind, reason = (words[codes[place]] for words, codes in zip(self._words, self._codes, strict=True))
        other = int(self._others[place])
        return Change(int(self._times[place]), int(self._whose[place]), kind, reason, other if other >= 0 else None)

    def _arrival(self, t: int) -> Change | None:
        place = int(np.searchsorted(self._arrivals, t, "right")) - 1
        return None if place < 0 else Change(int(self._arrivals[place]), int(self._rids[place]), _ARRIVAL, "", None)

    def _return(self, t: int) -> Change | None:
        lanes, times = self._in_order_of_return
        place = int(np.searchsorted(times, t, "right")) - 1
        return None if place < 0 else Change(int(times[place]), int(self._rids[lanes[place]]), _RETURNED, "", None)

    @cached_property
    def _in_order_of_return(self) -> tuple[Ints, Ints]:
        lanes = np.flatnonzero(self._returns != NONE)
        lanes = lanes[np.lexsort((self._rids[lanes], self._returns[lanes]))].astype(np.int64)
        return lanes, self._returns[lanes]


def _coded(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int8]]:
    """Few different words, sorted, and which of them each row has; NULL is the empty word."""
    column = column.fill_null("")
    words = pc.unique(column).sort()
    return words.to_pylist(), pc.index_in(column, value_set=words).to_numpy().astype(np.int8)


def _order(t: Ints, rid: Ints, kind: NDArray[np.int8]) -> Ints | slice:
    """By time, then request, then kind. Most runs are recorded that way."""
    later, same = np.diff(t) > 0, np.diff(t) == 0
    next_one, its_own = np.diff(rid) > 0, np.diff(rid) == 0
    if bool(np.all(later | (same & (next_one | (its_own & (np.diff(kind) >= 0)))))):
        return slice(None)
    return np.lexsort((kind, rid, t)).astype(np.int64)
