"""Lines of a sheet: a value, how it is rounded for people, and the formula it comes from."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

_INDENT = 6


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` is exact; `shown` is rounded as a person would say it; `formula` has the words, then the numbers."""

    name: str
    value: Fraction
    unit: str
    shown: str
    formula: str

    @property
    def key(self) -> str:
        """The name as JSON has it."""
        return re.sub(r"\W+", "_", self.name).lower()


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together; `key` names them in JSON."""

    key: str
    title: str
    figures: tuple[Figure, ...]


def figure(name: str, value: Fraction | int, unit: str, formula: str, digits: int | None = None) -> Figure:
    """A line; `digits` significant digits are shown, all of a whole number's without it."""
    exact = Fraction(value)
    return Figure(name, exact, unit, number(exact if digits is None else rounded(exact, digits)), formula)


def rounded(value: Fraction, digits: int) -> Fraction:
    """`value` to `digits` significant digits."""
    return Fraction(f"{float(value):.{digits - 1}e}")


def number(value: Fraction | int) -> str:
    """For people: whole numbers in thousands, others to four digits or one decimal, large ones by their exponent."""
    exact = Fraction(value)
    if abs(exact) >= 10**9:
        return f"{float(exact):.4g}".replace("e+", "e")
    if exact.denominator == 1:
        return f"{exact.numerator:,}"
    return f"{float(exact):,.1f}" if abs(exact) >= 1000 else f"{float(exact):.4g}"


def render(sections: Sequence[Section], width: int) -> list[str]:
    """A line per figure with its formula behind it, or below it where `width` is too narrow."""
    figures = [figure for section in sections for figure in section.figures]
    names, shown = max(len(f.name) for f in figures), max(len(f.shown) for f in figures)
    units = max(len(f.unit) for f in figures)
    lines: list[str] = []
    for section in sections:
        lines += ["", section.title]
        for f in section.figures:
            lines += _fit(f"  {f.name:<{names}}  {f.shown:>{shown}} {f.unit:<{units}}", f.formula, width)
    return lines[1:]


def _fit(lead: str, formula: str, width: int) -> list[str]:
    if len(lead) + 2 + len(formula) <= width:
        return [f"{lead}  {formula}"]
    indent = " " * _INDENT
    return [lead.rstrip(), *textwrap.wrap(formula, max(width, 40), initial_indent=indent, subsequent_indent=indent)]
