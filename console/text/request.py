"""The life of one request as lines: where each of its nanoseconds went, and through whom."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from console.measures import MEASURES
from console.request import STAMPS, Life
from console.text.paint import wrapped
from console.text.report import counted, number
from console.theme import cause_look, cause_order, phase_look, status_look
from console.widgets.ink import Line, clean, crop, duration, fit, percent, rule, spread

_LABEL: Final = 16
_STAMP: Final = 15
_MS: Final = 1_000_000
_MAX_EVENTS: Final = 40


def request_lines(life: Life, width: int) -> list[Line]:
    """One attempt, at most `width` cells wide."""
    lines: list[Line] = []
    for block in (_head, _stamps, _phases, _causes, _steps, _events):
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
        before, size = _place(phase["start"] - begin, phase["ns"], whole, room)
        yield [
            (f"{look.glyph} ", look.style),
            (fit(phase["name"], _LABEL - 2), "text"),
            (" " * before, "text"),
            (look.glyph * size, look.style),
            (" " * (room - before - size), "text"),
            (number(phase["ns"] / _MS, 14, 3), "strong"),
        ]
    yield []


def _place(offset: int, ns: int, whole: int, room: int) -> tuple[int, int]:
    """Cells before a stretch and cells of it; whatever lasted is seen, and nothing leaves the room."""
    if not whole or not room:
        return 0, 0
    first = min(max(offset * room // whole, 0), room - 1)
    last = min(max((offset + ns) * room // whole, first + 1), room)
    return first, last - first


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
            (fit(label, 22), "text"),
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
        yield [(when, "muted"), (fit(event["kind"], 12), "text"), (_event(event), "muted")]
    if len(events) > _MAX_EVENTS:
        yield [(f"and {len(events) - _MAX_EVENTS:,} more, see --json", "muted")]


def _event(event: Mapping[str, Any]) -> str:
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
