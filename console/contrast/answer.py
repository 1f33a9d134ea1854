"""Some requests against the rest: which they are, and what sets them apart, as plain data (SPEC F3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from console.blame.cohorts import Slow, read_cohorts
from console.contrast.attributes import KINDS, Attribute, is_told, term
from console.contrast.counting import Sample
from console.contrast.findings import BELIEVED, LEAST, Finding, Findings, judge
from console.contrast.samples import Chosen, choose, read_lived, samples_told, show
from console.filter import EVERYTHING, Filter, Words
from console.session import Session

if TYPE_CHECKING:
    import duckdb

ANSWERED: Final = Filter((Words("status", ("ok",)),))

FORMULAS: Final = {
    "effect": "numbers: Cliff's delta, P(inside > outside) - P(inside < outside); words: share inside - share outside",
    "p": "numbers: Mann-Whitney U, ties corrected; words: chi-square, or Fisher's exact test of a small 2 x 2",
    "q": f"Benjamini-Hochberg over all attributes; believed where q <= {BELIEVED:g}",
    "size": "Cliff's delta: large from 0.474, medium from 0.33, small from 0.147 (Romano et al. 2006)",
    "v": "Cramér's V of all words of the attribute",
    "values": "values from 512 on that differ by less than 1 % are counted together",
}


@dataclass(frozen=True, slots=True)
class Sides:
    """Which attempts are compared: `selection` against those of `against` that are not in it, and how many each.

    `words` say what the selection is, where nobody chose one.
    """

    selection: Filter
    against: Filter
    inside: int
    outside: int
    words: str = ""
    drawn: tuple[int, int] | None = None
    """How many of each side are compared, where there are too many for all."""

    @property
    def refusal(self) -> str | None:
        """Why nothing is concluded; None where there are enough on both sides."""
        few = min(self.inside, self.outside)
        if few >= LEAST:
            return None
        side = "selected" if self.inside <= self.outside else "left to compare with"
        count = "no request is" if not few else "one request is" if few == 1 else f"only {few} requests are"
        return f"{count} {side}: too few to tell anything from chance ({LEAST} on each side are needed)"


@dataclass(frozen=True, slots=True)
class Contrast:
    """What `tailtrace contrast` tells. Without `findings` it refuses; `left_out` is what the selection is made by."""

    run: str
    sides: Sides
    findings: Findings | None
    left_out: Sequence[str] = ()


def contrast(
    session: Session,
    selection: Filter = EVERYTHING,
    against: Filter = EVERYTHING,
    slow: Slow | None = None,
    cursor: "duckdb.DuckDBPyConnection | None" = None,
) -> Contrast:
    """The selection against the rest; without one, the slow answered requests against the other answered ones.

    `cursor` is a fresh one, under no filter, which lets the caller interrupt. Odd runs fail nothing: they are refused.
    """
    cursor = cursor if cursor is not None else session.connect()
    sides, chosen = read_sides(session, selection, against, slow or Slow(), cursor)
    samples = [*samples_quick(sides, chosen), *read_slow(session, sides, chosen, cursor)]
    return concluded(session.name, sides, samples)


def read_sides(
    session: Session, selection: Filter, against: Filter, slow: Slow, cursor: "duckdb.DuckDBPyConnection"
) -> tuple[Sides, Chosen]:
    """Choose the attempts, on a cursor under no filter, and say which they are."""
    words = ""
    if not selection:
        cohorts = read_cohorts(session, slow, cursor)
        selection, against = cohorts.slow_filter if cohorts.n else ANSWERED, against & ANSWERED
        words = cohorts.words.partition(";")[0]
    chosen = choose(session, cursor, selection, against)
    return Sides(selection, against, chosen.inside, chosen.outside, words, chosen.drawn), chosen


def samples_quick(sides: Sides, chosen: Chosen) -> list[Sample]:
    """What the requests were; nothing where there are too few to conclude from."""
    return [] if sides.refusal else list(samples_told(chosen))


def read_slow(session: Session, sides: Sides, chosen: Chosen, cursor: "duckdb.DuckDBPyConnection") -> list[Sample]:
    """What they lived through, which takes longer; on whichever cursor under no filter."""
    if sides.refusal:
        return []
    show(cursor, chosen)
    return list(read_lived(session, cursor))


def concluded(run: str, sides: Sides, samples: Sequence[Sample]) -> Contrast:
    """What follows from the samples."""
    if sides.refusal:
        return Contrast(run, sides, None)
    kept = [sample for sample in samples if not is_told(sample.attribute, sides.selection)]
    left = {_group(sample.attribute) for sample in samples if is_told(sample.attribute, sides.selection)}
    return Contrast(run, sides, judge(kept), sorted(left))


def _group(attribute: Attribute) -> str:
    return "shares of E2E" if attribute.unit == "permille" else attribute.title


def document(found: Contrast) -> dict[str, Any]:
    """For other programs; values are in the attribute's own unit, times in µs."""
    sides, findings = found.sides, found.findings
    return {
        "run": found.run,
        "selection": str(sides.selection),
        "against": str(sides.against),
        "words": sides.words,
        "inside": sides.inside,
        "outside": sides.outside,
        "drawn": sides.drawn,
        "refusal": sides.refusal,
        "findings": [_finding(one) for one in findings.believed] if findings else [],
        "may_be_chance": [_finding(one) for one in findings.chance] if findings else [],
        "same": list(findings.same) if findings else [],
        "unknown": list(findings.unknown) if findings else [],
        "left_out": list(found.left_out),
        "formulas": FORMULAS,
    }


def _finding(one: Finding) -> dict[str, Any]:
    attribute = one.attribute
    asked = term(attribute, one.value, below=one.below)
    return {
        "attribute": attribute.name,
        "title": attribute.title,
        "kind": KINDS[attribute.kind],
        "unit": attribute.unit,
        "effect": one.effect,
        "size": one.size,
        "p": one.p,
        "q": one.q,
        "n": list(one.n),
        "inside": one.inside,
        "outside": one.outside,
        "value": one.value,
        "below": one.below,
        "cramers_v": one.v,
        "filter": None if asked is None else str(asked),
    }
