"""A sweep as lines: what each level served at what cost, its latencies, the knee, and the guard rails that broke."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from console.guards import PERCENTILES
from console.measures import REPORTED, Measure
from console.sweep.answer import PAIRED_FORMULA, Sweep, censored, formulas, mean_e2e_ms, offered, plain
from console.sweep.plan import LOAD
from console.sweep.reference import LABEL
from console.text.curves import throughput_latency
from console.text.paint import Colour, wrapped
from console.text.report import lower_bound_note, number
from console.theme import DAGGER
from console.widgets.ink import Line, clean, crop, fit, percent, rule, width_of

_CURVE_ROWS = 16
_WIDEST_LABEL = 12
_RATE = 8
_TIME = 12


def sweep_lines(sweep: Sweep, width: int) -> list[Line]:
    """The whole answer, at most `width` cells wide."""
    return [crop(line, width) for line in _all(sweep, width)]


def curve_lines(sweep: Sweep, width: int, *, colour: Colour, dark: bool) -> list[str]:
    """E2E against throughput, the knee and, where it says something, the reference line (SPEC D3, D8)."""
    levels = list(zip(sweep.figures, sweep.values, strict=True))
    curves = {
        f"E2E {rank}": [_point(values["throughput"], values[f"{rank}_e2e_ms"]) for _, values in levels]
        for rank in ("p50", "p99")
    }
    if sweep.knee is not None and sweep.knee.place is not None:
        at = sweep.values[sweep.knee.place]
        curves["knee"] = [_point(at["throughput"], at["p99_e2e_ms"])]
    line = [(offered(found), sweep.mm1_ns(place)) for place, (found, _) in enumerate(levels)]
    if told := [_point(rate, ns / 10**6) for rate, ns in line if ns is not None]:
        curves["M/M/1 mean, intuition only"] = told
    return throughput_latency("ms", curves, width, _CURVE_ROWS, colour=colour, dark=dark)


def knee_words(sweep: Sweep) -> str:
    """Where the knee is, and why it is there."""
    if sweep.knee is None:
        return ""
    slo, level = sweep.question.slo, sweep.knee_level
    if level is None:
        return "no knee: the lowest load misses the SLO already; try lower ones"
    held = "meets the SLO before saturation" if slo else "comes before saturation"
    why = {
        "slo": "the next level misses the SLO",
        "saturated": "at the next level throughput no longer follows the load",
        "beyond": "it is the highest that was tried: the knee may lie above",
    }[sweep.knee.why]
    return f"knee: load {level.label} is the highest that {held}; {why}"


def _point(x: Fraction | None, y: Fraction | None) -> tuple[float, float]:
    return plain(x) or 0.0, plain(y) or 0.0


def _all(sweep: Sweep, width: int) -> Iterator[Line]:
    plan, about = sweep.question.plan, sweep.question.about
    yield [(f"{plan.variable} over {len(plan.levels)} levels", "strong bold"), (f"  {about['loop']}", "muted")]
    if sweep.question.slo:
        yield [(f"SLO: {sweep.question.slo}", "text")]
    yield []
    yield from _service(sweep, width)
    for measure in REPORTED:
        yield from _latency(sweep, measure, width)
    if most := max(map(censored, sweep.figures)):
        yield from wrapped(f"{lower_bound_note(most)}, at the level with most", width, "warn")
        yield []
    yield from _paired(sweep, width)
    yield from _reference(sweep, width)
    yield from _verdicts(sweep, width)


def _service(sweep: Sweep, width: int) -> Iterator[Line]:
    priced = sweep.question.hourly is not None
    yield rule("Service", width, "requests/s; cost per success " + ("as priced" if priced else "in device-seconds"))
    heads = ("offered", "served", "goodput", "inside", "reject", "cost")
    size = _label_width(sweep)
    yield [(" " * size + "".join(f"{head:>{_RATE}}" for head in heads), "muted")]
    for place, values in enumerate(sweep.values):
        cells = [
            number(plain(offered(sweep.figures[place])), _RATE, 2),
            number(plain(values["throughput"]), _RATE, 2),
            number(plain(values["goodput"]), _RATE, 2),
            f"{percent(plain(values['inside_share'])):>{_RATE}}",
            f"{percent(plain(values['rejected_share'])):>{_RATE}}",
            _cost(plain(values["cost_per_success"])),
        ]
        line: Line = [(_label(sweep, place), "strong"), ("".join(cells), "text")]
        marks = _marks(sweep, place)  # also in words below, so that they give way where there is no room
        yield [*line, *marks] if width_of([*line, *marks]) <= width else line
    told = formulas(priced)
    for name in ("goodput", "cost_per_success"):
        yield from wrapped(f"{name} = {told[name]}", width, indent="    ")
    yield []


def _cost(value: float | None) -> str:
    return f"{'-' if value is None else format(value, ',.3g'):>{_RATE}}"


def _marks(sweep: Sweep, place: int) -> Line:
    marks: Line = []
    if sweep.knee is not None and sweep.knee.place == place:
        marks.append(("  ◆ knee", "good"))
    if sweep.meets_slo(place) is False:
        marks.append(("  ✗ SLO", "bad"))
    if sweep.saturated[place]:
        marks.append(("  saturated", "warn"))
    return marks


def _latency(sweep: Sweep, measure: Measure, width: int) -> Iterator[Line]:
    yield rule(measure.title, width, f"ms: {measure.formula}")
    yield [(" " * _label_width(sweep) + "".join(f"{rank:>11} " for rank in PERCENTILES), "muted")]
    for place, values in enumerate(sweep.values):
        mark = DAGGER if censored(sweep.figures[place]) else " "
        shown = (number(plain(values[f"{rank}_{measure.name}_ms"]), 11) + mark for rank in PERCENTILES)
        yield [(_label(sweep, place), "strong"), ("".join(shown), "text")]
    yield []


def _paired(sweep: Sweep, width: int) -> Iterator[Line]:
    """What each level changed for the same requests (SPEC D7)."""
    if not any(sweep.paired):
        return
    yield rule("The same requests", width, "E2E in ms, minus the first level's")
    heads = ("median", "low", "high", "faster", "slower")
    yield [(" " * _label_width(sweep) + "".join(f"{head:>{_TIME}}" for head in heads), "muted")]
    for place, changed in enumerate(sweep.paired):
        if changed is not None:
            bounds = (number(value, _TIME) for value in (changed.median, changed.low, changed.high))
            counts = (f"{count:>{_TIME},}" for count in (changed.faster, changed.slower))
            yield [(_label(sweep, place), "strong"), ("".join((*bounds, *counts)), "text")]
    yield from wrapped(PAIRED_FORMULA, width, indent="    ")
    yield []


def _reference(sweep: Sweep, width: int) -> Iterator[Line]:
    lines = [sweep.mm1_ns(place) for place in range(len(sweep.figures))]
    if not any(lines):
        return
    yield rule("Reference", width, "mean E2E in ms")
    yield from wrapped(LABEL, width, "warn")
    for place, ns in enumerate(lines):
        told = "no steady state" if ns is None else f"M/M/1 {float(ns) / 1e6:,.1f}"
        measured = number(plain(mean_e2e_ms(sweep.figures[place])))
        yield [(_label(sweep, place), "strong"), (f"measured {measured}   {told}", "text")]
    yield []


def _verdicts(sweep: Sweep, width: int) -> Iterator[Line]:
    if words := knee_words(sweep):
        yield from wrapped(words, width, "good" if sweep.knee_level else "bad")
    for level, guard in sweep.failures:
        told = f"✗ FAIL {sweep.question.plan.variable}={level.label} breaks {guard.text}"
        yield [(clean(told), "bad")]
    if sweep.question.guards and not sweep.failures:
        yield [(f"✓ {_counted(sweep.question.guards)} at every level", "good")]


def _counted(guards: Sequence[object]) -> str:
    return f"{len(guards)} guard rail{' holds' if len(guards) == 1 else 's hold'}"


def _label_width(sweep: Sweep) -> int:
    return min(max(len(level.label) for level in sweep.question.plan.levels) + 2, _WIDEST_LABEL)


def _label(sweep: Sweep, place: int) -> str:
    plan = sweep.question.plan
    text = plan.levels[place].label
    return fit(clean(f"{text}x" if plan.variable == LOAD else text), _label_width(sweep))
