"""The comparison of two runs as lines: A beside B, the change, and the same requests paired."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from console.compare import Comparison
from console.measures import REPORTED
from console.report import Report
from console.text.paint import wrapped
from console.text.report import counted, describe_setup, filter_lines, lower_bound_note, number
from console.theme import DAGGER, RUNS, Look, cause_look, cause_order, phase_look, status_look
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, clean, crop, fit, rule, signed_bar, width_of

_LABEL: Final = 20
_NUMBER: Final = 11
_PAIRED: Final = 10
_MS: Final = 1e6
_MAX_SETTINGS: Final = 20
_VALUE: Final = 24
_TO: Final = (" → ", "muted")


def compare_lines(comparison: Comparison, width: int) -> list[Line]:
    """The whole comparison, at most `width` cells wide."""
    return [line for name in BLOCKS for line in block_lines(name, comparison, width)]


def block_lines(name: str, comparison: Comparison, width: int) -> list[Line]:
    """One block of the comparison (a key of `BLOCKS`), for whoever lays them out otherwise: the console's screen."""
    return [crop(line, width) for line in BLOCKS[name](comparison, width)]


def _heads(comparison: Comparison, width: int) -> Iterator[Line]:
    for side, report in (("A", comparison["a"]), ("B", comparison["b"])):
        yield [(f"{side} ", f"run.{side.lower()} bold"), (clean(report["run"]), "strong bold")]
        yield [(f"  {describe_setup(report['setup'])}", ASIDE)]
        for damage in report["damages"]:
            yield [(f"  damaged: {clean(damage['file'])}: {clean(damage['what'])}", "bad")]
    yield []


def _filter(comparison: Comparison, width: int) -> Iterator[Line]:
    yield from filter_lines(comparison["a"]["filter"], width)
    if comparison["a"]["filter"]:
        yield []


def _settings(comparison: Comparison, width: int) -> Iterator[Line]:
    yield from settings_lines(comparison, RUNS[1], width)


def settings_lines(comparison: Comparison, run: Look, width: int) -> Iterator[Line]:
    """What another run (`run` is how it is called) has otherwise than the first."""
    differs = comparison["differs"]
    title = "Settings" if run is RUNS[1] else f"Settings of {run.glyph}"
    yield rule(title, width, counted(len(differs), "difference"))
    for setting in differs[:_MAX_SETTINGS]:
        key = f"{clean(setting['key'])}: "
        room = max((width - width_of([(key, "")]) - width_of([_TO])) // 2, _VALUE)
        a, b = (fit(clean(_setting(setting[side])), room).rstrip() for side in ("a", "b"))
        yield [(key, "text"), (a, "run.a"), _TO, (b, run.style)]
    if len(differs) > _MAX_SETTINGS:
        yield [(f"and {len(differs) - _MAX_SETTINGS} more, see --json", "muted")]
    yield []


def _states(comparison: Comparison, width: int) -> Iterator[Line]:
    yield rule("Requests", width)
    yield _columns(width)
    for name, n in comparison["a"]["requests"].items():
        other = comparison["b"]["requests"][name]
        if n or other:
            look = Look(" ", "text") if name == "total" else status_look(name)
            yield _row(look, name, n, other, width, digits=0, coloured=False)
    yield []


def _latency(comparison: Comparison, width: int) -> Iterator[Line]:
    a, b = comparison["a"], comparison["b"]
    yield rule("Latency", width, "ms, nearest rank over ok requests")
    yield _columns(width)
    for measure in REPORTED:
        key = f"{measure.name}_ms"
        yield [(measure.title, "strong"), (f" = {measure.formula}", "muted")]
        for quantile in ("p50", "p95", "p99", "max"):
            mark = f"{quantile} {DAGGER}" if a["censored"] or b["censored"] else quantile
            yield _row(Look(" ", "text"), mark, _at(a, key, quantile), _at(b, key, quantile), width)
    for side, report in (("A", a), ("B", b)):
        if report["censored"]:
            yield from wrapped(f"{side} {lower_bound_note(report['censored'])}", width, "warn", "  ")
    yield []


def _phases(comparison: Comparison, width: int) -> Iterator[Line]:
    a, b = comparison["a"], comparison["b"]
    yield rule("Phases", width, "ms a request, mean over ok requests")
    yield _columns(width)
    for name in a["phases_ms"]:
        means = [phase_mean(report, name) for report in (a, b)]
        if any(means):
            yield _row(phase_look(name), name, means[0], means[1], width)
    yield []


def _causes(comparison: Comparison, width: int) -> Iterator[Line]:
    a, b = comparison["a"], comparison["b"]
    yield rule("Causes", width, "ms a request, mean over ok requests")
    yield _columns(width)
    for cause in sorted({**a["causes_ns"], **b["causes_ns"]}, key=cause_order):
        yield _row(cause_look(cause), cause, cause_mean(a, cause), cause_mean(b, cause), width)
    yield from closures((a, b), width)
    yield []


def _rates(comparison: Comparison, width: int) -> Iterator[Line]:
    yield rule("Throughput", width)
    yield _columns(width)
    for key, label, digits in (("requests_per_s", "requests/s", 2), ("output_tokens_per_s", "output tokens/s", 1)):
        a, b = (comparison[side]["throughput"][key] for side in ("a", "b"))
        yield _row(Look(" ", "text"), label, a, b, width, digits=digits, more_is_better=True)
    yield []


def _paired(comparison: Comparison, width: int) -> Iterator[Line]:
    paired = comparison["paired"]
    if paired is None:
        yield rule("The same requests", width, "none: no request id is in both runs")
        return
    yield rule("The same requests", width, f"{paired['pairs']:,} answered by both, paired by {paired['by']}")
    yield from wrapped(_unpaired(paired), width)
    if not paired["pairs"]:
        return
    heads = "".join(f"{name:>{_PAIRED}}" for name in ("median", "low", "high", "faster", "slower", "same"))
    yield [(f"{'ms, B - A':<{_LABEL}}{heads}", "muted")]
    for measure in REPORTED:
        yield _change(Look(" ", "text"), measure.title, paired[f"{measure.name}_ms"], 1.0)
    for name in comparison["a"]["phases_ms"]:
        if name in paired["phases_ms"]:
            yield _change(phase_look(name), name, paired["phases_ms"][name], 1.0)
    for cause in sorted(paired["causes_ns"], key=cause_order):
        yield _change(cause_look(cause), cause, paired["causes_ns"][cause], _MS)
    yield from wrapped("low to high: 95 % bootstrap interval of the median", width, ASIDE)
    for key, style in (("faster", "good"), ("slower", "bad")):
        for request in paired[key]:
            yield _extreme(request, key, style)


def _unpaired(paired: Mapping[str, Any]) -> str:
    changed = [f"{row['requests']} {row['a']} → {row['b']}" for row in paired["outcomes"] if row["a"] != row["b"]]
    return "; ".join(
        [f"only in A {paired['only_a']:,}, only in B {paired['only_b']:,}"]
        + ([f"ended otherwise: {', '.join(changed)}"] if changed else [])
    )


def _change(look: Look, label: str, change: Mapping[str, Any], unit: float) -> Line:
    values = [None if change[key] is None else change[key] / unit for key in ("median", "low", "high")]
    changed = round(values[0] or 0.0, 1)
    style = "text" if not changed else "good" if changed < 0 else "bad"
    counts = "".join(f"{change[key]:>{_PAIRED},}" for key in ("faster", "slower", "same"))
    return [
        (f"{look.glyph} ", look.style),
        (fit(clean(label), _LABEL - 2), "text"),
        (_signed(values[0], width=_PAIRED), style),
        ("".join(_signed(value, width=_PAIRED) for value in values[1:]), "muted"),
        (counts, "text"),
    ]


def _extreme(request: Mapping[str, Any], key: str, style: str) -> Line:
    return [
        (f"{key:<7}", style),
        (fit(clean(request["request_id"]), 24), "text"),
        (f"{request['a_ms']:>{_NUMBER},.1f}", "run.a"),
        (" → ", "muted"),
        (f"{request['b_ms']:,.1f} ms".ljust(_NUMBER + 3), "run.b"),
        (_signed(request["diff_ms"]), style),
    ]


def _columns(width: int) -> Line:
    heads = (("A", "run.a"), ("B", "run.b"), ("B - A", "muted"), ("B / A", "muted"))
    return [(" " * _LABEL, HEADS), *((f"{name:>{_NUMBER}}", style) for name, style in heads)]


def _row(
    look: Look,
    label: str,
    a: float | None,
    b: float | None,
    width: int,
    *,
    digits: int = 1,
    more_is_better: bool = False,
    coloured: bool = True,
) -> Line:
    """One number of both runs, its change, and the change as a bar of what it is of the larger one."""
    line: Line = [(f"{look.glyph} ", look.style), (fit(clean(label), _LABEL - 2), "text")]
    line += [(number(a, _NUMBER, digits), "text"), (number(b, _NUMBER, digits), "text")]
    if a is None or b is None:
        return line
    changed = round(b - a, digits)  # what is not seen in the number is not drawn either
    share = changed / max(abs(a), abs(b)) if changed else 0.0
    better, worse = ("bad", "good") if more_is_better else ("good", "bad")
    if not coloured:
        better = worse = "muted"
    style = "text" if not changed else better if changed < 0 else worse
    ratio = f"× {b / a:.2f}" if a else "-"
    line += [(_signed(b - a, digits), style), (f"{ratio:>{_NUMBER}}", "muted")]
    room = min(width - _LABEL - 4 * _NUMBER - 1, 31)
    return [*line, (" ", "text"), *signed_bar(share, room, better, worse)] if room > 4 else line


def _signed(value: float | None, digits: int = 1, width: int = _NUMBER) -> str:
    return ("-" if value is None else f"{value:+,.{digits}f}").rjust(width)


def phase_mean(report: Report, phase: str) -> float | None:
    """Time of a phase in an ok request, in ms."""
    return _mean(report, report["phases_ms"][phase]["total"])


def cause_mean(report: Report, cause: str) -> float | None:
    """Time of a cause in an ok request, in ms."""
    return _mean(report, report["causes_ns"].get(cause, 0) / _MS)


def closures(reports: Sequence[Report], width: int) -> Iterator[Line]:
    """How much of its time each run could name, beside what that means."""
    told = " and ".join(f"{run.glyph} {_closure(report)}" for run, report in zip(RUNS, reports, strict=False))
    yield from wrapped(f"named = {reports[0]['formulas']['closure']}: {told}", width, ASIDE, "  ")


def _mean(report: Report, total: float) -> float | None:
    answered = report["requests"]["ok"]
    return total / answered if answered else None


def _at(report: Report, measure: str, quantile: str) -> float | None:
    value: float | None = report[measure][quantile]  # type: ignore[literal-required]
    return value


def _closure(report: Report) -> str:
    return "-" if report["closure"] is None else f"{report['closure'] * 100:.4f} %"


def _setting(value: object) -> str:
    """A value in words: one that is there and empty says so, as nothing after an arrow would look cut off."""
    if value is None:
        return "not set"
    return str(value) if str(value).strip() else "(none)"


BLOCKS: Final[dict[str, Callable[[Comparison, int], Iterator[Line]]]] = {
    "heads": _heads,
    "filter": _filter,
    "settings": _settings,
    "states": _states,
    "latency": _latency,
    "phases": _phases,
    "causes": _causes,
    "rates": _rates,
    "paired": _paired,
}
"""The blocks of a comparison by name, in the order of the page."""
