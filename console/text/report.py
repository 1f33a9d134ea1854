"""The report of one run as lines: every number beside its formula, every state counted, no more than the width."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from console.measures import REPORTED
from console.report import NOT_KEPT, UNNAMED, PhaseTimes, Report
from console.survival import Survival
from console.text.paint import flowed, wrapped
from console.theme import DAGGER, cause_look, cause_order, phase_look, status_look
from console.widgets.density import ASIDE, HEADS
from console.widgets.ink import Line, bar, clean, crop, duration, fit, percent, rule, spread

_NUMBER: Final = 9
_TOTAL: Final = 13
_LABEL: Final = 22
_MS: Final = 1_000_000
_MAX_GAPS: Final = 5
_RATES: Final = (
    ("requests_per_s", "requests/s", 2),
    ("goodput_per_s", "goodput/s", 2),
    ("output_tokens_per_s", "output tokens/s", 1),
)


def report_lines(report: Report, width: int) -> list[Line]:
    """The whole report, at most `width` cells wide."""
    return [line for name in BLOCKS for line in block_lines(name, report, width)]


def block_lines(name: str, report: Report, width: int) -> list[Line]:
    """One block of the report (a key of `BLOCKS`), for whoever lays them out otherwise: the console's overview."""
    return [crop(_without_end(line), width) for line in BLOCKS[name](report, width)]


def _without_end(line: Line) -> Line:
    """The line without blanks at its end: only what can be seen may be cut off visibly."""
    return [*line[:-1], (line[-1][0].rstrip(), line[-1][1])] if line else line


def describe_setup(setup: dict[str, Any]) -> str:
    """Model, device, scheduler and workload in one line."""
    scheduler, model = setup["config"].get("scheduler", {}), setup["model"]
    device = next((_name_of(device) for device in setup["devices"]), "") or model.get("device")
    parts = [
        _name_of(model),
        model.get("weights") == "random" and "random weights",
        " ".join(str(word) for word in (device, model.get("dtype")) if word),
        scheduler.get("policy") and f"policy {scheduler['policy']}",
        _name_of(setup["workload"]),
        "virtual clock" if setup["clock"] == "virtual" else setup["created"][:19].replace("T", " ") + " UTC",
    ]
    return clean(" · ".join(str(part) for part in parts if part))


def ok_count(report: Report) -> str:
    """`1 ok request`, `12 ok requests`."""
    return counted(report["requests"]["ok"], "ok request")


def counted(n: int, noun: str) -> str:
    """A count with its noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def number(value: float | None, width: int = _NUMBER, digits: int = 1) -> str:
    """A number for a column, `-` where there is none; one that is too long moves the rest and loses no digit."""
    return ("-" if value is None else f"{value:,.{digits}f}").rjust(width)


def lower_bound_note(censored: int) -> str:
    """Why the daggers are there (SPEC E5, F4)."""
    return (
        f"{DAGGER} lower bound: left out {counted(censored, 'request')} that ended without an answer or have not ended"
    )


def _head(report: Report, width: int) -> Iterator[Line]:
    state = report["state"]
    style = {"sealed": "good", "recording": "accent", "killed": "warn"}[state]
    yield spread([(clean(report["run"]), "strong bold")], [(state, style)], width)
    yield [(describe_setup(report["setup"]), "muted")]
    yield from filter_lines(report["filter"], width)
    yield []


def filter_lines(text: str, width: int) -> Iterator[Line]:
    """Which requests the numbers are about, where they are not about all."""
    if text:
        yield from wrapped(f"only: {clean(text)}", width, "accent")


def _requests(report: Report, width: int) -> Iterator[Line]:
    counts = report["requests"]
    handed_on = f", {report['handed_on']:,} handed on by lost workers" if report["handed_on"] else ""
    yield rule("Requests", width, f"{counts['total']:,} in all{handed_on}")
    yield from flowed((_state(name, n) for name, n in counts.items() if name != "total"), width)
    yield []


def _state(name: str, n: int) -> Line:
    look = status_look(name)
    return [(f"{look.glyph} ", look.style), (f"{n:,} {name}", "text" if n else "faint")]


def _latency(report: Report, width: int) -> Iterator[Line]:
    yield rule("Latency", width, f"ms, nearest rank, {ok_count(report)}")
    yield [(" " * 5 + "".join(f"{name:>{_NUMBER}} " for name in ("p50", "p95", "p99", "max")), HEADS)]
    mark = DAGGER if report["censored"] else " "
    for measure, found in zip(REPORTED, (report["ttft_ms"], report["tpot_ms"], report["e2e_ms"]), strict=True):
        values = "".join(number(value) + mark for value in (found["p50"], found["p95"], found["p99"], found["max"]))
        formula = f"  {measure.formula}"
        fits = 5 + len(values) + len(formula) <= width
        yield [(f"{measure.title:<5}", "strong"), (values, "text"), (formula if fits else "", "muted")]
        if not fits:
            yield [(f"{formula:>{width}}", ASIDE)]
        yield from _kaplan_meier(report["kaplan_meier"].get(f"{measure.name}_ms"))
    if report["censored"]:
        yield from wrapped(lower_bound_note(report["censored"]), width, "warn", "  ")
        yield from wrapped(f"KM: {report['formulas']['kaplan_meier']}", width, ASIDE, "  ")
    yield []


def _kaplan_meier(found: Survival | None) -> Iterator[Line]:
    """The percentiles with those in it that were not answered, below the naive ones (SPEC F4)."""
    if found is not None:
        values = "".join(_or_beyond(value) + " " for value in (found["p50"], found["p95"], found["p99"]))
        yield [
            ("  KM ", "muted"),
            (values, "text"),
            (f"  {found['censored']:,} of {found['n']:,} lost sight of", "muted"),
        ]


def _or_beyond(value: float | None) -> str:
    """A percentile that lies beyond everything seen has no number."""
    return f"{'beyond':>{_NUMBER}}" if value is None else number(value)


def _phases(report: Report, width: int) -> Iterator[Line]:
    lived = {name: times for name, times in report["phases_ms"].items() if times["total"]}
    yield rule("Phases", width, f"share of E2E, ms, {ok_count(report)}")
    if lived:
        size = _column(lived.values())
        heads = "".join(f"{name:>{size}}" for name in ("p50", "p95", "p99")) + f"{'total':>{_TOTAL}}"
        yield [(f"{heads:>{width}}", HEADS)]
    for name, times in lived.items():
        yield _phase(name, times, size, width)
    if not lived:
        yield [("no ok request has phases", "muted")]
    yield []


def _column(phases: Iterable[PhaseTimes]) -> int:
    """Cells of a column of percentiles: a blank more than the longest, so that none touches its neighbour."""
    shown = (number(times[name], 0) for times in phases for name in ("p50", "p95", "p99"))
    return max(_NUMBER, *(len(value) + 1 for value in shown))


def _phase(name: str, times: PhaseTimes, size: int, width: int) -> Line:
    look = phase_look(name)
    quantiles = "".join(number(value, size) for value in (times["p50"], times["p95"], times["p99"]))
    numbers = quantiles + number(times["total"], _TOTAL)
    room = width - len(numbers) - 13 - 7
    return [
        (f"{look.glyph} ", look.style),
        (fit(name, 11), "text"),
        *bar(times["share"] or 0.0, max(room, 0), look.style, look.glyph),
        (fit(percent(times["share"]), 7, "right"), "strong"),
        (numbers, "text"),
    ]


def _causes(report: Report, width: int) -> Iterator[Line]:
    causes = report["causes_ns"]
    whole = sum(causes.values())
    closure = report["closure"]
    note = "no ok request" if closure is None else f"{closure * 100:.4f} % named"
    yield rule("Causes", width, note)
    for cause in sorted(causes, key=cause_order):
        yield _cause(cause, causes[cause], whole, cause in report["causes_modelled"], width)
    if report["causes_modelled"]:
        yield [("~ in part modelled, not measured", "muted")]
    if report["roots_ns"]:
        roots = ", ".join(f"{root} {duration(ns)}" for root, ns in report["roots_ns"].items())
        yield from wrapped(f"roots of queueing: {clean(roots)}", width, "text", "  ")
    yield from wrapped(f"named = {report['formulas']['closure']}", width, ASIDE, "        ")
    yield []


def _cause(cause: str, ns: int, whole: int, modelled: bool, width: int) -> Line:
    look = cause_look(cause)
    share = ns / whole if whole else 0.0
    time = fit(f"{ns / _MS:,.3f} ms", 18, "right")
    style = "strong" if cause == UNNAMED and ns else "text"
    return [
        (f"{look.glyph} ", look.style),
        (fit(clean(cause) + ("~" if modelled else ""), _LABEL), style),
        *bar(share, max(width - _LABEL - 2 - 7 - len(time), 0), look.style, look.glyph),
        (fit(percent(share), 7, "right"), "strong"),
        (time, "text"),
    ]


def _throughput(report: Report, width: int) -> Iterator[Line]:
    window = report["window_s"]
    formula = report["formulas"]["window_s"]
    yield rule("Throughput", width, "no window" if window is None else f"window {window:,.3f} s = {formula}")
    rates = report["throughput"]
    for name, unit, digits in _RATES:
        value = number(rates[name], 10, digits)
        needs = "with --slo-ms: " if name == "goodput_per_s" and rates[name] is None else ""
        yield [(value, "strong"), (f" {unit:<16}", "text"), (needs + report["formulas"][name], "muted")]
    yield []


def _workers(report: Report, width: int) -> Iterator[Line]:
    if not report["workers"]:
        return
    yield rule("Workers", width, "host = time of steps outside execution")
    for row in report["workers"]:
        busy = row["execution_ns"] + row["host_ns"]
        host = percent(row["host_ns"] / busy if busy else None)
        pieces: list[Line] = [
            [(f"{row['worker']:>3} ", "strong"), (f"{row['steps']:,} steps in {row['passes']:,} passes", "text")],
            [(f"execution {duration(row['execution_ns'])}", "text")],
            [(f"host {duration(row['host_ns'])} ({host})", "text")],
            [(f"idle {duration(row['idle_ns'])}", "muted")],
        ]
        yield from flowed(pieces, width, "    ")
    yield []


def _recorder(report: Report, width: int) -> Iterator[Line]:
    health = report["recorder"]
    if not health["events"]:
        yield rule("Recorder", width, "no account: nothing was recorded through rings")
        return
    drops = health["drops"]
    yield rule("Recorder", width, f"{drops:,} dropped" if drops else "nothing dropped")
    cost = "-" if health["append_ns"] is None else f"{health['append_ns']:,.0f} ns"
    yield [
        (f"{health['events']:,} records, {cost} each, {health['bytes']:,} bytes sealed", "text"),
        (f", {drops:,} dropped" if drops else "", "bad"),
    ]
    for gap in health["gaps"][:_MAX_GAPS]:
        yield [(f"  {gap['lost']:,} of {clean(gap['producer'])}.{clean(gap['table_name'])} lost", "bad")]
    if len(health["gaps"]) > _MAX_GAPS:
        yield [(f"  and {len(health['gaps']) - _MAX_GAPS:,} gaps more", "bad")]
    if health["incomplete"]:
        told = f"{counted(health['incomplete'], 'request')} incomplete: records of their time are missing"
        yield from wrapped(told, width, "bad", "  ")


def _left_out(report: Report, width: int) -> Iterator[Line]:
    left_out = report["left_out"]
    if not left_out["passes"]:
        return
    yield []
    yield rule("Flight recorder", width, "kept around slow requests only")
    told = (
        f"{left_out['passes']:,.0f} passes of {left_out['seconds']:,.3f} s were left out on purpose, with what was told"
        f" of them; the time of requests that lived through them is {NOT_KEPT}"
    )
    yield from wrapped(told, width, "text")


def _damages(report: Report, width: int) -> Iterator[Line]:
    if not report["damages"]:
        return
    yield []
    yield rule("Damage", width, "everything else is shown")
    for damage in report["damages"]:
        yield [(clean(damage["file"]), "bad"), (f": {clean(damage['what'])}", "text")]


def _name_of(thing: dict[str, Any]) -> str:
    return str(thing.get("name") or thing.get("id") or "")


BLOCKS: Final[dict[str, Callable[[Report, int], Iterator[Line]]]] = {
    "head": _head,
    "requests": _requests,
    "latency": _latency,
    "phases": _phases,
    "causes": _causes,
    "throughput": _throughput,
    "workers": _workers,
    "recorder": _recorder,
    "left_out": _left_out,
    "damages": _damages,
}
"""The blocks of a report by name, in the order of the page."""
