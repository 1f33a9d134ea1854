"""Changes of state, as the playhead steps through them: those of the workers, and every request's coming and going."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from console.lane_columns import Columns
from console.narrow import Narrow, Words, narrow
from console.session import Session
from console.timeline import Ints
from recorder.schema import NONE
from recorder.words import EventKind, Reason

if TYPE_CHECKING:
    import duckdb

_ARRIVAL: Final = "arrival"
_RETURNED: Final = "returned"
_TOGETHER: Final = 4_096
"""Lanes that are looked at together."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of state at instant `t`."""

    t: int
    rid: int
    kind: str
    reason: str
    other_rid: int | None


class Changes:
    """All of a run. The workers' are those of `read_events`; requests tell of themselves."""

    def __init__(self, events: pa.Table, lanes: Columns) -> None:
        self._kinds, self._reasons = Words.coded(EventKind, events["kind"]), Words.coded(Reason, events["reason"])
        times, whose = events["t"].to_numpy(), events["rid"].to_numpy()
        order = _order(times, whose, self._kinds.codes)
        self._order = order if isinstance(order, slice) else narrow(order)
        self._times = times[order]
        self._whose, self._others = narrow(whose), narrow(events["other_rid"].to_numpy())
        self._lanes = lanes
        self._arrivals = lanes["arrival"]
        self._first_return, self._last_return = _stretches_of(lanes["returned"])

    @cached_property
    def instants(self) -> Ints:
        """When anything changed; each instant once, in order."""
        returns = self._lanes["returned"]
        # They are nearly sorted, three times: a stable sort is done with them at once.
        every: Ints = np.sort(np.concatenate([self._times, self._arrivals, returns[returns != NONE]]), kind="stable")
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
        row = place if isinstance(self._order, slice) else int(self._order[place])
        other = int(self._others[row])
        kind, reason = self._kinds.at(row), self._reasons.at(row)
        return Change(int(self._times[place]), int(self._whose[row]), kind, reason, other if other >= 0 else None)

    def _arrival(self, t: int) -> Change | None:
        place = int(np.searchsorted(self._arrivals, t, "right")) - 1
        if place < 0:
            return None
        return Change(int(self._arrivals[place]), self._latest(np.array([place])), _ARRIVAL, "", None)

    def _return(self, t: int) -> Change | None:
        """Only stretches of lanes are looked at in which some returned before `t` and some later, or one just then."""
        over = self._last_return <= t
        newest = self._last_return[over].max(initial=NONE)
        some = np.flatnonzero((self._first_return <= t) & (~over | (self._last_return == newest)))
        found = max((self._newest(stretch * _TOGETHER, t) for stretch in some.tolist()), default=None)
        return None if found is None else Change(found[0], found[1], _RETURNED, "", None)

    def _newest(self, first: int, t: int) -> tuple[int, int]:
        """The last return at or before `t` of a stretch of lanes that has one, and the latest request of that."""
        times = self._lanes.at("returned", slice(first, first + _TOGETHER))
        newest = int(times[times <= t].max())
        return newest, self._latest(first + np.flatnonzero(times == newest))

    def _latest(self, lanes: Ints) -> int:
        return int(self._lanes.at("rid", lanes).max())


def read_events(session: Session, cursor: "duckdb.DuckDBPyConnection") -> pa.Table:
    """What workers told of: `t, rid, kind, reason, other_rid`; words as their places among all that there are."""
    return session.ask("timeline_events", cursor=cursor, kinds=sorted(EventKind), reasons=sorted(Reason))


def _stretches_of(returns: Ints) -> tuple[Ints, Ints]:
    """First and last return of every `_TOGETHER` lanes; where none of them did, the last is before the first."""
    starts = np.arange(0, len(returns), _TOGETHER)
    if not len(returns):
        return returns, returns
    first = np.minimum.reduceat(np.where(returns == NONE, -(NONE + 1), returns), starts)
    return first, np.maximum.reduceat(returns, starts)


def _order(t: Ints, rid: Ints, kind: Narrow) -> Ints | slice:
    """By time, then request, then kind. Most runs are recorded that way."""
    later, together, next_one = t[1:] > t[:-1], t[1:] == t[:-1], rid[1:] > rid[:-1]
    unsure = np.flatnonzero(~(later | (together & next_one)))
    its_own = together[unsure] & (rid[unsure + 1] == rid[unsure])
    if bool(np.all(its_own & (kind[unsure + 1] >= kind[unsure]))):
        return slice(None)
    return np.lexsort((kind, rid, t)).astype(np.int64)
