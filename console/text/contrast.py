"""A contrast as lines: attributes ranked by effect, with both sides' values and, where there is room, histograms."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import floor, log10
from typing import Final

from console.contrast.answer import FORMULAS, Contrast
from console.contrast.attributes import KINDS, term
from console.contrast.findings import BELIEVED, Finding, Findings, bin_edges, bins
from console.text.paint import wrapped
from console.text.report import counted
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, bar, clean, crop, duration, fit, percent, rule, signed_bar, spark
from console.widgets.tabs import Table

_TITLE: Final = 27
_ROOMY: Final = 9
"""So many cells more a title gets where they are to spare: those of words are long."""
_BAR: Final = 13
_VALUE: Final = 11
_CELLS: Final = 10
_NARROW: Final = 71
_BARS: Final = 84
_WIDE: Final = 107
"""Widths of a row without bars, and from which on there are bars, and histograms."""
_LEAST_ROWS: Final = 3
_TALLEST: Final = 12
"""Rows of a histogram: so many at least, and at most."""


def contrast_lines(found: Contrast, width: int) -> list[Line]:
    """All of it, at most `width` cells wide."""
    lines: list[Line] = [[(clean(found.run), "strong bold")], *head_lines(found, width)]
    if found.findings is not None:
        lines += [[], *ranking(found.findings, width).lines, [], *foot_lines(found, width)]
    return [crop(line, width) for line in lines]


def head_lines(found: Contrast, width: int) -> list[Line]:
    """Who is compared with whom, and why nothing is concluded where that is so."""
    sides = found.sides
    among = f" of {clean(str(sides.against))}" if sides.against else ""
    told = f"{counted(sides.inside, 'request')} of {clean(str(sides.selection)) or 'all'}"
    lines = wrapped(f"{told} against {sides.outside:,} others{among}", width, "text")
    lines += wrapped(clean(sides.words), width) if sides.words else []
    if sides.drawn is not None:
        lines += wrapped(f"compared: {sides.drawn[0]:,} and {sides.drawn[1]:,} of them, drawn at random", width)
    return lines + (wrapped(sides.refusal, width, "warn") if sides.refusal else [])


def ranking(findings: Findings, width: int, *, chance_too: bool = False) -> Table:
    """Findings ranked by effect; those that may be chance come last, with a question mark."""
    head = [rule("What sets them apart", width, "effect -1 to 1, largest first")]
    if not findings.believed:
        head += wrapped("nothing: what differs may be chance", width, "text")
    shown = [*findings.believed, *(findings.chance if chance_too else [])]
    least = max(each for each in (_NARROW, _BARS, _WIDE) if each <= max(width, _NARROW))
    title = _TITLE + min(max(width - least, 0), _ROOMY)
    heads = f"{'effect':>9}{'inside':>{_VALUE}}{'outside':>{_VALUE}}  chance"
    head.append([(" " * (title + 3 + (_BAR if least >= _BARS else 0)) + heads if shown else "", HEADS)])
    return Table(head, [_row(finding, title, bars=least >= _BARS, sparks=least >= _WIDE) for finding in shown])


def _row(finding: Finding, title: int, *, bars: bool, sparks: bool) -> Line:
    is_believed = finding.q <= BELIEVED
    sides = tuple(fit(text, _VALUE - 1, "right") for text in sides_of(finding))
    return [
        ("  " if is_believed else "? ", "muted"),
        (fit(clean(_title(finding)), title), "text" if is_believed else "muted"),
        *(signed_bar(finding.effect, _BAR, "accent", "accent") if bars else []),
        (f"{finding.effect:>+9.2f}", "strong" if is_believed else "muted"),
        (f" {sides[0]}", "run.b"),
        (f" {sides[1]}", "run.a"),
        (f"  {chance(finding.q):<8}", "muted"),
        *(_sparks(finding) if sparks else []),
    ]


def _title(finding: Finding) -> str:
    """The attribute; of words, with the one that differs most."""
    title = finding.attribute.title
    return title if finding.sample.is_numeric else f"{title} {finding.value or '(none)'}"


def _sparks(finding: Finding) -> Line:
    if not finding.sample.is_numeric:
        return []
    inside, outside = bins(finding, _CELLS)
    most = max(*inside, *outside)
    one, other = ("".join(spark(share / most) for share in side) for side in (inside, outside))
    return [("▏", "faint"), (one, "run.b"), ("▏", "faint"), (other, "run.a"), ("▏", "faint")]


def sides_of(finding: Finding) -> tuple[str, str]:
    """What is typical inside and outside: medians of numbers, shares that have the word."""
    if not finding.sample.is_numeric:
        return percent(finding.inside), percent(finding.outside)
    return value_text(finding.inside, finding.attribute.unit), value_text(finding.outside, finding.attribute.unit)


def value_text(value: float, unit: str) -> str:
    """A number of an attribute with its unit."""
    if unit == "us":
        return duration(round(value * 1000))
    if unit in {"permille", "run"}:
        return f"{value / 10:.1f}%"
    return f"{value:,.0f}"


def chance(p: float) -> str:
    """A probability in words short enough for a column."""
    if p >= 0.001:
        return f"{p:.3f}"
    return f"< 1e{floor(log10(p)) + 1}" if p > 1e-99 else "< 1e-99"


def finding_lines(finding: Finding, width: int, height: int) -> list[Line]:
    """One attribute in full: both histograms, what tells the sides apart, and how sure that is."""
    about = list(_about(finding, width))
    room = height - len(about)
    blank: list[Line] = [[]] if room > _LEAST_ROWS else []
    return [crop(line, width) for line in [*about, *blank, *_both(finding, width, room - len(blank))]]


def _about(finding: Finding, width: int) -> Iterator[Line]:
    attribute = finding.attribute
    yield rule(clean(attribute.title), width, KINDS[attribute.kind])
    sides, n = sides_of(finding), finding.n
    what = "median" if finding.sample.is_numeric else f"{clean(str(finding.value)) or '(none)'}:"
    yield [("inside  ", "run.b bold"), (f"{what} {sides[0]}, n = {n[0]:,}", "text")]
    yield [("outside ", "run.a bold"), (f"{what} {sides[1]}, n = {n[1]:,}", "text")]
    v = f", Cramér's V {finding.v:.2f}" if finding.v is not None else ""
    effect = f"effect {finding.effect:+.2f} ({finding.size}){v}"
    by_chance = f"by chance: p {chance(finding.p)}, q {chance(finding.q)}"
    both = f"{effect}; {by_chance}"
    for told in (both,) if len(both) <= width else (effect, by_chance):
        yield from wrapped(told, width, "text")
    asked = term(attribute, finding.value, below=finding.below)
    yield from wrapped(
        f"apart most at: {clean(str(asked))}" if asked is not None else "no filter can ask for this", width, "muted"
    )


def _both(finding: Finding, width: int, height: int) -> Iterator[Line]:
    """Side by side in one row a cell or word: the share of the inside over that of the outside."""
    height = max(height, _LEAST_ROWS)
    rows = _words(finding) if not finding.sample.is_numeric else _numbers(finding, min(height, _TALLEST))
    most = max((max(one, other) for _, one, other in rows), default=0.0) or 1.0
    room = max((width - 16 - 16) // 2, 1)
    for label, one, other in rows[:height]:
        yield [
            (fit(clean(label), 15, "right") + " ", "muted"),
            *bar(one / most, room, "run.b"),
            (f"{percent(one):>7} ", "run.b"),
            *bar(other / most, room, "run.a", "▒"),
            (f"{percent(other):>7}", "run.a"),
        ]


def _words(finding: Finding) -> list[tuple[str, float, float]]:
    names = ("others" if value is None else str(value) or "(none)" for value in finding.sample.values)
    return sorted(_shares(finding, names), key=lambda row: -max(row[1:]))


def _numbers(finding: Finding, cells: int) -> list[tuple[str, float, float]]:
    """One row a value where they are few, else one a cell; cells that are called alike are one."""
    values, unit = finding.sample.values, finding.attribute.unit
    if len(values) <= cells:
        return list(_shares(finding, (value_text(int(str(value)), unit) for value in values)))
    labels = [f"from {value_text(edge, unit)}" for edge in bin_edges(finding, cells)]
    cellwise = groupby(zip(labels, *bins(finding, cells), strict=True), key=lambda cell: cell[0])
    together = ((label, list(same)) for label, same in cellwise)
    return [(label, sum(one for _, one, _ in same), sum(other for _, _, other in same)) for label, same in together]


def _shares(finding: Finding, names: Iterable[str]) -> Iterator[tuple[str, float, float]]:
    sample, (n, m) = finding.sample, finding.n
    for name, one, other in zip(names, sample.inside, sample.outside, strict=True):
        yield name, int(one) / n, int(other) / m


def foot_lines(found: Contrast, width: int, *, chance_too: bool = True) -> list[Line]:
    """What may be chance, what can't differ, and what the numbers mean."""
    findings = found.findings
    if findings is None:
        return []
    lines: list[Line] = []
    for told, names in (
        ("may be chance: ", [one.attribute.title for one in findings.chance] if chance_too else []),
        ("the same for all: ", findings.same),
        ("known of too few: ", findings.unknown),
        ("left out, the selection is made by it: ", found.left_out),
    ):
        lines += wrapped(clean(told + ", ".join(names)), width, "muted", "  ") if names else []
    for name in ("effect", "p", "q"):
        lines += wrapped(f"{name} = {FORMULAS[name]}", width, ASIDE, "  ")
    return lines
