"""A budget held against a run, as lines: each part's limit, who kept it, how long it took, and who exceeded it."""

from collections.abc import Iterator, Sequence

from console.budget import Kept, Verdict, formula
from console.text.paint import wrapped
from console.text.report import counted, filter_lines, number
from console.widgets.density import HEADS
from console.widgets.ink import Line, clean, crop, percent, rule

_NAME = 22
_NUMBER = 9
_RANKS = ("p50", "p95", "p99")
_UNANSWERED = ("rejected", "expired", "cancelled", "failed")


def budget_lines(verdict: Verdict, width: int) -> list[Line]:
    """The whole verdict, at most `width` cells wide."""
    return [crop(line, width) for line in _all(verdict, width)]


def verdict_line(verdict: Verdict) -> Line:
    """Whether it is kept, and if not by which parts."""
    broken = [kept.name for kept in verdict.kept if not kept.ok]
    told = f"over budget: {', '.join(broken)}" if broken else "the budget is kept"
    return [(told, "bad" if broken else "good")]


def table_lines(verdict: Verdict, width: int) -> list[Line]:
    """Each part's limit, the share that kept it, and what it took."""
    return [crop(line, width) for line in _table(verdict, width)]


def _all(verdict: Verdict, width: int) -> Iterator[Line]:
    yield [(clean(verdict.run), "strong bold"), (": ", "text"), *verdict_line(verdict)]
    yield from filter_lines(str(verdict.only), width)
    yield [(f"SLO: {verdict.budget.slo}", "text")]
    yield []
    yield from _table(verdict, width)
    yield []
    yield from _exceeding(verdict, width)
    yield from _unanswered(verdict, width)
    for kept in verdict.kept:
        yield from wrapped(f"{kept.name} = {formula(kept.name)}", width, indent="    ")


def _table(verdict: Verdict, width: int) -> Iterator[Line]:
    ranks = _RANKS[: max((width - _NAME - 2 - 2 * _NUMBER) // _NUMBER, 1)]
    yield rule("Budget", width, "ms, nearest rank, ok requests")
    yield [(" " * (_NAME + 2) + "".join(f"{head:>{_NUMBER}}" for head in ("budget", "inside", *ranks)), HEADS)]
    for kept in verdict.kept:
        yield _row(kept, ranks)
        for phase in verdict.phases.get(kept.name, ()):
            times = "".join(number(phase[rank]) for rank in ranks)
            yield [(f"    {phase['name']:<{_NAME + 2 * _NUMBER - 2}}{times}", "muted")]


def _row(kept: Kept, ranks: Sequence[str]) -> Line:
    share = None if kept.share is None else float(kept.share)
    limits = f"{number(kept.limit_ns / 1e6)}{percent(share):>{_NUMBER}}"
    times = (kept.times[rank] for rank in ranks)
    told = "".join(number(None if ns is None else ns / 1e6) for ns in times)
    mark = ("✓ ", "good") if kept.ok else ("✗ ", "bad")
    return [mark, (f"{clean(kept.name):<{_NAME}}", "strong"), (limits + told, "text")]


def _exceeding(verdict: Verdict, width: int) -> Iterator[Line]:
    exceeded = [kept for kept in verdict.kept if kept.worst]
    if not exceeded:
        return
    yield rule("Who exceeds", width, "the longest of each")
    for kept in exceeded:
        who = ", ".join(f"{clean(str(one['request_id']))} {one['ns'] / 1e6:,.1f}" for one in kept.worst)
        yield from wrapped(f"{kept.name}: {counted(kept.over, 'request')}; {who}", width, "text", "    ")
    yield []


def _unanswered(verdict: Verdict, width: int) -> Iterator[Line]:
    """What the shares leave out, and what they count against (SPEC F4)."""
    lost = sum(verdict.states.get(state, 0) for state in _UNANSWERED)
    if lost:
        yield from wrapped(f"{counted(lost, 'request')} without an answer: outside, end to end", width, "warn")
    if still := verdict.states.get("open", 0):
        yield from wrapped(f"{counted(still, 'request')} not ended: in no share", width, "warn")
