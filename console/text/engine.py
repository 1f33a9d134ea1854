"""The engine's numbers as lines: every share beside what it is a share of, what can't be known said in words."""

from collections.abc import Callable, Iterator
from typing import Final

from console.engine_view.answer import EngineView
from console.text.engine_about import BLOCKS as ABOUT
from console.text.engine_strips import DEVICE, EXECUTION, HOST, reason_look, strip_lines
from console.text.paint import wrapped
from console.text.report import filter_lines, number
from console.theme import STEPS, Look
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, bar, clean, crop, duration, fit, percent, rule, spread

_MS: Final = 1e6
_LABEL: Final = 14
_NUMBER: Final = 9
_IDLE: Final = Look("·", "faint")


def engine_lines(view: EngineView, width: int) -> list[Line]:
    """All of it, at most `width` cells wide."""
    lines = block_lines("head", view, width) + block_lines("verdicts", view, width)
    lines += [*strip_lines(view, width), []]
    for name in LEFT + RIGHT:
        lines += block_lines(name, view, width)
    return lines


def block_lines(name: str, view: EngineView, width: int) -> list[Line]:
    """One block by name. Those that tell of requests are empty until something is known of them."""
    if name in BLOCKS:
        return [crop(line, width) for line in BLOCKS[name](view, width)]
    return [] if view.about is None else [crop(line, width) for line in ABOUT[name](view, view.about, width)]


def _head(view: EngineView, width: int) -> Iterator[Line]:
    report = view.report
    whose = "all workers" if report["worker"] is None else f"worker {report['worker']}"
    window = report["window"]
    stretch = f"{window['since_ns'] / 1e9:,.3f} s to {window['until_ns'] / 1e9:,.3f} s"
    yield spread([(clean(report["run"]), "strong bold")], [(f"{whose}, {stretch}", "accent")], width)
    yield from filter_lines(report["filter"], width)
    yield []


def _steps(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Passes by kind", width, "share of time; ms, nearest rank")
    if not view.report["kinds"]:
        yield [("no pass was recorded here", "muted")]
    else:
        heads = "".join(f"{name:>{_NUMBER}}" for name in ("passes", "mean", "p50", "p99", "max"))
        yield [(f"{heads:>{width}}", HEADS)]
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
    yield [(" " * (_LABEL + 2) + heads, HEADS)]
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
        yield from ([("  ", "text"), *line] for line in wrapped("; ".join(meant), width - 2, ASIDE, "  "))
    yield []


def _reasons(view: EngineView, width: int) -> Iterator[Line]:
    yield rule("Why the head of the queue waited", width, "share of the time recorded")
    if not view.report["reasons"]:
        yield [("nobody was kept waiting to be started", "muted")]
    for reason, row in view.report["reasons"].items():
        spent = fit(duration(round(row["ns"])), 10, "right")
        yield [*_named_bar(reason, row["share"], reason_look(reason), width - 10), (spent, "text")]
    yield []


BLOCKS: Final[dict[str, Callable[[EngineView, int], Iterator[Line]]]] = {
    "head": _head,
    "steps": _steps,
    "time": _time,
    "resources": _resources,
    "reasons": _reasons,
}
"""The blocks about workers, by name; those about requests are `console.text.engine_about.BLOCKS`."""

LEFT: Final = ("steps", "time", "resources", "reasons", "rhythm")
RIGHT: Final = ("pulse", "refusals", "kv", "preemptions", "device")
"""The blocks under strips and verdicts, where there are two columns."""
