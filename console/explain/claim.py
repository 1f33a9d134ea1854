"""The pieces that a suspect has claimed, and how much they are: of the excess, or of what everybody waits for. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

from console.explain.cells import Cell
from console.explain.evidence import Evidence, View
from console.explain.finding import Culprit, Finding, Kind, Nature, Steps
from console.filter import Filter, Part
from console.widgets.ink import duration, percent

_NAMED: Final = 3
_LINKED: Final = 0.2


@dataclass(frozen=True)
class Claim:
    """Cells of one suspect. `whole` is what all cells of the view sum to, on average for a request, in ns."""

    evidence: Evidence
    view: View
    cells: tuple[Cell, ...]
    whole: Fraction

    @cached_property
    def ns(self) -> Fraction:
        """What they sum to, on average for a request."""
        return total(self.evidence, self.view, self.cells)

    @property
    def share(self) -> Fraction:
        """Of the whole; 0 of nothing."""
        return self.ns / self.whole if self.whole else Fraction(0)

    @cached_property
    def causes(self) -> dict[str, Fraction]:
        """Its causes, largest first; those that are less than in the other cohort are below 0."""
        cells: dict[str, list[Cell]] = {}
        for cell in self.cells:
            cells.setdefault(cell.cause, []).append(cell)
        found = {cause: total(self.evidence, self.view, some) for cause, some in cells.items()}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def lost(self) -> int:
        """What the requests of the view lost to it in all, in ns."""
        return sum(self._spent(cell) for cell in self.cells)

    @cached_property
    def culprits(self) -> tuple[Culprit, ...]:
        """Who is behind it, largest first, with their part of what was lost."""
        found: Counter[int] = Counter()
        for cell in self.cells:
            if cell.culprit is not None and cell.culprit in self.evidence.people:
                found[cell.culprit] += self._spent(cell)
        people = self.evidence.people
        return tuple(
            Culprit(rid, people[rid].request_id, people[rid].prompt_tokens, ns / self.lost)
            for rid, ns in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
            if self.lost > 0
        )

    @property
    def blamed(self) -> int:
        """How many requests are behind it."""
        spent = [cell for cell in self.cells if self._spent(cell) > 0]
        named = {cell.culprit for cell in spent if cell.culprit is not None}
        others: Counter[tuple[str, str]] = Counter()
        for cell in spent:
            others[cell.cause, cell.root] += cell.culprits
        return len(named) + max(others.values(), default=0)

    def by_root(self) -> dict[str, float]:
        """Parts of what was lost by what kept the head of the queue out, largest first."""
        found: Counter[str] = Counter()
        for cell in self.cells:
            found[cell.root] += self._spent(cell)
        return {root: ns / self.lost for root, ns in found.most_common() if self.lost > 0 and ns > 0}

    def opening(self, what: str) -> str:
        """`62% of the p99 excess is WHAT`, with the time."""
        size = f"{percent(float(self.share))} of {self.of()}"
        return f"{size} ({duration(round(self.ns))} of {duration(round(self.whole))} a request) is {what}"

    def of(self) -> str:
        """What it is a part of."""
        return excess_name(self.evidence) if self.view == "tail" else "the time of a typical request"

    def named_causes(self) -> str:
        """The causes that matter, in words."""
        names = [cause for cause, ns in self.causes.items() if ns > self.ns / 10][:_NAMED]
        return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"

    def steps_of(self, rid: int) -> Steps | None:
        """In which steps the prompt of a request was computed, if that is known."""
        found = self.evidence.prompts.get(rid)
        return Steps(*found) if found else None

    def finding(self, kind: Kind, sentences: Sequence[str], nature: Nature = Nature.TIME) -> Finding:
        """What the suspect says, with all that follows from its cells."""
        tail = self.view == "tail"
        return Finding(
            kind=kind,
            nature=nature,
            sentences=tuple(sentences),
            excess_ns=self.ns if tail else None,
            share=self.share if tail else None,
            everyone=float(self.share) if not tail else None,
            causes=tuple(cause for cause, ns in self.causes.items() if ns > 0),
            victims=self.evidence.touched.get(next(iter(self.causes), ""), 0) if tail else None,
            slow=self.evidence.slow.n if tail else None,
            culprits=self.culprits,
            measured=all(cell.measured for cell in self.cells),
            only=self.link(),
            at=self.evidence.place(self.culprits[0].rid if self.culprits else None),
        )

    def link(self) -> str:
        """A filter that shows whom it happened to: slow, and a good part of their time in the largest cause."""
        slow = self.evidence.cohorts.slow_filter if self.view == "tail" else Filter()
        if not self.causes or not self.lost:
            return str(slow)
        cause = next(iter(self.causes))
        spent = sum(self._spent(cell) for cell in self.cells if cell.cause == cause)
        whole = self.evidence.slow.e2e_ns if self.view == "tail" else self.evidence.typical.e2e_ns
        # Some request has at least the mean share, so half of it leaves nobody looking at an empty list.
        least = Decimal(20) if spent > _LINKED * whole else Decimal(int(50 * spent / whole))
        return str(slow & Filter((Part("cause", cause, ">", least if least else 0),)))

    def _spent(self, cell: Cell) -> int:
        return cell.slow_ns if self.view == "tail" else cell.typical_ns


def total(evidence: Evidence, view: View, cells: Iterable[Cell]) -> Fraction:
    """What cells sum to, on average for a request, in ns."""
    cells = list(cells)
    typical = Fraction(sum(cell.typical_ns for cell in cells), evidence.typical.n) if cells else Fraction(0)
    if view == "everyone" or not cells:
        return typical
    return Fraction(sum(cell.slow_ns for cell in cells), evidence.slow.n) - typical


def excess_name(evidence: Evidence) -> str:
    """`the p99 excess`."""
    slow = evidence.cohorts.slow
    if slow.limit_ns is not None:
        return f"the excess over {duration(slow.limit_ns)}"
    measure = "" if slow.measure.name == "e2e" else f" {slow.measure.title}"
    return f"the{measure} p{slow.percentile.normalize():f} excess"
