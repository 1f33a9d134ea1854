"""Which requests are charged together: those whose last slices are near each other, so that few slices are in memory.

The slices are gone through twice in the order of steps. First everybody's, for the facts of each pass and the last step
of each request. Then a stretch at a time: a request is charged with the stretch that holds its last slice, and until
then its slices are carried along.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from recorder.attribution.attempts import Attempts
from recorder.attribution.columns import Bools, Ints, equal
from recorder.attribution.facts import Facts
from recorder.attribution.passes import Passes
from recorder.attribution.slices import Slices, Source
from recorder.schema import NONE

_SLICES_AN_ATTEMPT: Final = 8
"""An attempt without any slice takes about as much memory as this many slices."""
_BEGINNING: Final = -(2**63)
_END: Final = 2**63 - 1

Cohort = tuple[Ints, Slices]
"""Positions of attempts, all of a request or none; and all their slices."""


@dataclass(frozen=True)
class Ledger:
    """One worker's passes and attempts, and what all slices tell of them."""

    worker: int
    passes: Passes
    attempts: Attempts
    facts: Facts
    last_step: Ints
    """Of each attempt the last step in which its request had a slice; NONE where there is none."""

    @classmethod
    def of(cls, worker: int, passes: Passes, attempts: Attempts, slices: Source) -> "Ledger":
        """By going through all slices."""
        facts, last = Facts(passes), np.full(len(attempts), NONE)
        for chunk in slices.chunks(worker) if len(passes) and len(attempts) else ():
            first = attempts.first_of(chunk.rid)
            facts.take(chunk, first >= 0)
            np.maximum.at(last, first[first >= 0], chunk.step[first >= 0])
        return cls(worker, passes, attempts, facts, last[attempts.first_of(attempts.rid)])


def cohorts(ledger: Ledger, source: Source, most: int) -> Iterator[Cohort]:
    """All attempts, each once, with about `most` slices at a time."""
    started = ~equal(ledger.last_step, NONE)
    carried = Slices.none()
    for first, stop in _stretches(ledger, most) if started.any() else ():
        carried = Slices.joined(carried, source.between(ledger.worker, first, stop))
        who = np.flatnonzero(started & (ledger.last_step >= first) & (ledger.last_step < stop))
        at = ledger.attempts.first_of(carried.rid)
        last = np.where(at >= 0, ledger.last_step[at], NONE)
        yield who, carried.take((at >= 0) & (last < stop))
        carried = carried.take((at >= 0) & (last >= stop))
    for who in _in_groups(ledger.attempts, ~started, max(most // _SLICES_AN_ATTEMPT, 1)):
        yield who, Slices.none()


def _stretches(ledger: Ledger, most: int) -> Iterator[tuple[int, int]]:
    """The steps in stretches that hold about `most` slices each; together they hold every step there can be."""
    so_far = np.cumsum(ledger.facts.count)
    cuts = np.searchsorted(so_far, np.arange(most, int(so_far[-1]), most)) + 1
    bounds = [_BEGINNING, *np.unique(ledger.passes.step[cuts[cuts < len(so_far)]]).tolist(), _END]
    yield from pairwise(bounds)


def _in_groups(attempts: Attempts, chosen: Bools, most: int) -> Iterator[Ints]:
    """The chosen attempts, about `most` at a time, those of one request together; they are sorted by request."""
    who = np.flatnonzero(chosen)
    while len(who):
        stop = np.searchsorted(attempts.rid[who], attempts.rid[who[min(most, len(who)) - 1]], side="right")
        yield who[:stop]
        who = who[stop:]
