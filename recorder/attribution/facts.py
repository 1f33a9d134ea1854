"""What all slices of a pass tell of it, whoever took part: how many there were, and who was the heaviest.

Slices may come in stretches of any size and in any order, so a run need not fit into memory.
"""

import numpy as np

from recorder.attribution.columns import Bools, Ints, equal
from recorder.attribution.passes import Passes
from recorder.attribution.slices import Slices
from recorder.schema import NONE
from recorder.words import Role


class Heaviest:
    """For each pass the request of the heaviest slice, the lowest rid where even; NONE where there was none."""

    def __init__(self, passes: int) -> None:
        self._weight = np.full(passes, NONE)
        self._lowest = np.full(passes, _NOBODY)

    @property
    def rid(self) -> Ints:
        """The request, of each pass."""
        return np.where(equal(self._lowest, _NOBODY), NONE, self._lowest)

    def take(self, at: Ints, weight: Ints, rid: Ints) -> None:
        """More slices: the pass, weight and request of each."""
        before = self._weight[at]
        np.maximum.at(self._weight, at, weight)
        most = self._weight[at]
        self._lowest[at[most > before]] = _NOBODY  # whoever was the heaviest so far is no more
        even = weight == most
        np.minimum.at(self._lowest, at[even], rid[even])


class Facts:
    """The facts of one worker's passes."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self.count = np.zeros(len(passes), np.int64)
        """Recorded slices of each pass."""
        self.largest_held = Heaviest(len(passes))
        """Who had the most tokens in the KV cache when the pass was over."""
        self.largest_part = Heaviest(len(passes))
        """Who computed most."""
        self.largest_prefill = Heaviest(len(passes))
        """Who computed most of those that did not decode."""

    def take(self, slices: Slices, familiar: Bools) -> None:
        """More slices; `familiar` are those of requests that the run knows, whom alone one can blame."""
        at = self._passes.index(slices.step)
        self.count += np.bincount(at[at >= 0], minlength=len(self.count))
        chosen = familiar & (at >= 0)
        at, slices = at[chosen], slices.take(chosen)
        self.largest_held.take(at, slices.tokens + slices.before, slices.rid)
        self.largest_part.take(at, slices.tokens, slices.rid)
        other = ~slices.is_role(Role.DECODE)
        self.largest_prefill.take(at[other], slices.tokens[other], slices.rid[other])

    def complete(self) -> Bools:
        """Which passes have all their slices recorded. Of the others nobody can tell who was left out."""
        return np.equal(self.count, self._passes.slices)


_NOBODY = np.iinfo(np.int64).max
