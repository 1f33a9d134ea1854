"""The attempts of a run as arrays: the window of time that is to be explained, and what is known of its stages.

The front end's row of an attempt that never ended lacks what only its worker knew; events fill in what they can.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from recorder.attribution.columns import (
    Bools,
    Ints,
    Places,
    codes,
    earliest,
    equal,
    first_known,
    ints,
    known,
    labels,
)
from recorder.attribution.passes import Measure
from recorder.schema import NONE
from recorder.words import EventKind, Reason, Status

_KINDS: Final = list(EventKind)
_STATUSES: Final = list(Status)
_STAMPS: Final = ("arrival", "admitted", "queued", "first_scheduled", "first_token", "last_token", "returned")
_INSTANTS: Final = (*_STAMPS, "gone", "end")
_TERMINAL: Final = (EventKind.FINISHED, EventKind.CANCELLED, EventKind.FAILED)


@dataclass(frozen=True)
class Events:
    """Events that happened to a request, one element each."""

    t: Ints
    worker: Ints
    step: Ints
    rid: Ints
    kind: Ints
    other_rid: Ints
    reason: Ints

    @classmethod
    def read(cls, events: pa.Table) -> "Events":
        """The events of all workers."""
        numbers = {name: ints(events, name) for name in ("t", "worker", "step", "rid", "other_rid")}
        kind, reason = codes(events, "kind", EventKind), codes(events, "reason", Reason)
        return cls(**numbers, kind=kind, reason=np.maximum(reason, 0))

    def where(self, chosen: Bools) -> "Events":
        """Only the chosen ones."""
        return Events(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def are(self, *kinds: EventKind) -> Bools:
        """Which are of these kinds."""
        return np.isin(self.kind, [_KINDS.index(kind) for kind in kinds])


@dataclass(frozen=True)
class Attempts:
    """One element per attempt, sorted by request and then by time. Instants that are not known are NONE."""

    row: Ints
    """Its row in `requests`, by which the budget knows it."""
    rid: Ints
    worker: Ints
    tier: Ints
    """Equal numbers for equal tiers."""
    status: Ints
    arrival: Ints
    admitted: Ints
    queued: Ints
    first_scheduled: Ints
    first_token: Ints
    last_token: Ints
    returned: Ints
    gone: Ints
    """It left its worker; NONE where that was not recorded."""
    handed_on: Bools
    """Its request was in another worker's hands before, from the same arrival on, until that one was lost."""
    finished: Bools
    """It left with its last token, so that its last step is known to be the last."""
    end: Ints
    """End of the time that is to be explained."""

    @classmethod
    def read(cls, requests: pa.Table) -> "Attempts":
        """All attempts of a run, before events are asked."""
        numbers = {name: ints(requests, name) for name in ("rid", "worker", *_STAMPS)}
        status = codes(requests, "status", Status)
        attempts = cls(
            **numbers,
            row=np.arange(len(status)),
            tier=labels(requests, "tier"),
            status=status,
            gone=np.full(len(status), NONE),
            handed_on=_handed_on(numbers["rid"], numbers["arrival"], ints(requests, "retry_of")),
            finished=equal(status, _STATUSES.index(Status.OK)),
            end=numbers["returned"],
        )
        return attempts.take(np.lexsort((attempts.since, attempts.rid)))

    def __len__(self) -> int:
        return len(self.rid)

    @property
    def since(self) -> Ints:
        """The earliest instant at which this attempt, and not one before it, can have been on a worker."""
        return first_known(self.admitted, self.arrival)

    @property
    def is_open(self) -> Bools:
        """Which have not ended, as far as was recorded."""
        return equal(self.status, _STATUSES.index(Status.OPEN))

    def take(self, chosen: Ints) -> "Attempts":
        """These attempts, in this order."""
        return Attempts(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def on(self, clock: Measure) -> "Attempts":
        """The same attempts on a clock that stands still in the stretches of `clock`."""
        instants: dict[str, Any] = {name: clock.outside(getattr(self, name)) for name in _INSTANTS}
        return replace(self, **instants)

    def first_of(self, rid: Ints) -> Ints:
        """Position of the first attempt of each request; -1 for a stranger."""
        return self._places.of(rid)

    @cached_property
    def _places(self) -> Places:
        return Places(self.rid)

    @cached_property
    def _again(self) -> bool:
        """Whether any request has more than one attempt."""
        return bool(np.any(self.rid[1:] == self.rid[:-1]))

    def match(self, rid: Ints, t: Ints) -> Ints:
        """For each request and instant the attempt under way then (the first, if none was yet); -1 for a stranger."""
        at = self.first_of(rid)
        since = self.since
        while self._again:
            following = np.minimum(at + 1, len(self) - 1)
            later = (at >= 0) & (following > at) & (self.rid[following] == rid) & (since[following] <= t)
            if not later.any():
                break
            at = np.where(later, following, at)
        return at

    def placed(self, rid: Ints, worker: Ints) -> "Attempts":
        """With the worker of attempts that don't name theirs, taken from sightings of their requests."""
        homeless = ~known(self.worker)
        seen = known(worker) & np.isin(rid, self.rid[homeless])
        rids, first = np.unique(rid[seen], return_index=True)
        if not len(rids):
            return self
        at = np.minimum(np.searchsorted(rids, self.rid), len(rids) - 1)
        sighted = np.where(rids[at] == self.rid, worker[seen][first[at]], NONE)
        return replace(self, worker=first_known(self.worker, sighted))

    def completed(self, events: Events) -> "Attempts":
        """With what the events of their worker tell: when each was queued, and when and how it left."""
        who = self.match(events.rid, events.t)
        events, who = events.where(who >= 0), who[who >= 0]
        joined, left = events.are(EventKind.QUEUED), events.are(*_TERMINAL)
        queued = earliest(len(self), who[joined], events.t[joined])
        gone = earliest(len(self), who[left], events.t[left])
        finished = self.finished.copy()
        finished[who[events.are(EventKind.FINISHED)]] = True
        return replace(self, queued=first_known(self.queued, queued), gone=gone, finished=finished)

    def ended(self, horizon: Ints | int) -> "Attempts":
        """With an end: the return; for open attempts `horizon`; for others the last instant known."""
        last = np.maximum.reduce([self.arrival, self.admitted, self.queued, self.last_token, self.gone])
        until = np.where(self.is_open, np.maximum(last, horizon), last)
        return replace(self, end=first_known(self.returned, until))


def _handed_on(rid: Ints, arrival: Ints, retry_of: Ints) -> Bools:
    """Which go on with a request that is counted from the arrival of the attempt before."""
    order = np.argsort(rid, kind="stable")
    if not len(order):
        return np.zeros(0, bool)
    before = order[np.minimum(np.searchsorted(rid[order], retry_of), len(order) - 1)]
    return known(retry_of) & equal(rid[before], retry_of) & equal(arrival[before], arrival)
