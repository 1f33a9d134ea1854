"""Passes after its start that an attempt took no part in: without KV blocks since a preemption, or just skipped."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from recorder.attribution.attempts import Attempts, Events
from recorder.attribution.budget import SKIPPED, Budget, preempted
from recorder.attribution.columns import Bools, Ints, first_known, sums
from recorder.attribution.passes import Passes
from recorder.attribution.slices import Parts, Slices
from recorder.schema import NONE
from recorder.words import EventKind, Reason

_REASONS: Final = list(Reason)
_SLICE: Final = -1
"""Stands for a slice where a preemption has its reason; sorts before all reasons."""


def complete(passes: Passes, slices: Slices) -> Bools:
    """Which passes have all their slices recorded. Of the others nobody can tell who was left out."""
    at = passes.index(slices.step)
    return np.equal(np.bincount(at[at >= 0], minlength=len(passes)), passes.slices)


def charge_gaps(budget: Budget, passes: Passes, whole: Bools, attempts: Attempts, marks: "Marks") -> None:
    """Charge the passes that attempts were left out of; only those of `whole`, see `complete`."""
    begin, until = marks.gaps(passes, attempts)
    ns = passes.measure(whole).between(begin, until)
    skipped = marks.reason == _SLICE
    budget.charge(SKIPPED, attempts.row, sums(len(attempts), marks.who[skipped], ns[skipped]))
    for code in np.unique(marks.reason[~skipped]):
        chosen = marks.reason == code
        rows = attempts.row[marks.who[chosen]]
        budget.charge(preempted(_REASONS[code]), rows, ns[chosen], culprit=marks.other[chosen])


@dataclass(frozen=True)
class Marks:
    """What changed the standing of attempts: slices and preemptions, in the order of attempt and step."""

    who: Ints
    step: Ints
    reason: Ints
    """`_SLICE`, or why it was preempted."""
    other: Ints
    """Request to blame, or NONE."""

    @classmethod
    def of(cls, parts: Parts, events: Events, attempts: Attempts) -> "Marks":
        """The marks of one worker's attempts."""
        lost = events.where(events.are(EventKind.PREEMPTED))
        owner = attempts.match(lost.rid, lost.t)
        lost, owner = lost.where(owner >= 0), owner[owner >= 0]
        size = len(parts.who)
        who = np.concatenate((parts.who, owner))
        step = np.concatenate((parts.slices.step, lost.step))
        reason = np.concatenate((np.full(size, _SLICE), lost.reason))
        other = np.concatenate((np.full(size, NONE), lost.other_rid))
        order = np.lexsort((reason, step, who))
        return cls(who[order], step[order], reason[order], other[order])

    def gaps(self, passes: Passes, attempts: Attempts) -> tuple[Ints, Ints]:
        """The time from each mark to the next one of its attempt, or until the attempt left.

        The pass of a slice is no part of its gap; that of a preemption is, unless the attempt took part in it.
        A finished attempt has no gap after its last mark: if there is a step after that, its slice was lost.
        """
        size = len(self.who)
        same = self.who[1:] == self.who[:-1]
        took_part = np.insert(same & (self.step[1:] == self.step[:-1]), 0, False)[:size]
        begin = passes.from_step(self.step + ((self.reason == _SLICE) | took_part))
        left = np.where(attempts.finished, NONE, first_known(attempts.gone, attempts.end))[self.who]
        followed = np.append(same, False)[:size]
        until = np.where(followed, passes.from_step(np.append(self.step[1:], 0)[:size]), left)
        return begin, np.minimum(until, attempts.end[self.who])
