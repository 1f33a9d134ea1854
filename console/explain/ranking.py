"""Pieces of the tail to suspects, each piece to one only, and what they make of them, in order. Pure.

Where P99 is far from P50 the account is of the tail: what slow requests took more than typical ones. Where it is not,
there is no tail to speak of, and the account is of what a typical request took, for what everybody waits for is in no
difference between requests. Either way findings, small pieces and the unexplained sum to the whole exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from console.explain.cells import Cell
from console.explain.claim import Claim, total
from console.explain.evidence import Evidence, View, view_of
from console.explain.finding import Finding, Nature
from console.explain.suspects import SUSPECTS

UNEXPLAINED: Final = frozenset({"UNNAMED", "NOT_KEPT"})
_STANDS_OUT: Final[dict[View, Fraction]] = {"tail": Fraction(1, 10), "everyone": Fraction(1, 4)}
"""Parts of the whole from which time that is nobody's own work is worth a sentence of its own."""
_WORTH_TELLING: Final = Fraction(1, 100)
_ORDER: Final = (Nature.MEASUREMENT, Nature.ANSWERS)


@dataclass(frozen=True)
class Account:
    """The findings in order. `whole_ns` is what they are parts of, on average for a request; None where nobody is slow.

    `small` is what findings that are not told come to, among them those in which slow requests took less than others;
    `unexplained` what has no cause. With the shares of the findings these are 1.
    """

    evidence: Evidence
    view: View
    whole_ns: Fraction | None
    findings: tuple[Finding, ...]
    small: Fraction
    unexplained: Fraction

    @property
    def prominent(self) -> tuple[Finding, ...]:
        """Those that stand out."""
        return tuple(finding for finding in self.findings if finding.stands_out)


def account(evidence: Evidence) -> Account:
    """Who takes the tail, and how much of it nobody can tell."""
    view = view_of(evidence.pulse)
    claims, unexplained = _claimed(evidence)
    whole = total(evidence, view, evidence.cells)
    told: list[tuple[Claim, Finding]] = []
    for suspect in SUSPECTS:
        claim = Claim(evidence, view, claims[suspect.kind], whole)
        finding = suspect.tell(claim) if claim.cells or suspect.untimed else None
        if finding is not None and _is_worth(finding, claim):
            told.append((claim, _tidy(finding, claim)))
    told.sort(key=lambda pair: _rank(pair[1], pair[0]))
    shares = sum((claim.share for claim, _ in told), Fraction(0))
    unknown = total(evidence, view, unexplained) / whole if whole else Fraction(0)
    return Account(
        evidence=evidence,
        view=view,
        whole_ns=whole if evidence.cells else None,
        findings=tuple(finding for _, finding in told),
        small=1 - shares - unknown if whole else Fraction(0),
        unexplained=unknown,
    )


def chiefs(evidence: Evidence) -> set[int]:
    """Whoever is behind most of a part: of these it is worth knowing in which steps they did it."""
    view = view_of(evidence.pulse)
    claims, _ = _claimed(evidence)
    parts = (Claim(evidence, view, cells, Fraction(1)) for cells in claims.values())
    return {part.culprits[0].rid for part in parts if part.culprits}


def _claimed(evidence: Evidence) -> tuple[dict[str, tuple[Cell, ...]], Sequence[Cell]]:
    """Each cell to the first suspect that claims it."""
    claims: dict[str, list[Cell]] = {suspect.kind: [] for suspect in SUSPECTS}
    predicates = [(suspect.kind, suspect.claims(evidence)) for suspect in SUSPECTS]
    unexplained: list[Cell] = []
    for cell in evidence.cells:
        mine = (
            None if cell.cause in UNEXPLAINED else next((kind for kind, is_mine in predicates if is_mine(cell)), None)
        )
        (unexplained if mine is None else claims[mine]).append(cell)
    return {kind: tuple(cells) for kind, cells in claims.items()}, unexplained


def _is_worth(finding: Finding, claim: Claim) -> bool:
    return finding.nature in _ORDER or claim.share >= _WORTH_TELLING


def _stands_out(finding: Finding, claim: Claim) -> bool:
    if finding.nature is Nature.TIME:
        return claim.share >= _STANDS_OUT[claim.view]
    return finding.nature in _ORDER


def _rank(finding: Finding, claim: Claim) -> tuple[int, Fraction]:
    """Doubts about the figures, lost answers, then time by how much it is."""
    place = _ORDER.index(finding.nature) if finding.nature in _ORDER else len(_ORDER)
    return place, -claim.share


def _tidy(finding: Finding, claim: Claim) -> Finding:
    """Without the sentences that had nothing to say, and with a verdict."""
    sentences = tuple(sentence for sentence in finding.sentences if sentence)
    return replace(finding, sentences=sentences, stands_out=_stands_out(finding, claim))
