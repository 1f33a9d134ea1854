"""The engine's numbers as lines: every share beside what it is a share of, what can't be known said in words."""

from collections.abc import Callable, Iterator
from typing import Final

from console.diagnosis import Finding, Grade
from console.engine_view.answer import EngineView
from console.text.engine_strips import DEVICE, EXECUTION, HOST, reason_look, strip_lines
from console.text.paint import wrapped
from console.text.report import counted, filter_lines, number
from console.theme import STEPS, Look
from console.widgets.ink import Line, bar, clean, crop, duration, fit, percent, rule, spark, spread

_GRADES: Final = {"bad": ("✗", "bad"), "watch": ("▲", "warn"), "good": ("✓", "good"), "unknown": ("?", "muted")}
_MS: Final = 1e6
_LABEL: Final = 14
_NUMBER: Final = 9
_IDLE: Final = Look("·", "faint")


def engine_lines(view: EngineView, width: int) -> list[Line]:
    """All of it, at most `width` cells wide."""
    lines = block_lines("head", view, width) + block_lines("verdicts", view, width)
    lines += [*strip_lines(view, width), []]
    for name in ABOUT_WORKERS + ABOUT_REQUESTS:
        lines += block_lines(name, view, width)
    return lines


def block_lines(name: str, view: EngineView, width: int) -> list[Line]:
    """One block (a key of `BLOCKS`)."""
    return [crop(line, width) for line in BLOCKS[name](view, width)]


def _head(view: EngineView, width: int) -> Iterator[Line]:
    report = view.report
    whose = "all workers" if report["worker"] is None else f"worker {report['worker']}"
    window = report["window"]
    stretch = f"{window['since_ns'] / 1e9:,.3f} s to {window['until_ns'] / 1e9:,.3f} s"
    yield spread([(clean(report["run"]), "strong bold")], [(f"{whose}, {stretch}", "accent")], width)
    yield from filter_lines(report["filter"], width)
    yield []


def _verdicts(view: EngineView, width: int) -> Iterator[Line]:
    """What needs a look first; what is well or not known in one line each."""
    found = view.findings
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


def _steps(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Passes by kind", width, "share of time; ms, nearest rank")
    if not view.report["kinds"]:
        yield [("no pass was recorded here", "muted")]
    else:
        heads = "".join(f"{name:>{_NUMBER}}" for name in ("passes", "mean", "p50", "p99", "max"))
        yield [(f"{heads:>{width}}", "muted")]
    for row in view.report["kinds"]:
        look = STEPS[row["kind"]]
        times = "".join(number(row[name] / _MS) for name in ("mean_ns", "p50_ns", "p99_ns", "max_ns"))
        numbers = f"{row['passes']:>{_NUMBER},}{times}"
        yield [
            *_named_bar(row["kind"], row["share"], look, width - len(numbers)),
            (numbers, "text"),
        ]
    yield []


def _named_bar(name: str, share: float | None, look: Look, width: int) -> Line:
    room = max(width - _LABEL - 2 - 7, 0)
    return [
        (f"{look.glyph} ", look.style),
        (fit(clean(name), _LABEL), "text"),
        *bar(share or 0.0, room, look.style, look.glyph),
        (fit(percent(share), 7, "right"), "strong"),
    ]


def _time(view: EngineView, width: int) -> Iterator[Line]:
    time = view.report["time"]
    whole = time["recorded_ns"] or 0.0
    yield rule("Host against device", width, f"of {duration(round(whole))} recorded, all workers shown")
    device = time["device_ns"] or 0.0
    rows = (
        ("idle", time["idle_ns"], _IDLE),
        ("host before", time["host_before_ns"], HOST),
        ("execution", time["execution_ns"], EXECUTION),
        ("  device", device if device else None, DEVICE),
        ("host after", time["host_after_ns"], HOST),
    )
    for name, ns, look in rows:
        share = None if ns is None or not whole else ns / whole
        spent = fit("not known" if ns is None else duration(round(ns)), 10, "right")
        yield [*_named_bar(name, share, look, width - 10), (spent, "text")]
    yield from _batch(view, width)
    yield []


def _batch(view: EngineView, width: int) -> Iterator[Line]:
    batch = view.report["batch"]
    told = (
        f"a step holds {number(batch['mean'], 0)} requests (at most {batch['max']:,}) and computes"
        f" {number(batch['prefill_tokens'], 0)} prefill and {number(batch['decode_tokens'], 0)} decode tokens"
        f" (at most {batch['tokens_max']:,} together), means over the time of steps"
    )
    yield from wrapped(told, width, "text", "  ")


def _resources(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Resources", width, "utilisation, saturation, errors")
    heads = "".join(f"{name:>{_NUMBER + 1}}" for name in ("used", "peak", "saturated", "errors", "limit"))
    yield [(" " * (_LABEL + 2) + heads, "muted")]
    for row in view.report["resources"]:
        shares = "".join(fit(percent(row[key]), _NUMBER + 1, "right") for key in ("utilisation", "peak", "saturation"))
        errors = fit("-" if row["errors"] is None else f"{row['errors']:,}", _NUMBER + 1, "right")
        limit = fit("-" if row["limit"] is None else f"{row['limit']:,.0f}", _NUMBER + 1, "right")
        yield [
            (fit(row["name"], _LABEL + 2), "strong"),
            (shares, "text"),
            (errors, "bad" if row["errors"] else "text"),
            (limit, "muted"),
        ]
        meant = [f"used: {row['utilisation_of']}", f"saturated: {row['saturation_of']}"]
        meant += [f"errors: {row['errors_of']}"] if row["errors_of"] else []
        yield from ([("  ", "text"), *line] for line in wrapped("; ".join(meant), width - 2, "muted", "  "))
    yield []


def _kv(view: EngineView, width: int) -> Iterator[Line]:
    kv = view.report["kv"]
    total = kv["blocks"]
    yield rule("KV ledger", width, f"{total:,} blocks")
    if not total:
        yield [("no pass tells of KV blocks", "muted")]
        yield []
        return
    held = f"held: at most {_count(kv['held_max'])} ({percent((kv['held_max'] or 0) / total)})"
    yield [(f"{held}; free: at least {_count(kv['free_min'])}", "text")]
    cached = "" if kv["cached_at_most"] is None else f"at most {kv['cached_at_most']:,}; "
    yield from wrapped(f"cached: {cached}{view.report['formulas']['kv_cached']}", width, "text", "  ")
    told = f"for nobody: {kv['dead_block_s']:,.3f} block-seconds of {counted(kv['dead_requests'], 'request')}"
    yield [(f"{told}, at most {_count(kv['dead_max'])} blocks at once", "bad" if kv["dead_requests"] else "text")]
    for row in kv["dead"]:
        why = "after its deadline" if row["why"] == "deadline" else "after its answer"
        held_for = f"{counted(row['blocks'], 'block')} for {duration(row['held_ns'])} {why}"
        yield [(f"  {clean(row['request_id'] or '')} req:{row['rid']} {row['status']}: {held_for}", "muted")]
    yield from wrapped(view.report["formulas"]["kv_dead"], width, "muted", "  ")
    yield []


def _preemptions(view: EngineView, width: int) -> Iterator[Line]:
    found = view.report["preemptions"]
    yield rule("Preemptions", width, f"{found['n']:,}")
    if not found["n"]:
        yield [("nobody lost its KV blocks", "muted")]
        yield []
        return
    recomputed = view.report["device"]["recomputed_tokens"]
    told = f"{counted(found['lost_tokens'], 'token')} lost, {counted(found['freed_blocks'], 'block')} freed"
    yield [(f"{told}; {recomputed:,} tokens computed again by requests that came here", "text")]
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


def _reasons(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Why the head of the queue waited", width, "share of the time recorded")
    if not view.report["reasons"]:
        yield [("nobody was kept waiting to be started", "muted")]
    for reason, row in view.report["reasons"].items():
        spent = fit(duration(round(row["ns"])), 10, "right")
        yield [*_named_bar(reason, row["share"], reason_look(reason), width - 10), (spent, "text")]
    yield []


def _refusals(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Rejection board", width, "SPEC B5")
    yield from _findings(view.board.findings, width)
    for row in view.report["refusals"]["reasons"]:
        again = "no instant to come again" if not row["timed"] else f"{row['timed']:,} with an instant"
        wait = "" if row["retry_after_p50_ms"] is None else f", median {row['retry_after_p50_ms']:,} ms"
        status = str(row["http_status"] or "no status")
        said = f"{row['n']:>{_NUMBER},} {status} {clean(row['reason'])}: {again}{wait}"
        yield [(said, "muted")]
    yield []


def _pulse(view: EngineView, width: int) -> Iterator[Line]:
    pulse = view.pulse
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


def _rhythm(view: EngineView, width: int) -> Iterator[Line]:
    found = view.rhythm
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


def _device(view: EngineView, width: int) -> Iterator[Line]:
    row = view.report["device"]
    yield rule("Device time of a request", width, "ms, by its tokens of each step (SPEC B9)")
    if not row["n"]:
        yield [("no request that came here has a share", "muted")]
    else:
        heads = "".join(f"{name:>{_NUMBER + 2}}" for name in ("requests", "mean", "p50", "p99", "max"))
        yield [(heads, "muted")]
        times = "".join(number(row[key] / _MS, _NUMBER + 2) for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns"))
        yield [(f"{row['n']:>{_NUMBER + 2},}", "strong"), (times, "text")]
    yield []


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


BLOCKS: Final[dict[str, Callable[[EngineView, int], Iterator[Line]]]] = {
    "head": _head,
    "verdicts": _verdicts,
    "steps": _steps,
    "time": _time,
    "resources": _resources,
    "kv": _kv,
    "preemptions": _preemptions,
    "reasons": _reasons,
    "refusals": _refusals,
    "pulse": _pulse,
    "rhythm": _rhythm,
    "device": _device,
}
"""The blocks by name."""

ABOUT_WORKERS: Final = ("steps", "time", "resources", "reasons", "rhythm")
ABOUT_REQUESTS: Final = ("pulse", "refusals", "kv", "preemptions", "device")
