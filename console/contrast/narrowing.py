"""The term of a filter that a finding leads to, or why it leads to none. Pure."""

from console.contrast.answer import Sides
from console.contrast.attributes import term
from console.contrast.findings import BELIEVED, Finding
from console.filter import Term


def narrowing(finding: Finding, sides: Sides, *, whole: bool) -> Term | str:
    """The term that leaves those whom the finding is about; in words, why none would.

    `whole` says that the term is asked of the whole run; else it is asked of the selection, as one more condition.
    """
    asked = term(finding.attribute, finding.value, below=finding.below)
    if asked is None:
        return "no filter can ask for this"
    if finding.sample.is_numeric and finding.q > BELIEVED:
        return "what differs may be chance: no value tells the sides apart"
    inside, outside = finding.having
    drawn = sides.drawn or (sides.inside, sides.outside)
    left, of = (inside + outside, sum(drawn)) if whole else (inside, drawn[0])
    if not left:
        return f"none of the selected requests would be left by {asked}"
    return asked if left < of else f"{asked} is true of all requests that are selected: it would leave out none"
