"""From counts to findings: how far apart the sides are, whether by chance, and the value that tells them apart.

Pure. Numbers and words have one effect size, so that they can be ranked together: of numbers Cliff's delta, the chance
that one inside is larger less the chance that it is smaller; of words the share inside less the share outside of the
word that differs most. For two words both are the same number. -1 to 1, 0 where nothing is apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from console.contrast.attributes import Attribute
from console.contrast.counting import Sample
from console.significance import Counts, false_discovery, rank_test, table_test

Floats = npt.NDArray[np.float64]

LEAST: Final = 8
"""Fewer on a side, and nothing is concluded: the tests approximate, and hardly anything could be unlikely."""
BELIEVED: Final = 0.05
"""False discoveries among those that are shown, at most, as an expectation."""
_WIDE: Final = 20
"""A range that ends so many times beyond its median is drawn by its logarithm."""
SIZES: Final = ((0.474, "large"), (0.33, "medium"), (0.147, "small"), (0.0, "negligible"))
"""Sizes of Cliff's delta in words (Romano et al. 2006)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attribute says. `inside` and `outside`: medians of numbers, or shares of `value` among words.

    `value` tells the sides apart best: the word, or the number from which on (`below`: below which) there are most
    inside against outside. `v` is Cramér's, for words. `p` is of a difference by chance, `q` with all attributes.
    """

    sample: Sample
    effect: float
    p: float
    q: float
    inside: float
    outside: float
    value: int | str
    below: bool
    v: float | None = None

    @property
    def attribute(self) -> Attribute:
        """What it is about."""
        return self.sample.attribute

    @property
    def having(self) -> tuple[int, int]:
        """How many on each side have the value that tells the sides apart, or one on its side of the range."""
        place = list(self.sample.values).index(self.value)
        if not self.sample.is_numeric:
            chosen = slice(place, place + 1)
        else:
            chosen = slice(0, place) if self.below else slice(place, None)
        return int(self.sample.inside[chosen].sum()), int(self.sample.outside[chosen].sum())

    @property
    def size(self) -> str:
        """The effect in words."""
        return next(word for least, word in SIZES if abs(self.effect) >= least)

    @property
    def n(self) -> tuple[int, int]:
        """How many on each side have a value at all."""
        return int(self.sample.inside.sum()), int(self.sample.outside.sum())


@dataclass(frozen=True, slots=True)
class Findings:
    """`believed` are ranked by effect, `chance` may be chance, `same` have one value; `unknown` are of too few."""

    believed: Sequence[Finding]
    chance: Sequence[Finding]
    same: Sequence[str]
    unknown: Sequence[str]


def judge(samples: Iterable[Sample]) -> Findings:
    """Findings of all attributes together: the more of them, the less of a difference is believed."""
    found: list[Finding] = []
    same, unknown = [], []
    for sample in samples:
        if len(sample.values) < 2:
            same.append(sample.attribute.title)
        elif min(sample.inside.sum(), sample.outside.sum()) < LEAST:
            unknown.append(sample.attribute.title)
        else:
            found.append(_numbers(sample) if sample.is_numeric else _words(sample))
    q = false_discovery([finding.p for finding in found])
    found = [replace(finding, q=one) for finding, one in zip(found, q, strict=True)]
    found.sort(key=lambda finding: (-abs(finding.effect), finding.p, finding.attribute.name))
    believed = [finding for finding in found if finding.q <= BELIEVED]
    chance = [finding for finding in found if finding.q > BELIEVED]
    return Findings(believed, chance, sorted(same), sorted(unknown))


def bins(finding: Finding, cells: int) -> tuple[list[float], list[float]]:
    """Both sides of a number in so many cells, as shares of the side; wide ranges by their logarithm.

    The lowest and the highest 1 % of all requests are in the cells at the ends.
    """
    scale = _Scale.of(finding, cells)
    values = np.asarray(finding.sample.values, dtype=np.float64)
    place = np.clip(((scale.at(values) - scale.low) / scale.step).astype(np.int64), 0, cells - 1)
    shares = [
        np.bincount(place, weights=side, minlength=cells) / max(int(side.sum()), 1)
        for side in (finding.sample.inside, finding.sample.outside)
    ]
    return [float(share) for share in shares[0]], [float(share) for share in shares[1]]


def bin_edges(finding: Finding, cells: int) -> list[float]:
    """The lower edge of each cell of `bins`, in the unit of the values."""
    scale = _Scale.of(finding, cells)
    return [float(edge) for edge in scale.back(scale.low + scale.step * np.arange(cells, dtype=np.float64))]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where the cells of a histogram begin, and how wide they are, on a linear or a logarithmic axis."""

    low: float
    step: float
    wide: bool

    @staticmethod
    def of(finding: Finding, cells: int) -> "_Scale":
        together = finding.sample.inside + finding.sample.outside
        low, middle, high = (float(str(finding.sample.values[_at(together, share)])) for share in (0.01, 0.5, 0.99))
        wide = high > _WIDE * max(abs(middle), 1.0)
        axis = _Scale(0.0, 1.0, wide)
        ends = axis.at(np.array([low, high]))
        return _Scale(float(ends[0]), float(ends[1] - ends[0]) / cells or 1.0, wide)

    def at(self, values: Floats) -> Floats:
        """Values on the axis."""
        return np.sign(values) * np.log1p(np.abs(values)) if self.wide else values

    def back(self, places: Floats) -> Floats:
        """Places on the axis as values."""
        return np.sign(places) * np.expm1(np.abs(places)) if self.wide else places


def _numbers(sample: Sample) -> Finding:
    ranked = rank_test(sample.inside, sample.outside)
    values = [int(str(value)) for value in sample.values]
    medians = [float(values[_at(side, 0.5)]) for side in (sample.inside, sample.outside)]
    place, below = _split(sample.inside, sample.outside)
    return Finding(sample, ranked.delta, ranked.p, 1.0, medians[0], medians[1], values[place], below)


def _words(sample: Sample) -> Finding:
    """The word that differs most; the rare ones together are no word."""
    tabled = table_test(sample.inside, sample.outside)
    shares = [side / side.sum() for side in (sample.inside, sample.outside)]
    named = np.array([value is not None for value in sample.values])
    apart = np.where(named, shares[0] - shares[1], 0.0)
    # Of two words both differ alike: name the one that there is more of inside.
    place = int(np.argmax(np.abs(apart) + 1e-12 * (apart > 0)))
    effect, (inside, outside) = float(apart[place]), (float(share[place]) for share in shares)
    value = sample.values[place]
    return Finding(sample, effect, tabled.p, 1.0, inside, outside, "" if value is None else value, False, tabled.v)


def _split(inside: Counts, outside: Counts) -> tuple[int, bool]:
    """The place from which on there is most of one side against the other, and whether the inside is below it.

    It is where the distribution functions are farthest apart (Kolmogorov and Smirnov).
    """
    apart = np.cumsum(inside)[:-1] / inside.sum() - np.cumsum(outside)[:-1] / outside.sum()
    place = int(np.argmax(np.abs(apart)))
    return place + 1, bool(apart[place] > 0)


def _at(counts: Counts, share: float) -> int:
    """The place of a nearest-rank quantile."""
    reached = np.cumsum(counts)
    return int(np.searchsorted(reached, max(int(np.ceil(share * reached[-1])), 1)))
