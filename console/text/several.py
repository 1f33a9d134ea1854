"""Up to four runs as lines: one column a run, each number with its ratio to the first run's."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from console.compare import Comparison
from console.measures import REPORTED
from console.report import Report
from console.text.compare import cause_mean, closures, phase_mean, settings_lines
from console.text.paint import wrapped
from console.text.report import describe_setup, filter_lines, lower_bound_note, number
from console.theme import DAGGER, RUNS, Look, cause_look, cause_order, phase_look, status_look
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, clean, crop, fit, rule

_LABEL: Final = 20
_NUMBER: Final = (11, 9)
"""Cells of a number, and where there is no room for all runs."""
_RATIO: Final = (7, 6)
"""Cells of a ratio to the first run's number."""
_BLANK: Final = Look(" ", "text")


def several_lines(comparisons: Sequence[Comparison], width: int) -> list[Line]:
    """All of them, at most `width` cells wide."""
    return [line for name in BLOCKS for line in block_lines(name, comparisons, width)]


def block_lines(name: str, comparisons: Sequence[Comparison], width: int) -> list[Line]:
    """One block (a key of `BLOCKS`), for whoever lays them out otherwise."""
    return [crop(line, width) for line in BLOCKS[name](comparisons, width)]


def reports_of(comparisons: Sequence[Comparison]) -> list[Report]:
    """The first run's report, then those of the others."""
    return [comparisons[0]["a"], *(one["b"] for one in comparisons)]


def _heads(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    for run, report in zip(RUNS, reports_of(comparisons), strict=False):
        yield [(f"{run.glyph} ", f"{run.style} bold"), (clean(report["run"]), "strong bold")]
        yield [(f"  {describe_setup(report['setup'])}", ASIDE)]
        for damage in report["damages"]:
            yield [(f"  damaged: {clean(damage['file'])}: {clean(damage['what'])}", "bad")]
    yield from filter_lines(comparisons[0]["a"]["filter"], width)
    yield []


def _settings(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    """What each of the others has otherwise than the first."""
    for run, comparison in zip(RUNS[1:], comparisons, strict=False):
        yield from settings_lines(comparison, run, width)


def _states(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    reports = reports_of(comparisons)
    yield rule("Requests", width)
    yield _columns(len(reports), width)
    for name in reports[0]["requests"]:
        counts = [report["requests"][name] for report in reports]
        if any(counts):
            look = _BLANK if name == "total" else status_look(name)
            yield _row(look, name, counts, width, digits=0, coloured=False)
    yield []


def _latency(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    reports = reports_of(comparisons)
    yield rule("Latency", width, "ms, nearest rank over ok requests, × of A")
    yield _columns(len(reports), width)
    for measure in REPORTED:
        yield [(measure.title, "strong"), (f" = {measure.formula}", "muted")]
        found = [report[f"{measure.name}_ms"] for report in reports]  # type: ignore[literal-required]
        mark = f" {DAGGER}" if any(report["censored"] for report in reports) else ""
        for quantile in ("p50", "p95", "p99", "max"):
            yield _row(_BLANK, f"{quantile}{mark}", [some[quantile] for some in found], width)
    for run, report in zip(RUNS, reports, strict=False):
        if report["censored"]:
            yield from wrapped(f"{run.glyph} {lower_bound_note(report['censored'])}", width, "warn", "  ")
    yield []


def _phases(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    reports = reports_of(comparisons)
    yield rule("Phases", width, "ms a request, mean over ok requests")
    yield _columns(len(reports), width)
    for name in reports[0]["phases_ms"]:
        means = [phase_mean(report, name) for report in reports]
        if any(means):
            yield _row(phase_look(name), name, means, width)
    yield []


def _causes(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    reports = reports_of(comparisons)
    yield rule("Causes", width, "ms a request, mean over ok requests")
    yield _columns(len(reports), width)
    for cause in sorted({cause for report in reports for cause in report["causes_ns"]}, key=cause_order):
        yield _row(cause_look(cause), cause, [cause_mean(report, cause) for report in reports], width)
    yield from closures(reports, width)
    yield []


def _rates(comparisons: Sequence[Comparison], width: int) -> Iterator[Line]:
    reports = reports_of(comparisons)
    yield rule("Throughput", width)
    yield _columns(len(reports), width)
    for key, label, digits in (("requests_per_s", "requests/s", 2), ("output_tokens_per_s", "output tokens/s", 1)):
        rates = [report["throughput"][key] for report in reports]
        yield _row(_BLANK, label, rates, width, digits=digits, more_is_better=True)
    yield []


def _sizes(runs: int, width: int) -> tuple[int, int]:
    """Cells of a number and of a ratio, so that all runs fit where they can."""
    roomy = _LABEL + _NUMBER[0] + (runs - 1) * (_NUMBER[0] + _RATIO[0])
    return (_NUMBER[0], _RATIO[0]) if roomy <= width else (_NUMBER[1], _RATIO[1])


def _columns(runs: int, width: int) -> Line:
    number_size, ratio_size = _sizes(runs, width)
    heads = [(f"{run.glyph:>{number_size}}", run.style) for run in RUNS[:runs]]
    spaced = [piece for head in heads[1:] for piece in (head, (f"{'× A':>{ratio_size}}", "muted"))]
    return [(" " * _LABEL, HEADS), heads[0], *spaced]


def _row(
    look: Look,
    label: str,
    values: Sequence[float | None],
    width: int,
    *,
    digits: int = 1,
    more_is_better: bool = False,
    coloured: bool = True,
) -> Line:
    """One number of each run; whether it is better than the first run's is said by its ratio and its colour."""
    first, (number_size, ratio_size) = values[0], _sizes(len(values), width)
    line: Line = [(f"{look.glyph} ", look.style), (fit(clean(label), _LABEL - 2), "text")]
    line.append((number(first, number_size, digits), "text"))
    better, worse = ("bad", "good") if more_is_better else ("good", "bad")
    for value in values[1:]:
        line.append((number(value, number_size, digits), "text"))
        changed = 0.0 if value is None or first is None else round(value - first, digits)
        style = "muted" if not coloured or not changed else better if changed < 0 else worse
        line.append((f"{f'×{value / first:.2f}' if value is not None and first else '-':>{ratio_size}}", style))
    return line


BLOCKS: Final[dict[str, Callable[[Sequence[Comparison], int], Iterator[Line]]]] = {
    "heads": _heads,
    "latency": _latency,
    "phases": _phases,
    "causes": _causes,
    "rates": _rates,
    "states": _states,
    "settings": _settings,
}
"""The blocks by name, in the order of the page."""
