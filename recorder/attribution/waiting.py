"""Time in the queue: what kept the head of the queue from starting, and whom everyone else was behind.

The ledger holds one reason a pass, that of the head; the followers' causes are derived. Totals per cause come from
measures over the passes. Culprits come from stretches, in which one request was the head: an attempt that waited
through at most `MANY` stretches of one root has every one of them named; one that waited through more has those named
that make up at least 1/`MANY` of its wait, and the others summed without a culprit. All of it is exact.

The head itself was kept out by those who ran. Of its wait for blocks, and of everybody's for a busy worker, who has the
most tokens in the KV cache is the culprit; of its wait for the token budget the one that computed most, pass by
pass, among those in the step. The batch timer is nobody's fault.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from recorder.attribution.attempts import Attempts
from recorder.attribution.budget import BEHIND_FIFO, BEHIND_TIER, Budget, queue
from recorder.attribution.columns import Bools, Ints, equal, known, overlap, ranges, sums
from recorder.attribution.facts import Facts
from recorder.attribution.passes import Measure, Passes
from recorder.schema import NONE
from recorder.words import Reason

MANY: Final = 64

_REASONS: Final = list(Reason)
_SHARED: Final = frozenset({Reason.BATCH_TIMER, Reason.WORKER_BUSY})
"""Reasons that hold back all who wait alike: being behind the head makes no difference."""
_HELD_BY_RUNNING: Final = frozenset({Reason.KV_BLOCKS, Reason.WORKER_BUSY})


@dataclass(frozen=True)
class _Waits:
    """Attempts of one worker, each with the time [lo, hi) that it waited."""

    attempts: Attempts
    lo: Ints
    hi: Ints


class _Blocked:
    """The passes in which the queue stood still for one reason behind heads of one tier, in stretches of one to blame.

    Whoever waits blames the head, or, where all are held back alike, who kept the head out.
    """

    def __init__(self, passes: Passes, tier: int, culprit: Ints, *, shared: bool) -> None:
        self.passes = passes
        self.culprit = culprit
        """Of each pass: who kept the head out, or NONE."""
        blamed = culprit if shared else passes.head_rid
        first = np.flatnonzero(np.append(True, blamed[1:] != blamed[:-1]))
        self.tier = tier
        self.blamed = blamed[first]
        self.begin = passes.sched[first]
        self.end = passes.end[np.append(first[1:], len(passes)) - 1]
        self._measure = Measure(passes.sched, passes.end)
        self.length = self._measure.between(self.begin, self.end)

    def total(self, waits: _Waits) -> Ints:
        """How long each attempt waited through these passes."""
        return self._measure.between(waits.lo, waits.hi)

    def shares(self, waits: _Waits, who: Ints, where: Ints) -> Ints:
        """How long the attempts `who` waited through the stretches `where`."""
        lo = np.maximum(self.begin[where], waits.lo[who])
        return self._measure.between(lo, np.minimum(self.end[where], waits.hi[who]))


class Queue:
    """What held the queue of one worker up, and who, whoever waited in it."""

    def __init__(self, passes: Passes, facts: Facts, attempts: Attempts) -> None:
        """`passes` on the worker's clock, and all its attempts."""
        self._roots = list(_by_root(passes, facts, attempts))

    def charge(self, budget: Budget, attempts: Attempts, until: Ints) -> None:
        """Charge [queued, `until`) of some of the attempts; all of a request or none."""
        waited = np.flatnonzero(known(attempts.queued) & (until > attempts.queued))
        waits = _Waits(attempts.take(waited), attempts.queued[waited], until[waited])
        for reason, blocked in self._roots:
            if reason in _SHARED:
                _charge_shared(budget, reason, blocked, waits)
            else:
                _charge_behind(budget, reason, blocked, waits)


def _by_root(passes: Passes, facts: Facts, attempts: Attempts) -> Iterator[tuple[Reason, _Blocked]]:
    """The passes that held a queue up, apart by reason and tier of the head (-1: it has none, or is unknown)."""
    who = attempts.match(passes.head_rid, passes.end)
    tiers = np.where(who >= 0, attempts.tier[who], -1) if len(attempts) else who
    stuck = known(passes.head_rid) & (passes.head_reason != _REASONS.index(Reason.NONE))
    for code in np.unique(passes.head_reason[stuck]):
        alike = stuck & (passes.head_reason == code)
        culprits = _culprits(_REASONS[code], facts)
        for tier in np.unique(tiers[alike]):
            chosen = alike & (tiers == tier)
            shared = _REASONS[code] in _SHARED
            yield _REASONS[code], _Blocked(passes.where(chosen), int(tier), culprits[chosen], shared=shared)


def _culprits(reason: Reason, facts: Facts) -> Ints:
    """For each pass, if it is stuck for `reason`, who kept the head out; NONE where that is nobody in particular."""
    if reason in _HELD_BY_RUNNING:
        return facts.largest_held.rid
    return facts.largest_part.rid if reason is Reason.TOKEN_BUDGET else np.full(len(facts.count), NONE)


def _charge_shared(budget: Budget, reason: Reason, blocked: _Blocked, waits: _Waits) -> None:
    """Passes of a reason that held back all alike, the head and those behind it."""
    row = waits.attempts.row
    who, where = _worth_naming(blocked, waits)
    ns = blocked.shares(waits, who, where)
    budget.charge(queue(reason), row[who], ns, reason.value, blocked.blamed[where])
    budget.charge(queue(reason), row, blocked.total(waits) - sums(len(row), who, ns), reason.value)


def _charge_behind(budget: Budget, reason: Reason, blocked: _Blocked, waits: _Waits) -> None:
    """Passes of one reason and one tier of head: the head's own time is its own, the others were behind it."""
    row, rid = waits.attempts.row, waits.attempts.rid
    own = _charge_own(budget, reason, blocked, waits)
    who, where = _worth_naming(blocked, waits)
    other = blocked.blamed[where] != rid[who]
    who, where = who[other], where[other]
    ns, culprit = blocked.shares(waits, who, where), blocked.blamed[where]
    rest = blocked.total(waits) - own - sums(len(row), who, ns)
    same = _same(waits.attempts.tier, blocked.tier)
    for cause, behind in ((BEHIND_FIFO, same), (BEHIND_TIER, ~same)):
        named = behind[who]
        budget.charge(cause, row[who][named], ns[named], reason.value, culprit[named])
        budget.charge(cause, row[behind], rest[behind], reason.value)


def _same(tiers: Ints, tier: int) -> Bools:
    """Only two tiers that are known can differ."""
    return equal(tiers, tier) | (tiers < 0) | (tier < 0)


def _charge_own(budget: Budget, reason: Reason, blocked: _Blocked, waits: _Waits) -> Ints:
    """Charge and return for each attempt the time in which it was the head itself."""
    passes = blocked.passes
    who = waits.attempts.match(passes.head_rid, passes.end)
    at = np.flatnonzero(who >= 0)
    who = who[at]
    ns = overlap(passes.sched[at], passes.end[at], waits.lo[who], waits.hi[who])
    budget.charge(queue(reason), waits.attempts.row[who], ns, reason.value, blocked.culprit[at])
    return sums(len(waits.attempts), who, ns)


def _worth_naming(blocked: _Blocked, waits: _Waits) -> tuple[Ints, Ints]:
    """Pairs (attempt, stretch) whose culprit is named; see the module's docstring.

    Attempts are taken in grades by the length they ask of a stretch, each grade against the stretches that are at
    least half as long as its longest demand, so that no attempt meets more than about 2 x `MANY` candidates.
    """
    count = np.searchsorted(blocked.begin, waits.hi) - np.searchsorted(blocked.end, waits.lo, side="right")
    least = np.where(count <= MANY, 1, -((waits.lo - waits.hi) // MANY))
    grade = np.ceil(np.log2(least)).astype(np.int64)
    pairs = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for level in np.unique(grade):
        who = np.flatnonzero(grade == level)
        long = np.flatnonzero(blocked.length >= 2 ** int(level) // 2)
        first = np.searchsorted(blocked.end[long], waits.lo[who], side="right")
        owner, which = ranges(first, np.searchsorted(blocked.begin[long], waits.hi[who]))
        pairs.append((who[owner], long[which]))
    who, where = (np.concatenate(part) for part in zip(*pairs, strict=True))
    enough = blocked.shares(waits, who, where) >= least[who]
    return who[enough], where[enough]
