"""Passes after its start that an attempt took no part in: without KV blocks since a preemption, or just skipped."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from recorder.attribution.attempts import Attempts, Events
from recorder.attribution.budget import SKIPPED, Budget, preempted
from recorder.attribution.columns import Bools, Ints, equal, first_known, in_order, sums
from recorder.attribution.passes import Passes
from recorder.attribution.slices import Parts
from recorder.schema import NONE
from recorder.words import EventKind, Reason

_REASONS: Final = list(Reason)
_RESUMED: Final = -2
_SLICE: Final = -1
"""Stand where a preemption has its reason, and sort before all reasons."""


def charge_gaps(budget: Budget, passes: Passes, whole: Bools, attempts: Attempts, marks: "Marks") -> None:
    """Charge the passes that attempts were left out of; only those of `whole`, see `Facts.complete`."""
    begin, until = marks.gaps(passes, attempts)
    ns = passes.measure(whole).between(begin, until)
    lost = marks.reason >= 0
    skipped = ~lost & ~marks.hide_preemption()
    budget.charge(SKIPPED, attempts.row, sums(len(attempts), marks.who[skipped], ns[skipped]))
    for code in np.unique(marks.reason[lost]):
        chosen = marks.reason == code
        rows = attempts.row[marks.who[chosen]]
        budget.charge(preempted(_REASONS[code]), rows, ns[chosen], culprit=marks.other[chosen])


@dataclass(frozen=True)
class Marks:
    """What told of the standing of attempts: slices, preemptions, resumptions, in the order of attempt and step."""

    who: Ints
    step: Ints
    reason: Ints
    """`_RESUMED`, `_SLICE`, or why it was preempted."""
    other: Ints
    """Request to blame, or NONE."""
    before: Ints
    """Tokens in its KV cache before a slice; NONE for events."""
    after: Ints
    """Tokens in its KV cache after a slice; NONE for events."""

    @classmethod
    def of(cls, parts: Parts, events: Events, attempts: Attempts) -> "Marks":
        """The marks of one worker's attempts."""
        events = events.where(events.are(EventKind.PREEMPTED, EventKind.RESUMED))
        owner = attempts.match(events.rid, events.t)
        events, owner = events.where(owner >= 0), owner[owner >= 0]
        reason = np.where(events.are(EventKind.RESUMED), _RESUMED, events.reason)
        slices, none = parts.slices, np.full(len(owner), NONE)
        nobody = np.full(len(parts.who), NONE)
        columns = (
            np.concatenate((parts.who, owner)),
            np.concatenate((slices.step, events.step)),
            np.concatenate((np.full(len(parts.who), _SLICE), reason)),
            np.concatenate((nobody, events.other_rid)),
            np.concatenate((slices.before, none)),
            np.concatenate((slices.before + slices.tokens, none)),
        )
        if not len(owner):
            return cls(*columns)
        order = in_order(*columns[:3])
        return cls(*(column[order] for column in columns))

    def gaps(self, passes: Passes, attempts: Attempts) -> tuple[Ints, Ints]:
        """The time from each mark to the next one of its attempt, or until the attempt left.

        The pass of a slice is no part of its gap; that of a preemption is, unless the attempt took part in it.
        A finished attempt has no gap after its last mark: if there is a step after that, its slice was lost.
        """
        size = len(self.who)
        took_part = (self.who[1:] == self.who[:-1]) & (self.step[1:] == self.step[:-1]) & (self.reason[:-1] == _SLICE)
        ran = (self.reason < 0) | np.insert(took_part, 0, False)[:size]
        begin = passes.from_step(self.step + ran)
        left = np.where(attempts.finished, NONE, first_known(attempts.gone, attempts.end))[self.who]
        until = np.where(self._followed(), passes.from_step(np.append(self.step[1:], 0)[:size]), left)
        return begin, np.minimum(until, attempts.end[self.who])

    def hide_preemption(self) -> Bools:
        """After which slices a preemption happened whose row was lost, so that being left out has no known cause.

        The attempt resumed next, or its next slice does not go on where this one ended.
        """
        size = len(self.who)
        resumed = self.reason[1:] == _RESUMED
        jumped = (self.reason[1:] == _SLICE) & (self.before[1:] != self.after[:-1])
        hidden = np.append((self.reason[:-1] == _SLICE) & (resumed | jumped), False)[:size]
        return hidden & self._followed()

    def _followed(self) -> Bools:
        """Which marks are followed by another of the same attempt."""
        return np.append(equal(self.who[1:], self.who[:-1]), False)[: len(self.who)]
