"""`tailtrace report RUN [--json]`: where the time of one run went."""

import argparse
import sys

from console.commands import FILTER_HELP, RUN_HELP, slo_ns
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.report import report
from console.session import Session
from console.text.paint import show, terminal_width
from console.text.report import report_lines
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--slo-ms", type=float, metavar="MS", help="end to end inside this is goodput")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the report. Damage in the run is part of it, and no error."""
    only = parse_filter(args.filter)
    with Session(local(args.path)) as session:
        made = report(session, only, slo_ns=slo_ns(args.slo_ms))
    if args.json:
        write_json(sys.stdout, made)
    else:
        show(report_lines(made, terminal_width()))
    return 0
