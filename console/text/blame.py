"""Blame as lines: budget, tail excess, what makes latency vary, victims and culprits. Every table closes."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import sqrt
from typing import Any, Final

from console.blame.answer import FORMULAS, Blame
from console.blame.interference import Interference
from console.blame.ledgers import Excess, Ledger, Ledgers, excess
from console.blame.spread import KINDS, Spread
from console.report import UNNAMED
from console.text.paint import wrapped
from console.text.report import counted, filter_lines
from console.theme import Look, cause_look, phase_look
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, bar, clean, crop, duration, fit, percent, rule, signed_bar, spread
from console.widgets.tabs import Table
from recorder.attribution.budget import MODELLED

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
    whole, spreads = found.whole, found.spread
    yield [(clean(found.run), "strong bold")]
    yield from filter_lines(str(found.only), width)
    tables = (
        *(ledger_table(whole, kind, width) for kind in KINDS),
        *(excess_table(found.ledgers, kind, width) for kind in KINDS),
        *(spread_table(spreads[kind], kind, width) for kind in KINDS),
        matrix_table(found.interference, width),
        culprit_table(found.culprits, whole.e2e_ns, width),
    )
    for table in tables:
        yield []
        yield from table.lines
    yield from victim_lines(found.pairs[:10], width)
    if whole.modelled:
        yield [("~ in part modelled, not measured", "muted")]


def part_look(name: str, kind: str) -> Look:
    """Glyph and style of a phase or a cause."""
    return phase_look(name) if kind == "phases" and name != UNNAMED else cause_look(name)


# The budget


def ledger_table(ledger: Ledger, kind: str, width: int) -> Table:
    """Where the time went, with the sum that it has to be."""
    head = [rule(kind.capitalize(), width, f"share of E2E, {counted(ledger.n, 'ok request')}")]
    if not ledger.n:
        return Table([*head, [("no request was answered", "muted")]])
    parts: Mapping[str, int] = getattr(ledger, kind)
    rows = [_ledger_row(ledger, kind, name, ns, width - 1) for name, ns in parts.items()]
    told: Line = [("   ", "text"), (f"sum = E2E of {counted(ledger.n, 'ok request')}", "good")]
    sums = spread(told, [(f"{sum(parts.values()):,} ns", "strong")], width)
    return Table([*head, _heads("total", "a request", width=width)], rows, [sums], pinned=1)


def _heads(*names: str, width: int) -> Line:
    return crop([(" " * (_NAME + 3) + "".join(f"{name:>{_MS}}" for name in names), HEADS)], width)


def _ledger_row(ledger: Ledger, kind: str, name: str, ns: int, width: int) -> Line:
    look, share = part_look(name, kind), ns / ledger.e2e_ns if ledger.e2e_ns else 0.0
    numbers = f"{_ms(ns, digits=1)}{_mean(ledger.mean(ns))}{percent(share):>{_SHARE}} "
    return [*_name(look, name), (numbers, "text"), *_bar(share, look, width, numbers)]


def _name(look: Look, name: str) -> Line:
    style = "strong" if name == UNNAMED else "text"
    return [(f"{look.glyph} ", look.style), (fit(_marked(name), _NAME), style)]


def _marked(name: str) -> str:
    """A phase or a cause; one that rests on a prediction is marked."""
    return clean(name) + ("~" if name in MODELLED else "")


def _bar(share: float, look: Look, width: int, numbers: str) -> Line:
    room = width - _NAME - 2 - len(numbers) - 1
    return bar(max(share, 0.0), room, look.style, look.glyph) if room > 3 else []


# The excess


def excess_table(found: Ledgers, kind: str, width: int) -> Table:
    """What the slow ones lost more than the typical ones, on average, with its sum: the difference of the mean E2E."""
    slow, typical = found.slow, found.typical
    head = [rule(f"Tail excess by {kind[:-1]}", width, f"{slow.n:,} slow - {typical.n:,} typical, mean ms")]
    head += wrapped(clean(found.cohorts.words), width, "text")
    rows = excess(slow, typical, kind)
    if not rows:
        missing = "slow" if not slow.n else "typical"
        return Table([*head, *wrapped(f"no request is {missing}: there is nothing to subtract", width)])
    if min(slow.n, typical.n) < FEW:
        head += wrapped(f"only {min(slow.n, typical.n)} on a side: this tells of them, not of a tail", width, "warn")
    most = max(abs(row.ns) for row in rows) or Fraction(1)
    lines = [_excess_row(row, kind, most, width - 1) for row in rows]
    heads = _heads("slow", "typical", "excess", width=width)
    return Table([*head, heads], lines, [_excess_sum(slow, typical, width)], pinned=1)


def _excess_row(row: Excess, kind: str, most: Fraction, width: int) -> Line:
    numbers = f"{_mean(row.slow)}{_mean(row.typical)}{_signed(row.ns)}{_share(row.share):>{_SHARE}} "
    room = width - _NAME - 2 - len(numbers) - 1
    drawn = signed_bar(float(row.ns / most), min(room, 31)) if room >= 7 else []
    return [*_name(part_look(row.name, kind), row.name), (numbers, "text"), *drawn]


def _excess_sum(slow: Ledger, typical: Ledger, width: int) -> Line:
    means = slow.mean(slow.e2e_ns), typical.mean(typical.e2e_ns)
    numbers = f"{_mean(means[0])}{_mean(means[1])}{_signed(means[0] - means[1])}"
    return crop([("   ", "text"), (fit("sum = mean E2E", _NAME), "good"), (numbers, "strong")], width)


# The spread


def spread_table(found: Spread, kind: str, width: int) -> Table:
    """Which part makes requests take unlike times: shares of the variance, which sum to all of it."""
    head = [rule(f"What makes E2E vary, by {kind[:-1]}", width, f"{counted(found.n, 'ok request')}")]
    if not found.variance:
        told = "all of them took the same time" if found.n > 1 else "it takes two answered requests to vary"
        return Table([*head, [(told, "muted")]])
    rows = [_spread_row(found, kind, name, width - 1) for name in found.parts]
    whole = f"{_deviation(found.variance)}{'100.0%':>{_MS}}"
    told_sum: Line = [("   ", "text"), (fit("sum = Var(E2E)", _NAME), "good"), (whole, "strong")]
    more = [*wrapped(FORMULAS["spread"], width, ASIDE, "  "), *pair_lines(found, None, width, 6)]
    return Table([*head, _heads("deviation", "share", width=width)], rows, [crop(told_sum, width)], more, pinned=1)


def _spread_row(found: Spread, kind: str, name: str, width: int) -> Line:
    share = found.share(name)
    numbers = f"{_deviation(found.of(name, name))}{_share(share):>{_MS}} "
    room = width - _NAME - 2 - len(numbers) - 1
    drawn = signed_bar(float(share or 0), min(room, 31)) if room >= 7 else []
    return [*_name(part_look(name, kind), name), (numbers, "text"), *drawn]


def pair_lines(found: Spread, name: str | None, width: int, count: int) -> list[Line]:
    """Parts that vary together, of one part or of all: they add to the variance, or even each other out."""
    pairs = [pair for pair in found.pairs() if name is None or name in pair[:2]][:count]
    lines: list[Line] = [[("  varying together: 2 Cov, share of Var(E2E)", "muted")]] if pairs else []
    for a, b, twice in pairs:
        share = twice / found.variance if found.variance else None
        told = "rise together" if twice > 0 else "even out"
        lines.append([(f"  {_share(share):>{_SHARE}}  ", "strong"), (f"{_marked(a)} and {_marked(b)} {told}", "text")])
    return [crop(line, width) for line in lines]


# Who took whose time


def matrix_columns(found: Interference, width: int) -> list[str]:
    """The culprits that have a column of their own at this width; the others share one."""
    room = max((width - _NAME - 3 - 3 * _CELL) // _CELL, 1)
    return found.culprits if len(found.culprits) <= room + 1 else found.culprits[:room]


def matrix_table(found: Interference, width: int) -> Table:
    """Victims down, culprits across, with nobody and the sum: all cells are the budget."""
    head = [rule(f"Who took whose time, by {found.by}", width, "victims down, culprits across")]
    if not found.victims:
        return Table([*head, [("no request was answered", "muted")]])
    columns = matrix_columns(found, width)
    rest = found.culprits[len(columns) :]
    names = [*(_class(name) for name in columns), *([f"{len(rest)} more"] if rest else []), "nobody", "sum"]
    head.append([(" " * (_NAME + 3) + "".join(fit(name, _CELL - 1, "right") + " " for name in names), HEADS)])
    rows: list[Line] = [
        [("  ", "text"), (fit(_class(victim), _NAME), "text"), *_cells(found, [victim], columns, rest)]
        for victim in found.victims
    ]
    sums = _cells(found, found.victims, columns, rest)
    return Table(head, rows, [crop([("   ", "text"), (fit("sum = E2E", _NAME), "good"), *sums], width)])


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
    return _marked(name) or "(none)"


def cell_lines(found: Interference, victims: str, width: int) -> list[Line]:
    """What one class of victims lost to whom, by cause."""
    lines = [rule(f"{_class(victims)}: lost to others", width, duration(found.blamed(victims)))]
    for culprits in found.culprits:
        causes = found.cells.get((victims, culprits), {})
        for cause, ns in sorted(causes.items(), key=lambda one: -one[1]):
            look = cause_look(cause)
            left: Line = [(f"{look.glyph} ", look.style), (f"{_marked(cause)} by {_class(culprits)}", "text")]
            lines.append(spread(left, [(duration(ns), "strong")], width))
    return lines if len(lines) > 1 else [*lines, [("nothing: its time is its own", "muted")]]


def culprit_table(culprits: Sequence[Mapping[str, Any]], whole_ns: int, width: int, title: str = "Culprits") -> Table:
    """The requests that took most of the others' time; `whole_ns` is the E2E that it is a part of, 0 to leave it."""
    blamed = culprits[0]["whole_ns"] if culprits else 0
    share = f", {percent(blamed / whole_ns)} of E2E" if whole_ns else ""
    head = [rule(clean(title), width, f"{duration(blamed)} taken by others{share}")]
    if not culprits:
        return Table([*head, [("no request is behind it", "muted")]])
    return Table(head, [_culprit_row(row, blamed, width - 1) for row in culprits])


def _culprit_row(row: Mapping[str, Any], blamed: int, width: int) -> Line:
    name = clean(str(row["culprit_id"] if row["culprit_id"] is not None else f"req:{row['culprit']}"))
    prompt = "" if row["prompt_tokens"] is None else f"{row['prompt_tokens']:,} prompt tokens"
    cause = _marked(row["causes"][0]["cause"])
    numbers = f"{duration(row['ns']):>8}{percent(row['ns'] / blamed):>8} of it, {row['victims']:>5,} held up "
    left: Line = [(fit(name, 18), "strong"), (numbers, "text")]
    room = width - 18 - len(numbers) - 2
    return [(" ", "text"), *left, (fit(f" {cause}, {prompt}" if prompt else f" {cause}", max(room, 0)), "muted")]


def culprit_detail(row: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    """One culprit: what it took by cause, and from whom."""
    lines = [rule(clean(str(row["culprit_id"] or row["culprit"])), width, f"took {duration(row['ns'])}")]
    for one in row["causes"]:
        look = cause_look(one["cause"])
        left: Line = [(f"{look.glyph} ", look.style), (_marked(one["cause"]), "text")]
        lines.append(spread(left, [(duration(one["ns"]), "strong")], width))
    return [*lines, *victim_lines([pair for pair in pairs if pair["culprit"] == row["culprit"]], width)]


def hit_lines(hit: Sequence[Mapping[str, Any]], name: str, width: int) -> list[Line]:
    """Who lost most to a phase or a cause."""
    lines = [rule(f"Who lost most to {clean(name)}", width, "share of its E2E")]
    for row in hit:
        left: Line = [("  ", "text"), (clean(str(row["request_id"])), "strong")]
        lines.append(spread(left, [(f"{duration(row['ns']):>9}{percent(row['share']):>8}", "text")], width))
    return lines if hit else [*lines, [("nobody", "muted")]]


def victim_lines(pairs: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    """Victims and their culprits, one by one."""
    lines: list[Line] = [[("  request by request:", "muted")]] if pairs else []
    for row in pairs:
        who = (clean(str(row[name])) for name in ("request_id", "culprit_id"))
        causes = ", ".join(f"{_marked(one['cause'])} {duration(one['ns'])}" for one in row["causes"][:2])
        lines.append(
            [(f"{duration(row['ns']):>9}  ", "strong"), (" lost to ".join(who), "text"), (f": {causes}", "muted")]
        )
    return [crop(line, width) for line in lines]


def _mean(ns: Fraction) -> str:
    return _ms(float(ns))


def _signed(ns: Fraction) -> str:
    return _ms(float(ns), "+")


def _deviation(variance: Fraction) -> str:
    return _ms(sqrt(variance))


def _ms(ns: float, sign: str = "", digits: int = 3) -> str:
    """A column of ms: one that would touch its neighbour is told with fewer digits behind the point."""
    exact = f"{ns / 1e6:{sign}z,.{digits}f}"
    return (exact if len(exact) < _MS else f"{ns / 1e6:{sign}z,.{max(digits - 2, 0)}f}").rjust(_MS)


def _share(share: Fraction | None) -> str:
    return "-" if share is None else f"{float(share) * 100:+z.1f}%"
