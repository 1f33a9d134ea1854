"""Passes that an attempt took part in, and the way out after the last of them."""

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
from recorder.attribution.passes import Passes
from recorder.attribution.slices import Deliveries, Parts
from recorder.words import Role, StepKind


def charge_steps(budget: Budget, passes: Passes, parts: Parts, attempts: Attempts, deliveries: Deliveries) -> None:
    """Charge the host's and the device's time in each step, and the way out after the last one."""
    sent = deliveries.of(parts.slices.step)
    closing = _closing(parts, passes, attempts, sent)
    _charge_return(budget, attempts, parts.who[closing], sent[closing])
    recorded = parts.at >= 0
    out = np.where(closing, first_known(sent, passes.done[parts.at]), passes.end[parts.at])[recorded]
    parts = parts.take(recorded)
    who, at = parts.who, parts.at
    lo, hi = first_known(attempts.queued, attempts.arrival)[who], attempts.end[who]
    planning = overlap(passes.sched[at], passes.exec[at], lo, hi)
    budget.charge(HOST_SCHED, attempts.row, sums(len(attempts), who, planning))
    _charge_execution(budget, passes, parts, attempts, overlap(passes.exec[at], passes.done[at], lo, hi))
    handing_out = overlap(passes.done[at], out, lo, hi)
    budget.charge(HOST_POST, attempts.row, sums(len(attempts), who, handing_out))


def _closing(parts: Parts, passes: Passes, attempts: Attempts, sent: Ints) -> Bools:
    """Which slices are the last of an attempt that finished. One that is recorded last, before a lost one, is not."""
    last_token = attempts.last_token[parts.who]
    reaches = np.where(parts.at >= 0, passes.done[parts.at] >= last_token, known(sent) & (sent >= last_token))
    return parts.last & attempts.finished[parts.who] & reaches


def _charge_return(budget: Budget, attempts: Attempts, who: Ints, sent: Ints) -> None:
    who, sent = who[known(sent)], sent[known(sent)]
    budget.charge(RETURN, attempts.row[who], np.maximum(attempts.end[who] - sent, 0))


def _charge_execution(budget: Budget, passes: Passes, parts: Parts, attempts: Attempts, ns: Ints) -> None:
    """Charge by role. Of a decode in a mixed step, what exceeds the predicted time without prefills was a stall."""
    who, at, decode = parts.who, parts.at, parts.slices.is_role(Role.DECODE)
    alone = passes.decode_only[at]
    split = decode & passes.is_kind(StepKind.MIXED)[at] & (alone > 0)
    stalled = np.where(split, np.maximum(ns - alone, 0), 0)
    for cause, role in ((PREFILL, Role.PREFILL), (RECOMPUTE, Role.RECOMPUTE), (DECODE, Role.DECODE)):
        chosen = parts.slices.is_role(role)
        budget.charge(cause, attempts.row, sums(len(attempts), who[chosen], (ns - stalled)[chosen]))
    culprit = parts.largest(len(passes), parts.slices.tokens, ~decode)[at]
    budget.charge(STALLED_BY_PREFILL, attempts.row[who], stalled, culprit=culprit)
