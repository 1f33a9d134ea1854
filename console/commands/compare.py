"""`tailtrace compare A B [C] [D] [--json]`: what differs between runs, with curves when somebody is looking."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from console.commands import FILTER_HELP, RUN_HELP, slo_ns
from console.compare import Comparison, compare_all
from console.figures import measure, values_of
from console.filter import EVERYTHING, Filter
from console.filter_language import parse_filter
from console.guards import NAMES, Guard, parse_guards
from console.jsonout import write_json
from console.measures import E2E, TTFT, Measure
from console.session import Session
from console.slo import Slo
from console.text.compare import compare_lines
from console.text.curves import cdf
from console.text.paint import colour_of, is_dark, show, terminal_width
from console.text.several import several_lines
from console.theme import RUNS
from console.widgets.ink import clean
from recorder.copies import local
from recorder.errors import UserError

_CURVE_ROWS = 14
_MS = 1e6


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("a", metavar="A", help=RUN_HELP)
    parser.add_argument("others", nargs="+", metavar="B", help="the runs held against it, three at most")
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--slo-ms", type=float, metavar="MS", help="end to end inside this is goodput")
    parser.add_argument(
        "--guard",
        action="append",
        default=[],
        metavar="RAIL",
        help="exit with 1 if a run other than A breaks it, as in 'p99_e2e_ms<2000' or 'p99_ttft_ms<=1.1x', a multiple "
        f"of A; of {', '.join(NAMES)}; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; differences are B - A. 1 where a guard rail breaks."""
    if len(args.others) >= len(RUNS):
        raise UserError(f"compare takes {len(RUNS)} runs at most, got {len(args.others) + 1}")
    paths = [args.a, *args.others]
    return tell(paths, parse_filter(args.filter), slo_ns(args.slo_ms), parse_guards(args.guard), as_json=args.json)


def tell(
    paths: Sequence[str | Path],
    only: Filter = EVERYTHING,
    slo: int | None = None,
    guards: Sequence[Guard] = (),
    *,
    as_json: bool = False,
) -> int:
    """Print the comparison of these runs with the first; 1 where one of them breaks a rail. `slo` in ns."""
    with ExitStack() as opened:
        runs = [opened.enter_context(Session(local(path))) for path in paths]
        made = compare_all(runs, only, slo)
        broken = _broken(runs, only, Slo(e2e_ns=slo), guards)
        if as_json:
            write_json(sys.stdout, document(made, broken if guards else None))
        else:
            _print(made, runs, only)
    for name, guard in broken:
        sys.stderr.write(f"tailtrace: guard rail broken by {name}: {guard.text}\n")
    return 1 if broken else 0


def document(made: Sequence[Comparison], broken: Sequence[tuple[str, Guard]] | None) -> Mapping[str, Any]:
    """The comparison of two runs, or `comparisons` of each other run with the first; `failed` where there are rails."""
    told: dict[str, Any] = dict(made[0]) if len(made) == 1 else {"comparisons": list(made)}
    if broken is not None:
        told["failed"] = [{"run": name, "guard": guard.text} for name, guard in broken]
    return told


def _broken(runs: Sequence[Session], only: Filter, slo: Slo, guards: Sequence[Guard]) -> list[tuple[str, Guard]]:
    """Which run breaks which rail."""
    values = []
    for one in runs if guards else ():
        with one.connect(only) as cursor:
            workers = max(len(one.ask("workers", cursor=cursor)), 1)
            values.append(values_of(measure(one, slo, cursor), workers, None))
    return [
        (one.name, guard)
        for one, some in zip(runs[1:], values[1:], strict=False)
        for guard in guards
        if not guard.holds(some, values[0])
    ]


def _print(made: Sequence[Comparison], runs: Sequence[Session], only: Filter) -> None:
    width = terminal_width()
    show(compare_lines(made[0], width) if len(made) == 1 else several_lines(made, width))
    if sys.stdout.isatty():
        for latency in (TTFT, E2E):
            _draw(latency, runs, only)


def _draw(latency: Measure, runs: Sequence[Session], only: Filter) -> None:
    """The distribution of one measure in each run, over the requests it answered."""
    curves = {
        f"{look.glyph} {clean(one.name)}": _answered(one, latency, only) for look, one in zip(RUNS, runs, strict=False)
    }
    title = f"{latency.title} of ok requests"
    lines = cdf(title, curves, terminal_width(), _CURVE_ROWS, colour=colour_of(sys.stdout), dark=is_dark())
    sys.stdout.write("".join(f"{line}\n" for line in ["", *lines]))


def _answered(session: Session, latency: Measure, only: Filter) -> list[float]:
    with session.connect(only) as cursor:
        values = session.ask("answered_latencies", cursor=cursor)[latency.column].drop_null().to_pylist()
    return [value / _MS for value in values]
