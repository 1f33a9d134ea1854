"""Blame as lines: budget, tail excess, what makes latency vary, victims and culprits. Every table closes."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import sqrt
from typing import Any, Final

from console.blame.answer import FORMULAS, Blame
from console.blame.interference import Interference
from console.blame.ledgers import Excess, Ledger, Ledgers, excess
from console.blame.spread import Spread
from console.report import UNNAMED
from console.text.paint import wrapped
from console.text.report import counted, filter_lines
from console.theme import Look, cause_look, phase_look
from console.widgets.ink import Line, bar, clean, crop, duration, fit, pad, percent, rule, signed_bar, spread

_NAME: Final = 23
_MS: Final = 11
_SHARE: Final = 8
_CELL: Final = 10
FEW: Final = 20
"""A cohort of fewer is told of as a few requests, not as a tail."""


def blame_lines(found: Blame, width: int) -> list[Line]:
    """All of it, at most `width` cells wide."""
    return [crop(line, width) for line in _all(found, width)]


def _all(found: Blame, width: int) -> Iterator[Line]:
    yield [(clean(found.run), "strong bold")]
    yield from filter_lines(str(found.only), width)
    yield []
    yield from ledger_lines(found.ledgers.whole, "phases", width)
    yield []
    yield from ledger_lines(found.ledgers.whole, "causes", width)
    yield []
    for kind in ("phases", "causes"):
        yield from excess_lines(found.ledgers, kind, width)
        yield []
    yield from spread_lines(found.spread["causes"], "causes", width)
    yield from pair_lines(found.spread["causes"], None, width, 6)
    yield []
    yield from matrix_lines(found.interference, width)
    yield []
    yield from culprit_lines(found.culprits, found.ledgers.whole.e2e_ns, width)
    yield from victim_lines(found.pairs[:10], width)


def part_look(name: str, kind: str) -> Look:
    """Glyph and style of a phase or a cause."""
    return phase_look(name) if kind == "phases" and name != UNNAMED else cause_look(name)


# The budget


def ledger_rows(ledger: Ledger, kind: str) -> list[str]:
    """The rows of a budget, in the order of a request's life; UNNAMED is always one."""
    parts: Mapping[str, int] = getattr(ledger, kind)
    return list(parts) if ledger.n else []


def ledger_lines(ledger: Ledger, kind: str, width: int, chosen: int | None = None) -> list[Line]:
    """Where the time went, with the sum that it has to be."""
    title = kind.capitalize()
    lines = [rule(title, width, f"share of E2E, {counted(ledger.n, 'ok request')}")]
    if not ledger.n:
        return [*lines, [("no request was answered", "muted")]]
    lines.append(_heads("total", "a request", width=width))
    parts: Mapping[str, int] = getattr(ledger, kind)
    for place, name in enumerate(ledger_rows(ledger, kind)):
        row = _ledger_row(ledger, kind, name, parts[name], width)
        lines.append(marked(row, place == chosen, width))
    told = f"sum = E2E of {counted(ledger.n, 'ok request')}"
    return [*lines, spread([("  ", "text"), (told, "good")], [(f"{sum(parts.values()):,} ns", "strong")], width)]


def _heads(*names: str, width: int) -> Line:
    return [(crop([(" " * (_NAME + 2) + "".join(f"{name:>{_MS}}" for name in names), "")], width)[0][0], "muted")]


def _ledger_row(ledger: Ledger, kind: str, name: str, ns: int, width: int) -> Line:
    look, share = part_look(name, kind), ns / ledger.e2e_ns if ledger.e2e_ns else 0.0
    numbers = f"{ns / 1e6:>{_MS},.1f}{_mean(ledger.mean(ns))}{percent(share):>{_SHARE}} "
    return [*_name(look, name, name in ledger.modelled), (numbers, "text"), *_bar(share, look, width, numbers)]


def _name(look: Look, name: str, modelled: bool) -> Line:
    style = "strong" if name == UNNAMED else "text"
    return [(f"{look.glyph} ", look.style), (fit(clean(name) + ("~" if modelled else ""), _NAME), style)]


def _bar(share: float, look: Look, width: int, numbers: str) -> Line:
    room = width - _NAME - 2 - len(numbers) - 1
    return bar(max(share, 0.0), room, look.style, look.glyph) if room > 3 else []


# The excess


def excess_lines(found: Ledgers, kind: str, width: int, chosen: int | None = None) -> list[Line]:
    """What the slow ones lost more than the typical ones, on average, with its sum: the difference of the mean E2E."""
    slow, typical = found.slow, found.typical
    lines = [rule(f"Tail excess by {kind[:-1]}", width, f"{slow.n:,} slow - {typical.n:,} typical, mean ms")]
    lines += wrapped(clean(found.cohorts.words), width, "text")
    rows = excess(slow, typical, kind)
    if not rows:
        missing = "slow" if not slow.n else "typical"
        return [*lines, *wrapped(f"no request is {missing}: there is nothing to subtract", width)]
    if min(slow.n, typical.n) < FEW:
        lines += wrapped(f"only {min(slow.n, typical.n)} on a side: this tells of them, not of a tail", width, "warn")
    lines.append(_heads("slow", "typical", "excess", width=width))
    most = max(abs(row.ns) for row in rows) or Fraction(1)
    for place, row in enumerate(rows):
        modelled = row.name in slow.modelled | typical.modelled
        lines.append(marked(_excess_row(row, kind, most, modelled, width), place == chosen, width))
    return [*lines, _excess_sum(slow, typical, width)]


def _excess_row(row: Excess, kind: str, most: Fraction, modelled: bool, width: int) -> Line:
    numbers = f"{_mean(row.slow)}{_mean(row.typical)}{_signed(row.ns)}{_share(row.share):>{_SHARE}} "
    room = width - _NAME - 2 - len(numbers) - 1
    drawn = signed_bar(float(row.ns / most), min(room, 31)) if room >= 7 else []
    return [*_name(part_look(row.name, kind), row.name, modelled), (numbers, "text"), *drawn]


def _excess_sum(slow: Ledger, typical: Ledger, width: int) -> Line:
    means = slow.mean(slow.e2e_ns), typical.mean(typical.e2e_ns)
    numbers = f"{_mean(means[0])}{_mean(means[1])}{_signed(means[0] - means[1])}"
    return crop([("  ", "text"), (fit("sum = mean E2E", _NAME), "good"), (numbers, "strong")], width)


# The spread


def spread_lines(found: Spread, kind: str, width: int, chosen: int | None = None) -> list[Line]:
    """Which part makes requests take unlike times: shares of the variance, which sum to all of it."""
    lines = [rule(f"What makes E2E vary, by {kind[:-1]}", width, f"{counted(found.n, 'ok request')}")]
    if found.n < 2:
        return [*lines, [("it takes two answered requests to vary", "muted")]]
    if not found.variance:
        return [*lines, [("all of them took the same time", "muted")]]
    lines.append(_heads("deviation", "share", width=width))
    for place, name in enumerate(found.parts):
        lines.append(marked(_spread_row(found, kind, name, width), place == chosen, width))
    whole = f"{_deviation(found.variance)}{'100.0%':>{_MS}}"
    told: Line = [("  ", "text"), (fit("sum = Var(E2E)", _NAME), "good"), (whole, "strong")]
    return [*lines, crop(told, width), *wrapped(FORMULAS["spread"], width, "muted", "  ")]


def _spread_row(found: Spread, kind: str, name: str, width: int) -> Line:
    share = found.share(name)
    numbers = f"{_deviation(found.of(name, name))}{_share(share):>{_MS}} "
    room = width - _NAME - 2 - len(numbers) - 1
    drawn = signed_bar(float(share or 0), min(room, 31)) if room >= 7 else []
    return [*_name(part_look(name, kind), name, modelled=False), (numbers, "text"), *drawn]


def pair_lines(found: Spread, name: str | None, width: int, count: int) -> list[Line]:
    """Parts that vary together, of one part or of all: they add to the variance, or even each other out."""
    pairs = [pair for pair in found.pairs() if name is None or name in pair[:2]][:count]
    lines: list[Line] = [[("  varying together: 2 Cov, share of Var(E2E)", "muted")]] if pairs else []
    for a, b, twice in pairs:
        share = twice / found.variance if found.variance else None
        told = "rise together" if twice > 0 else "even out"
        lines.append([(f"  {_share(share):>{_SHARE}}  ", "strong"), (f"{clean(a)} and {clean(b)} {told}", "text")])
    return [crop(line, width) for line in lines]


# Who took whose time


def matrix_columns(found: Interference, width: int) -> list[str]:
    """The culprits that have a column of their own at this width; the others share one."""
    room = max((width - _NAME - 2 - 3 * _CELL) // _CELL, 1)
    return found.culprits if len(found.culprits) <= room + 1 else found.culprits[:room]


def matrix_lines(found: Interference, width: int, chosen: int | None = None) -> list[Line]:
    """Victims down, culprits across, with nobody and the sum: all cells are the budget."""
    lines = [rule(f"Who took whose time, by {found.by}", width, "victims down, culprits across")]
    if not found.victims:
        return [*lines, [("no request was answered", "muted")]]
    columns = matrix_columns(found, width)
    rest = found.culprits[len(columns) :]
    heads = [*(_class(name) for name in columns), *([f"{len(rest)} more"] if rest else []), "nobody", "sum"]
    lines.append([(" " * (_NAME + 2) + "".join(fit(head, _CELL - 1, "right") + " " for head in heads), "muted")])
    for place, victim in enumerate(found.victims):
        cells = _cells(found, [victim], columns, rest)
        row: Line = [("  ", "text"), (fit(_class(victim), _NAME), "text"), *cells]
        lines.append(marked(row, place == chosen, width))
    lines.append([("  ", "text"), (fit("sum = E2E", _NAME), "good"), *_cells(found, found.victims, columns, rest)])
    return [crop(line, width) for line in lines]


def _cells(found: Interference, victims: Sequence[str], columns: Sequence[str], rest: Sequence[str]) -> Line:
    groups: list[Sequence[str | None]] = [*([name] for name in columns), *([rest] if rest else []), [None]]
    sums = [sum(found.ns(victim, one) for victim in victims for one in group) for group in groups]
    styles = ["text"] * (len(sums) - 1) + ["muted"]
    cells = [
        (fit(duration(ns) if ns else "·", _CELL - 1, "right") + " ", style)
        for ns, style in zip(sums, styles, strict=True)
    ]
    return [*cells, (fit(duration(sum(sums)), _CELL - 1, "right") + " ", "strong")]


def _class(name: str) -> str:
    return clean(name) or "(none)"


def cell_lines(found: Interference, victims: str, width: int) -> list[Line]:
    """What one class of victims lost to whom, by cause."""
    lines = [rule(f"{_class(victims)}: lost to others", width, duration(found.blamed(victims)))]
    for culprits in found.culprits:
        causes = found.cells.get((victims, culprits), {})
        for cause, ns in sorted(causes.items(), key=lambda one: -one[1]):
            look = cause_look(cause)
            left: Line = [(f"{look.glyph} ", look.style), (f"{clean(cause)} by {_class(culprits)}", "text")]
            lines.append(spread(left, [(duration(ns), "strong")], width))
    return lines if len(lines) > 1 else [*lines, [("nothing: its time is its own", "muted")]]


def culprit_lines(
    culprits: Sequence[Mapping[str, Any]], whole_ns: int, width: int, chosen: int | None = None
) -> list[Line]:
    """The requests that took most of the others' time."""
    blamed = culprits[0]["whole_ns"] if culprits else 0
    share = percent(blamed / whole_ns) if whole_ns else "-"
    lines = [rule("Culprits", width, f"{duration(blamed)} taken by others, {share} of E2E")]
    if not culprits:
        return [*lines, [("nobody held up anybody", "muted")]]
    for place, row in enumerate(culprits):
        lines.append(marked(_culprit_row(row, blamed, width), place == chosen, width))
    return lines


def _culprit_row(row: Mapping[str, Any], blamed: int, width: int) -> Line:
    name = clean(str(row["culprit_id"] if row["culprit_id"] is not None else f"req:{row['culprit']}"))
    prompt = "" if row["prompt_tokens"] is None else f"{row['prompt_tokens']:,} prompt tokens"
    cause = row["causes"][0]["cause"]
    numbers = f"{duration(row['ns']):>8}{percent(row['ns'] / blamed):>8} of it, {row['victims']:>5,} held up "
    left: Line = [(fit(name, 18), "strong"), (numbers, "text")]
    room = width - 18 - len(numbers) - 2
    return [("  ", "text"), *left, (fit(f" {cause}, {prompt}" if prompt else f" {cause}", max(room, 0)), "muted")]


def victim_lines(pairs: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    """Victims and their culprits, one by one."""
    lines: list[Line] = [[("  request by request:", "muted")]] if pairs else []
    for row in pairs:
        who = (clean(str(row[name])) for name in ("request_id", "culprit_id"))
        causes = ", ".join(f"{one['cause']} {duration(one['ns'])}" for one in row["causes"][:2])
        lines.append(
            [(f"{duration(row['ns']):>9}  ", "strong"), (" lost to ".join(who), "text"), (f": {causes}", "muted")]
        )
    return [crop(line, width) for line in lines]


def marked(line: Line, chosen: bool, width: int) -> Line:
    """A row that can be selected."""
    if not chosen:
        return crop(line, width)
    first, *others = pad(line, width)
    return [("▸" + first[0][1:], f"{first[1]} on.cursor"), *((text, f"{style} on.cursor") for text, style in others)]


def _mean(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:>{_MS},.3f}"


def _signed(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:>+{_MS},.3f}"


def _deviation(variance: Fraction) -> str:
    return f"{sqrt(variance) / 1e6:>{_MS},.3f}"


def _share(share: Fraction | None) -> str:
    return "-" if share is None else f"{float(share) * 100:+.1f}%"
