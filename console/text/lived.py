"""What the requests alive in a stretch of a run went through, as lines."""

from console import theme
from console.lived import Lived, Times
from console.selecting import Stretch
from console.widgets.ink import Line, crop, duration, fit, instant, rule

_NAME = 14
_COUNT = 9
_TIME = 10


def lived_lines(found: Lived | None, stretch: Stretch, low: int, width: int, title: str = "Selected") -> list[Line]:
    """The stretch, who was alive in it, and their phases; None while that is worked out. `low`: the run's beginning."""
    since, until = (instant(t - low, stretch.span) for t in (stretch.start, stretch.end))
    lines = [rule(f"{title} {since} to {until}", width, duration(stretch.span))]
    if found is None:
        return [*lines, [("working out who was alive in it …", "muted")]]
    mark = theme.DAGGER if found["censored"] else ""
    head = [fit(name, room, "right") for name, room in (("count", _COUNT), ("p50", _TIME), (f"p99{mark}", _TIME))]
    lines += [crop(_states(found), width), [(fit("of whole lives", _NAME), "muted"), ("".join(head), "muted")]]
    lines += [_row(theme.phase_look(name), name.replace("_", " "), times) for name, times in found["phases_ns"].items()]
    measures = (("TTFT", found["ttft_ns"]), ("E2E", found["e2e_ns"]))
    lines += [_row(theme.Look(" ", "text"), name, times) for name, times in measures]
    if mark:
        lines.append([(f"{mark} lower bound: {found['censored']:,} not answered", "warn")])
    return [crop(line, width) for line in lines]


def _states(found: Lived) -> Line:
    total = sum(found["requests"].values())
    line: Line = [(f"{total:,}", "strong bold"), (" alive  ", "muted")]
    for status, count in found["requests"].items():
        look = theme.status_look(status)
        line += [(f"{look.glyph} ", look.style), (f"{count:,} {status}  ", "text")]
    return line


def _row(look: theme.Look, name: str, times: Times) -> Line:
    return [
        (f"{look.glyph} ", look.style),
        (fit(name, _NAME - 2), "text"),
        (fit(f"{times['n']:,}", _COUNT, "right"), "text"),
        (fit(duration(times["p50"]), _TIME, "right"), "strong"),
        (fit(duration(times["p99"]), _TIME, "right"), "strong"),
    ]
