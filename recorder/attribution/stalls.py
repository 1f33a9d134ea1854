"""Stalls of the host: the stretches in which a process was held up, and whose time they took.

A stall is taken out of the cause that its time would have had. A worker's clock stands still in its stalls: passes,
slices and waits are charged on that clock, so a stall is in none of them, and is charged by itself. Stalls that
overlap count once: a collection first, then a cold step, a tokeniser, a turn of the event loop.

What a stall of the front end holds up is less than an attempt's whole way through it:
- On its way in, an attempt is handled in the turn of the loop in which it arrived, and up to the end of its own
  tokenising: that is its ingress. A later turn, or another's tokenising, held it up.
- Between front end and worker nothing waits for the event loop. A collection may have kept the message back, where
  the worker was free to take it.
- On its way out everything waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa

from recorder.attribution.attempts import Attempts
from recorder.attribution.budget import HOST_GC, HOST_LOOP, HOST_WARMUP, Budget
from recorder.attribution.columns import Bools, Ints, codes, equal, ints, known, overlap, ranges, sums, texts
from recorder.attribution.passes import Measure
from recorder.schema import NONE
from recorder.words import ON_EVENT_LOOP, Source, StallKind

_KINDS: Final = list(StallKind)
_SOURCES: Final = list(Source)
_PRECEDENCE: Final = (StallKind.GC, StallKind.WARMUP, StallKind.TOKENISE, StallKind.LOOP)
_CAUSES: Final = {StallKind.GC: HOST_GC, StallKind.WARMUP: HOST_WARMUP}
"""Those that are nobody's doing; the others hold up the event loop."""
_WORTH_BLAMING_NS: Final = 1_000_000
"""A tokeniser that held the event loop up for less is part of its ordinary work."""


@dataclass(frozen=True)
class Stalls:
    """Rows of `stalls`, one element each."""

    begin: Ints
    end: Ints
    source: Ints
    device: Ints
    kind: Ints
    rid: Ints
    on_loop: Bools

    @classmethod
    def read(cls, stalls: pa.Table) -> "Stalls":
        """The stalls of all processes; what has no length is left out."""
        every = cls(
            begin=ints(stalls, "t_start"),
            end=ints(stalls, "t_end"),
            source=codes(stalls, "source", Source),
            device=ints(stalls, "device"),
            kind=codes(stalls, "kind", StallKind),
            rid=ints(stalls, "rid"),
            on_loop=texts(stalls, "detail", ON_EVENT_LOOP),
        )
        return every.where(known(every.begin) & (every.end > every.begin))

    def where(self, chosen: Bools) -> "Stalls":
        """Only the chosen ones, by their begin."""
        at = np.flatnonzero(chosen)
        at = at[np.argsort(self.begin[at], kind="stable")]
        return Stalls(**{field.name: getattr(self, field.name)[at] for field in fields(self)})

    def of_worker(self, number: int) -> "Stalls":
        """Those of one worker."""
        return self.where(equal(self.source, _SOURCES.index(Source.WORKER)) & equal(self.device, number))

    def of_front_end(self) -> "Stalls":
        """Those of the front end."""
        return self.where(equal(self.source, _SOURCES.index(Source.FRONTEND)))

    def are(self, kind: StallKind) -> Bools:
        """Which are of this kind."""
        return equal(self.kind, _KINDS.index(kind))

    def blocking(self) -> "Stalls":
        """Those that stopped the whole process, or its event loop: tokenising in a thread of its own did not."""
        long = self.end - self.begin >= _WORTH_BLAMING_NS
        return self.where(~self.are(StallKind.TOKENISE) | (self.on_loop & long))


@dataclass(frozen=True)
class Held:
    """When one process was held up, in stretches that don't overlap, in order."""

    begin: Ints
    end: Ints
    kind: Ints
    culprit: Ints
    """Request whose prompt was tokenised, or NONE."""

    @classmethod
    def of(cls, stalls: Stalls) -> "Held":
        """The stalls of one process, cut where another begins or ends, each piece given to the first in precedence."""
        edges = np.unique(np.concatenate((stalls.begin, stalls.end)))
        begin, end = edges[:-1], edges[1:]
        kind, culprit = np.full(len(begin), -1), np.full(len(begin), NONE)
        for word in reversed(_PRECEDENCE):
            rows = stalls.where(stalls.are(word))
            covered = _covered(edges, rows.begin, rows.end)
            kind[covered] = _KINDS.index(word)
            culprit[covered] = _latest(rows, begin, end)[covered]
        return cls(begin, end, kind, culprit).where(kind >= 0)

    def where(self, chosen: Bools) -> "Held":
        """Only the chosen stretches."""
        return Held(self.begin[chosen], self.end[chosen], self.kind[chosen], self.culprit[chosen])

    def __len__(self) -> int:
        return len(self.begin)

    def are(self, kind: StallKind) -> Bools:
        """Which are of this kind."""
        return equal(self.kind, _KINDS.index(kind))

    def measure(self) -> Measure:
        """How much of any window was held up."""
        return Measure(self.begin, self.end)

    def charge(self, budget: Budget, rows: Ints, lo: Ints, hi: Ints) -> Ints:
        """Charge what lies in the window [lo, hi) of each attempt; returns how much that is. Unknown: no window."""
        lo, hi = np.where(known(lo) & known(hi), (lo, hi), 0)
        taken = np.zeros(len(rows), dtype=np.int64)
        for cause, held in self._by_cause():
            nameless = held.where(~known(held.culprit))
            ns = nameless.measure().between(lo, hi)
            budget.charge(cause, rows, ns)
            taken += ns + held.where(known(held.culprit)).blame(budget, cause, rows, lo, hi)
        return taken

    def blame(self, budget: Budget, cause: str, rows: Ints, lo: Ints, hi: Ints) -> Ints:
        """The same for stretches that all have a culprit."""
        who, at = ranges(np.searchsorted(self.end, lo, side="right"), np.searchsorted(self.begin, hi))
        ns = overlap(self.begin[at], self.end[at], lo[who], hi[who])
        budget.charge(cause, rows[who], ns, culprit=self.culprit[at])
        return sums(len(rows), who, ns)

    def _by_cause(self) -> Iterator[tuple[str, "Held"]]:
        for kind, cause in _CAUSES.items():
            yield cause, self.where(self.are(kind))
        yield HOST_LOOP, self.where(self.are(StallKind.LOOP) | self.are(StallKind.TOKENISE))


class FrontEnd:
    """The stalls of the front end, by what an attempt was waiting for."""

    def __init__(self, stalls: Stalls) -> None:
        self._tokenised = stalls.where(stalls.are(StallKind.TOKENISE) & known(stalls.rid))
        self._turns = stalls.where(stalls.are(StallKind.LOOP))
        self._held = Held.of(stalls.blocking())
        self._collecting = self._held.where(self._held.are(StallKind.GC))
        self._looping = self._held.where(~self._held.are(StallKind.GC))

    def charge_entry(self, budget: Budget, attempts: Attempts, until: Ints) -> Ints:
        """Charge what held the attempts up in [arrival, `until`); returns how much that is."""
        collecting = self._collecting.charge(budget, attempts.row, attempts.arrival, until)
        return collecting + self._looping.charge(budget, attempts.row, self._handled(attempts, until), until)

    def charge_sending(self, budget: Budget, attempts: Attempts, clock: Measure, step: Measure) -> None:
        """Charge collections on the way to a worker, where it was neither held up (`clock` stands still) nor, on that
        clock, in a `step`: it could have looked, and there was nothing yet."""

        def free(t: Ints) -> Ints:
            return step.outside(clock.outside(t))

        collecting = Measure(free(self._collecting.begin), free(self._collecting.end))
        ns = collecting.between(free(attempts.admitted), free(np.minimum(attempts.queued, attempts.end)))
        sent = known(attempts.admitted) & known(attempts.queued)
        budget.charge(HOST_GC, attempts.row, np.where(sent, ns, 0))

    def charge_return(self, budget: Budget, rows: Ints, lo: Ints, hi: Ints) -> Ints:
        """Charge what held attempts up in [lo, hi) on their way out; returns how much that is."""
        return self._held.charge(budget, rows, lo, hi)

    def _handled(self, attempts: Attempts, until: Ints) -> Ints:
        """Until when the front end worked for each attempt, from its arrival on."""
        arrival, tokens = attempts.arrival, self._tokenised
        own = arrival.copy()
        who = attempts.match(tokens.rid, tokens.end)
        mine = (who >= 0) & (tokens.begin >= arrival[who]) & (tokens.end <= until[who]) if len(arrival) else who >= 0
        np.maximum.at(own, who[mine], tokens.end[mine])
        return np.maximum(own, _end_of_turn(self._turns, arrival))


def _covered(edges: Ints, begin: Ints, end: Ints) -> Bools:
    """Which stretches between two edges lie in at least one of [begin, end)."""
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, begin), 1)
    np.add.at(change, np.searchsorted(edges, end), -1)
    covered: Bools = np.cumsum(change)[:-1] > 0
    return covered


def _latest(stalls: Stalls, begin: Ints, end: Ints) -> Ints:
    """Whose was the last stall that began before each piece, if it lasted through it; NONE where that is nobody's."""
    if not len(stalls.begin):
        return np.full(len(begin), NONE)
    at = np.searchsorted(stalls.begin, begin, side="right") - 1
    return np.where((at >= 0) & (stalls.end[at] >= end), stalls.rid[at], NONE)


def _end_of_turn(turns: Stalls, t: Ints) -> Ints:
    """The end of the turn in which each instant lies; the instant itself where it lies in none."""
    if not len(turns.begin):
        return t
    at = np.searchsorted(turns.begin, t, side="right") - 1
    return np.where(at >= 0, np.maximum(turns.end[at], t), t)
