"""Recordings that hold the stamps of requests and no steps: the phase of every ns is known, what happened in it is not.

So the cause is the whole phase, named apart from the causes that steps tell: a decode that stood still for somebody
else's prompt, or lost its blocks, is all `DECODE/PHASE` here.
"""

from itertools import pairwise

import numpy as np

from recorder.attribution.attempts import Attempts
from recorder.attribution.budget import Budget, phase
from recorder.attribution.columns import first_known, known
from recorder.words import Phase

_PHASES = (Phase.INGRESS, Phase.QUEUE, Phase.PREFILL, Phase.DECODE, Phase.RETURN)


def charge_phases(budget: Budget, attempts: Attempts) -> None:
    """Charge what lies between the stamps of each attempt; what one that did not happen would end stays UNNAMED."""
    begun = first_known(np.minimum(attempts.admitted, attempts.end), attempts.arrival)
    stamps = (attempts.queued, attempts.first_scheduled, attempts.first_token, attempts.last_token, attempts.returned)
    for name, (start, end) in zip(_PHASES, pairwise((begun, *stamps)), strict=True):
        both = known(start) & known(end)
        budget.charge(phase(name), attempts.row, np.where(both, np.maximum(end - start, 0), 0))
