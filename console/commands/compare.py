"""`tailtrace compare A B [--json]`: what differs between two runs, with curves when somebody is looking."""

import argparse
import sys

from console.commands import FILTER_HELP, RUN_HELP
from console.compare import compare
from console.filter import Filter
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.measures import E2E, TTFT, Measure
from console.session import Session
from console.text.compare import compare_lines
from console.text.curves import cdf
from console.text.paint import colour_of, is_dark, show, terminal_width
from console.widgets.ink import clean
from recorder.copies import local

_CURVE_ROWS = 14
_MS = 1e6


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("a", metavar="A", help=RUN_HELP)
    parser.add_argument("b", metavar="B", help="the run it is compared with")
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; differences are B - A."""
    only = parse_filter(args.filter)
    with Session(local(args.a)) as a, Session(local(args.b)) as b:
        made = compare(a, b, only)
        if args.json:
            write_json(sys.stdout, made)
            return 0
        show(compare_lines(made, terminal_width()))
        if sys.stdout.isatty():
            for measure in (TTFT, E2E):
                _draw(measure, a, b, only)
    return 0


def _draw(measure: Measure, a: Session, b: Session, only: Filter) -> None:
    """The distribution of one measure in both runs, over the requests they answered."""
    curves = {
        f"{side} {clean(session.name)}": _answered(session, measure, only) for side, session in (("A", a), ("B", b))
    }
    title = f"{measure.title} of ok requests"
    lines = cdf(title, curves, terminal_width(), _CURVE_ROWS, colour=colour_of(sys.stdout), dark=is_dark())
    sys.stdout.write("".join(f"{line}\n" for line in ["", *lines]))


def _answered(session: Session, measure: Measure, only: Filter) -> list[float]:
    with session.connect(only) as cursor:
        values = session.ask("answered_latencies", cursor=cursor)[measure.column].drop_null().to_pylist()
    return [value / _MS for value in values]
