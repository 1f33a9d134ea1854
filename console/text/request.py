"""The life of one request as lines: where each of its nanoseconds went, and through whom."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from console.measures import MEASURES
from console.request import STAMPS, Life, TokenGap
from console.text.paint import wrapped
from console.text.report import counted, number
from console.theme import cause_look, cause_order, phase_look, status_look
from console.waterfall import cells, falls
from console.widgets.ink import Line, bar_at, clean, crop, duration, fit, percent, rule, spread

_LABEL: Final = 16
_STAMP: Final = 15
_MS: Final = 1_000_000
_MAX_EVENTS: Final = 40
_MAX_GAPS: Final = 12
_MAX_NEIGHBOURS: Final = 12
_CAUSE: Final = 22


def request_lines(life: Life, width: int) -> list[Line]:
    """One attempt, at most `width` cells wide."""
    lines: list[Line] = []
    for block in (_head, _stamps, _phases, _waterfall, _causes, _gaps, _neighbours, _family, _steps, _events):
        lines += [crop(line, width) for line in block(life, width)]
    return lines


def _head(life: Life, width: int) -> Iterator[Line]:
    row = life["request"]
    look = status_look(row["status"])
    name = f"{clean(row['request_id'] or '(no id)')}  req:{row['rid']} attempt {row['attempt']}"
    http = f" {row['http_status']}" if row["http_status"] is not None else ""
    yield spread([(name, "strong bold")], [(f"{look.glyph} {row['status']}{http}", look.style)], width)
    labels = (("tier", row["tier"]), ("tenant", row["tenant"]), ("model", row["model"]), ("worker", row["worker"]))
    yield [(clean(" · ".join(f"{label} {value}" for label, value in labels if value not in {None, ""})), "muted")]
    if row["reason"]:
        yield [(clean(row["reason"]), "text")]
    if row["incomplete"]:
        yield from wrapped("incomplete: records of its time are missing (see the report's gaps)", width, "bad")
    yield from wrapped(_tokens(row), width, "text", "  ")
    yield []


def _tokens(row: Mapping[str, Any]) -> str:
    parts = [f"{_known(row['prompt_tokens'])} prompt tokens"]
    if row["cached_tokens"]:
        parts.append(f"{row['cached_tokens']:,} of them cached")
    parts.append(f"{_known(row['output_tokens'])} of {_known(row['max_tokens'])} output tokens")
    if row["preemptions"]:
        parts.append(counted(row["preemptions"], "preemption"))
        parts.append(f"{_known(row['recomputed_tokens'])} tokens recomputed")
    if row["queue_depth"] is not None:
        parts.append(f"{row['queue_depth']:,} waiting and {_known(row['running'])} running when it arrived")
    return ", ".join(parts)


def _stamps(life: Life, width: int) -> Iterator[Line]:
    row = life["request"]
    yield rule("Stamps", width, "ms after arrival")
    for name in STAMPS:
        since = None if row[name] is None else (row[name] - row["arrival"]) / _MS
        yield [
            (fit(name, _LABEL), "text"),
            (number(since, _STAMP, 6), "strong"),
            (f"   {_known(row[name])} ns", "muted"),
        ]
    for measure in MEASURES:
        value = row[measure.column]
        yield [
            (fit(measure.title, _LABEL), "strong"),
            (number(None if value is None else value / _MS, _STAMP, 6), "strong"),
            (f" {measure.formula}", "muted"),
        ]
    yield []


def _phases(life: Life, width: int) -> Iterator[Line]:
    phases = life["phases"]
    yield rule("Phases", width, "ms, in order")
    if not phases:
        yield [("none recorded", "muted")]
    begin = life["request"]["arrival"]
    whole = max((phase["end"] for phase in phases), default=begin) - begin
    room = max(width - _LABEL - 14, 0)
    for phase in phases:
        look = phase_look(phase["name"])
        yield [
            (f"{look.glyph} ", look.style),
            (fit(phase["name"], _LABEL - 2), "text"),
            *bar_at(cells(phase["start"] - begin, phase["ns"], whole, room), room, look.glyph, look.style),
            (number(phase["ns"] / _MS, 14, 3), "strong"),
        ]
    yield []


def _waterfall(life: Life, width: int) -> Iterator[Line]:
    """Each cause begins where the one before it ended; the same sums as in the table of causes below."""
    steps = falls(life["causes"])
    if not steps:
        return
    yield rule("Waterfall", width, "ms, each cause from where the one before ended")
    whole = sum(step.ns for step in steps)
    room = max(width - _CAUSE - 16, 0)
    for step in steps:
        look = cause_look(step.cause)
        yield [
            (f"{look.glyph} ", look.style),
            (fit(clean(step.cause) + ("" if step.measured else "~"), _CAUSE), "text"),
            *bar_at(cells(step.before, step.ns, whole, room), room, look.glyph, look.style),
            (number(step.ns / _MS, 14, 3), "strong"),
        ]
    yield []


def _causes(life: Life, width: int) -> Iterator[Line]:
    causes = life["causes"]
    whole = sum(cause["ns"] for cause in causes)
    e2e = life["request"]["e2e_ns"]
    note = "sum = E2E" if whole == e2e else f"sum {whole:,} ns, E2E {_known(e2e)} ns" if causes else "not attributed"
    yield rule("Causes", width, note)
    for cause in sorted(causes, key=lambda item: (cause_order(item["cause"]), -item["ns"])):
        look = cause_look(cause["cause"])
        label = clean(cause["cause"]) + ("" if cause["measured"] else "~")
        yield [
            (f"{look.glyph} ", look.style),
            (fit(label, _CAUSE), "text"),
            (f"{cause['ns']:>18,} ns", "strong"),
            (fit(percent(cause["ns"] / whole if whole else None), 8, "right"), "text"),
            (_blame(cause), "muted"),
        ]
    if not all(cause["measured"] for cause in causes):
        yield [("~ modelled, not measured", "muted")]
    yield []


def _blame(cause: Mapping[str, Any]) -> str:
    """Who caused it, and what kept that one waiting."""
    culprit = f"  by {clean(cause['culprit_id'] or '')} req:{cause['culprit']}" if cause["culprit"] is not None else ""
    root = cause["root"]
    rooted = f"  root {clean(root)}" if root and not cause["cause"].endswith(root) else ""
    return culprit + rooted


def _gaps(life: Life, width: int) -> Iterator[Line]:
    """The longest gaps between tokens, and what was in them."""
    gaps = life["gaps"]
    if not gaps:
        return
    yield rule("Token gaps", width, f"longest of {len(gaps):,}, ms")
    begin = life["request"]["arrival"]
    for gap in gaps[:_MAX_GAPS]:
        yield [
            (fit(f"token {gap['token']:,}", 12), "text"),
            (number(gap["ns"] / _MS, 11, 3), "strong"),
            (fit(f"at {duration(gap['since'] - begin)}", 12, "right") + "  ", "muted"),
            *parts_of(gap),
        ]
    yield []


def parts_of(gap: TokenGap) -> Line:
    """What was in a gap, the largest first, and who is behind it."""
    line: Line = []
    for cause, ns in gap["parts_ns"].items():
        look = cause_look(cause)
        line += [(f"{look.glyph} ", look.style), (f"{cause} {duration(ns)}  ", "text")]
    if gap["culprit"] is not None:
        line.append((f"by {clean(gap['culprit_id'] or '')} req:{gap['culprit']}", "muted"))
    return line


def _neighbours(life: Life, width: int) -> Iterator[Line]:
    """Who shared its passes, those who prefilled in them first."""
    found = life["neighbours"]
    if not found:
        return
    own = sum(row["role"] is not None for row in life["passes"])
    yield rule("Neighbours", width, f"{len(found):,} in its {counted(own, 'step')}, ms of the steps shared")
    for row in found[:_MAX_NEIGHBOURS]:
        yield [
            (fit(f"{clean(row['request_id'] or '')} req:{row['rid']}", 26), "text"),
            (fit(counted(row["passes"], "step"), 12, "right"), "text"),
            (number(row["ns"] / _MS, 12, 3), "strong"),
            (
                f"   {counted(row['prefill_tokens'], 'token')} of prefill",
                "muted" if not row["prefill_tokens"] else "text",
            ),
        ]
    yield []


def _family(life: Life, width: int) -> Iterator[Line]:
    """Its attempts, where it had several."""
    family = life["family"]
    if len(family) < 2:
        return
    yield rule("Attempts", width, "after the first arrival")
    for row in family:
        yield attempt_line(row, family[0]["arrival"], mine=_is_of(row, life))
    yield []


def attempt_line(row: Mapping[str, Any], begin: int, *, mine: bool) -> Line:
    """One attempt: when, how it ended and why, and when the client was asked to come again."""
    look = status_look(row["status"])
    http = f" {row['http_status']}" if row["http_status"] is not None else ""
    line: Line = [
        ("• " if mine else "  ", "accent bold"),
        (f"req:{row['rid']} attempt {row['attempt']}  ", "strong" if mine else "text"),
        (f"+{duration(row['arrival'] - begin)}  ", "muted"),
        (f"{look.glyph} {row['status']}{http}", look.style),
        (f"  {duration(row['e2e_ns'])}" if row["e2e_ns"] is not None else "", "text"),
    ]
    if row["retry_of"] is not None:
        line.append((f"  retries req:{row['retry_of']}", "muted"))
    if row["retry_after_ms"] is not None:
        line.append((f"  retry after {row['retry_after_ms']:,} ms", "warn"))
    return [*line, (f"  {clean(row['reason'])}", "muted")] if row["reason"] else line


def _is_of(row: Mapping[str, Any], life: Life) -> bool:
    return (row["rid"], row["attempt"]) == (life["request"]["rid"], life["request"]["attempt"])


def _steps(life: Life, width: int) -> Iterator[Line]:
    if not life["steps"]:
        return
    yield rule("Steps", width)
    for row in life["steps"]:
        yield [
            (fit(row["role"], _LABEL), "text"),
            (counted(row["steps"], "step"), "strong"),
            (f" of worker {row['worker']}, {row['first_step']:,} to {row['last_step']:,}", "text"),
            (f", {counted(row['tokens'], 'token')}, {counted(row['new_blocks'] or 0, 'new block')}", "text"),
        ]
    yield []


def _events(life: Life, width: int) -> Iterator[Line]:
    events = life["events"]
    if not events:
        return
    yield rule("Events", width, "after arrival")
    begin = life["request"]["arrival"]
    for event in events[:_MAX_EVENTS]:
        when = f"{duration(event['t'] - begin):>12}  "
        yield [(when, "muted"), (fit(event["kind"], 12), "text"), (event_words(event), "muted")]
    if len(events) > _MAX_EVENTS:
        yield [(f"and {len(events) - _MAX_EVENTS:,} more, see --json", "muted")]


def event_words(event: Mapping[str, Any]) -> str:
    """Where it happened, why, through whom, and what it cost."""
    said = [f"step {event['step']}"] if event["step"] is not None else []
    if event["reason"] not in {None, "NONE"}:
        said.append(event["reason"])
    if event["other_rid"] is not None:
        said.append(f"by req:{event['other_rid']}")
    if event["lost_tokens"]:
        said.append(f"lost {counted(event['lost_tokens'], 'token')}")
    if event["freed_blocks"]:
        said.append(f"freed {counted(event['freed_blocks'], 'block')}")
    return ", ".join(said)


def _known(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
