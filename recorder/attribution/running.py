"""Passes that an attempt took part in, and the way out after the last of them."""

from dataclasses import dataclass

import numpy as np

from recorder.attribution.attempts import Attempts
from recorder.attribution.budget import (
    DECODE,
    HOST_POST,
    HOST_SCHED,
    PREFILL,
    RECOMPUTE,
    RETURN,
    STALLED_BY_PREFILL,
    Budget,
)
from recorder.attribution.columns import Bools, Ints, first_known, known, overlap, sums
from recorder.attribution.passes import Measure, Passes
from recorder.attribution.slices import Deliveries, Parts
from recorder.attribution.stalls import FrontEnd
from recorder.schema import NONE
from recorder.words import Role, StepKind


@dataclass(frozen=True)
class WayOut:
    """How the attempts of one worker left it: for each slice, whether it is the last one of an attempt that finished,
    and when its step's tokens left (NONE: not recorded)."""

    closing: Bools
    sent: Ints

    @classmethod
    def of(cls, parts: Parts, passes: Passes, attempts: Attempts, deliveries: Deliveries) -> "WayOut":
        """A slice that is recorded last, before a lost one, closes nothing."""
        sent = deliveries.of(parts.slices.step)
        last_token = attempts.last_token[parts.who]
        reaches = np.where(parts.at >= 0, passes.done[parts.at] >= last_token, known(sent) & (sent >= last_token))
        return cls(parts.last & attempts.finished[parts.who] & reaches, sent)

    def on(self, clock: Measure) -> "WayOut":
        """The same on a clock that stands still in the stretches of `clock`."""
        return WayOut(self.closing, clock.outside(self.sent))

    def left(self, parts: Parts, passes: Passes, attempts: Attempts) -> Ints:
        """When each attempt left its worker, as far as is known; its end where it never did."""
        out = np.full(len(attempts), NONE)
        closing = self.closing
        out[parts.who[closing]] = first_known(self.sent, passes.done[parts.at])[closing]
        never = np.where(attempts.finished, attempts.last_token, NONE)
        return np.minimum(first_known(out, never, attempts.gone, attempts.end), attempts.end)


def charge_return(budget: Budget, parts: Parts, attempts: Attempts, way_out: WayOut, front_end: FrontEnd) -> None:
    """Charge the front end's share of the way out."""
    chosen = way_out.closing & known(way_out.sent)
    who, sent = parts.who[chosen], way_out.sent[chosen]
    rows, end = attempts.row[who], attempts.end[who]
    stalled = front_end.charge_return(budget, rows, sent, end)
    budget.charge(RETURN, rows, np.maximum(end - sent, 0) - stalled)


def charge_steps(
    budget: Budget, passes: Passes, parts: Parts, attempts: Attempts, way_out: WayOut, *, largest_prefill: Ints
) -> None:
    """Charge the host's and the device's time in each step. Of each pass, `largest_prefill` stalled the decodes."""
    recorded = parts.at >= 0
    out = first_known(way_out.sent, passes.done[parts.at])
    out = np.where(way_out.closing, out, passes.end[parts.at])[recorded]
    parts = parts.take(recorded)
    who, at = parts.who, parts.at
    lo, hi = first_known(attempts.queued, attempts.arrival)[who], attempts.end[who]
    planning = overlap(passes.sched[at], passes.exec[at], lo, hi)
    budget.charge(HOST_SCHED, attempts.row, sums(len(attempts), who, planning))
    execution = overlap(passes.exec[at], passes.done[at], lo, hi)
    _charge_execution(budget, passes, parts, attempts, execution, largest_prefill=largest_prefill)
    handing_out = overlap(passes.done[at], out, lo, hi)
    budget.charge(HOST_POST, attempts.row, sums(len(attempts), who, handing_out))


def _charge_execution(
    budget: Budget, passes: Passes, parts: Parts, attempts: Attempts, ns: Ints, *, largest_prefill: Ints
) -> None:
    """Charge by role. Of a decode in a mixed step, what exceeds the predicted time without prefills was a stall."""
    who, at, decode = parts.who, parts.at, parts.slices.is_role(Role.DECODE)
    alone = passes.decode_only[at]
    split = decode & passes.is_kind(StepKind.MIXED)[at] & (alone > 0)
    stalled = np.where(split, np.maximum(ns - alone, 0), 0)
    for cause, role in ((PREFILL, Role.PREFILL), (RECOMPUTE, Role.RECOMPUTE), (DECODE, Role.DECODE)):
        chosen = parts.slices.is_role(role)
        budget.charge(cause, attempts.row, sums(len(attempts), who[chosen], (ns - stalled)[chosen]))
    budget.charge(STALLED_BY_PREFILL, attempts.row[who], stalled, culprit=largest_prefill[at])
