"""What the engine screen tells of requests, as lines: verdicts, tails, refusals, the KV ledger, who evicted whom."""

from collections.abc import Callable, Iterator
from typing import Final

from console.diagnosis import Finding, Grade
from console.engine_view.answer import About, EngineView
from console.text.paint import wrapped
from console.text.report import counted, number
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, clean, duration, fit, percent, rule, spark, spread

_GRADES: Final = {"bad": ("✗", "bad"), "watch": ("▲", "warn"), "good": ("✓", "good"), "unknown": ("?", "muted")}
_MS: Final = 1e6
_LABEL: Final = 14
_NUMBER: Final = 9


def _verdicts(_view: EngineView, about: About, width: int) -> Iterator[Line]:
    """What needs a look first; what is well or not known in one line each."""
    found = about.findings
    yield rule("Verdicts", width, "rules of SPEC B3, B4, B5, C13")
    for finding in [one for severity in ("bad", "watch") for one in found if one.grade == severity]:
        yield from _finding(finding, width)
    folded: tuple[tuple[Grade, str], ...] = (("good", "well"), ("unknown", "not known"))
    for grade, word in folded:
        names = ", ".join(finding.name for finding in found if finding.grade == grade)
        if names:
            yield from _finding(Finding(word, grade, names), width)
    yield []


def _finding(finding: Finding, width: int) -> Iterator[Line]:
    glyph, style = _GRADES[finding.grade]
    told = wrapped(finding.said, max(width - _LABEL - 2, 20), "text" if finding.grade != "unknown" else "muted")
    for place, line in enumerate(told):
        head: Line = [(f"{glyph} ", style), (fit(finding.name, _LABEL), "strong")]
        yield [*(head if place == 0 else [(" " * (_LABEL + 2), "text")]), *line]


def _findings(findings: tuple[Finding, ...], width: int) -> Iterator[Line]:
    for finding in findings:
        yield from _finding(finding, width)


def _pulse(_view: EngineView, about: About, width: int) -> Iterator[Line]:
    pulse = about.pulse
    yield rule("Pulse", width, f"right tail of E2E from P50, {counted(pulse.n, 'ok request')}")
    if pulse.n:
        most = max(pulse.buckets, default=0) or 1
        size = max((width - 22) // max(len(pulse.buckets), 1), 1)
        cells = "".join(spark(count / most) * size for count in pulse.buckets)
        yield [
            (fit(duration(pulse.p50_ns), 9, "right") + " ", "muted"),
            (cells, "accent"),
            (f" {duration(pulse.max_ns)}", "muted"),
        ]
    yield from _findings(pulse.findings, width)
    yield []


def _refusals(view: EngineView, about: About, width: int) -> Iterator[Line]:
    yield rule("Rejection board", width, "each attempt counts, SPEC B5")
    yield from _findings(about.board.findings, width)
    for row in view.report["refusals"]["reasons"]:
        again = "no instant to come again" if not row["timed"] else f"{row['timed']:,} with an instant"
        wait = "" if row["retry_after_p50_ms"] is None else f", median {row['retry_after_p50_ms']:,} ms"
        status = str(row["http_status"] or "no status")
        count = f"{row['n']:>{_NUMBER},} "
        told = wrapped(f"{status} {clean(row['reason'])}: {again}{wait}", max(width - len(count), 20), "muted")
        yield from ([(count if place == 0 else " " * len(count), "muted"), *line] for place, line in enumerate(told))
    yield []


def _rhythm(_view: EngineView, about: About, width: int) -> Iterator[Line]:
    found = about.rhythm
    yield rule("Rhythm", width, found.source)
    if found.mean is not None:
        told = (
            f"mean {percent(found.mean)}, standard deviation {number((found.deviation or 0) * 100, 0)} points, P5"
            f" {percent(found.low)} and P95 {percent(found.high)}, every {duration(found.every_ns)}"
        )
        if found.strength is not None:
            told += f"; the period holds {percent(found.strength)} of its power"
        yield from wrapped(told, width, "text", "  ")
    yield from _findings(found.findings, width)
    yield []


def _kv(view: EngineView, _about: About, width: int) -> Iterator[Line]:
    kv = view.report["kv"]
    total = kv["blocks"]
    yield rule("KV ledger", width, f"{total:,} blocks")
    if not total:
        yield [("no pass tells of KV blocks", "muted")]
        yield []
        return
    held = f"held: at most {_count(kv['held_max'])} ({percent((kv['held_max'] or 0) / total)})"
    yield from wrapped(f"{held}; free: at least {_count(kv['free_min'])}", width, "text", "  ")
    cached = "" if kv["cached_at_most"] is None else f"at most {kv['cached_at_most']:,}; "
    yield from wrapped(f"cached: {cached}{view.report['formulas']['kv_cached']}", width, "text", "  ")
    told = f"for nobody: {kv['dead_block_s']:,.3f} block-seconds of {counted(kv['dead_requests'], 'request')}"
    told += f", at most {_count(kv['dead_max'])} blocks at once"
    yield from wrapped(told, width, "bad" if kv["dead_requests"] else "text", "  ")
    for row in kv["dead"]:
        why = "after its deadline" if row["why"] == "deadline" else "after its answer"
        held_for = f"{counted(row['blocks'], 'block')} for {duration(row['held_ns'])} {why}"
        yield [(f"  {clean(row['request_id'] or '')} req:{row['rid']} {row['status']}: {held_for}", "muted")]
    yield from wrapped(view.report["formulas"]["kv_dead"], width, ASIDE, "  ")
    yield []


def _preemptions(view: EngineView, _about: About, width: int) -> Iterator[Line]:
    found = view.report["preemptions"]
    yield rule("Preemptions", width, f"{found['n']:,}")
    if not found["n"]:
        yield [("nobody lost its KV blocks", "muted")]
        yield []
        return
    recomputed = view.report["device"]["recomputed_tokens"]
    told = f"{counted(found['lost_tokens'], 'token')} lost, {counted(found['freed_blocks'], 'block')} freed"
    yield from wrapped(f"{told}; {recomputed:,} tokens computed again by requests that came here", width, "text", "  ")
    for row in found["worst"]:
        victim = _named(row["victim_id"], row["victim"])
        culprit = "not told by whom" if row["culprit"] is None else f"by {_named(row['culprit_id'], row['culprit'])}"
        lost = f"{counted(row['lost_tokens'], 'token')} lost in {row['times']:,}"
        yield spread([("× ", "phase.preempted"), (f"{victim} evicted {culprit}", "text")], [(lost, "strong")], width)
    if found["pairs"] > len(found["worst"]):
        yield [(f"and {found['pairs'] - len(found['worst']):,} pairs more", "muted")]
    yield []


def _named(request_id: str | None, rid: int) -> str:
    return f"{clean(request_id)} req:{rid}" if request_id else f"req:{rid}"


def _device(view: EngineView, _about: About, width: int) -> Iterator[Line]:
    row = view.report["device"]
    yield rule("Device time of a request", width, "ms, by its tokens of each step (SPEC B9)")
    if not row["n"]:
        yield [("no request that came here has a share", "muted")]
    else:
        heads = "".join(f"{name:>{_NUMBER + 2}}" for name in ("requests", "mean", "p50", "p99", "max"))
        yield [(heads, HEADS)]
        times = "".join(number(row[key] / _MS, _NUMBER + 2) for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns"))
        yield [(f"{row['n']:>{_NUMBER + 2},}", "strong"), (times, "text")]
    yield []


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


BLOCKS: Final[dict[str, Callable[[EngineView, About, int], Iterator[Line]]]] = {
    "verdicts": _verdicts,
    "pulse": _pulse,
    "refusals": _refusals,
    "rhythm": _rhythm,
    "kv": _kv,
    "preemptions": _preemptions,
    "device": _device,
}
"""The blocks by name."""
