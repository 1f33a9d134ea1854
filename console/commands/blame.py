"""`tailtrace blame RUN [--slow p95|TIME] [--by CLASS] [--json]`: who takes the tail (SPEC F1, F2, F3)."""

import argparse
import sys

from console.blame.answer import blame, document
from console.blame.cohorts import SLOW_HELP, parse_slow
from console.blame.interference import CLASSES
from console.commands import FILTER_HELP, RUN_HELP
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.session import Session
from console.text.blame import blame_lines
from console.text.paint import show, terminal_width
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument(
        "--slow", metavar="WHAT", default="p95", help=f"what counts as slow: {SLOW_HELP} (default: p95)"
    )
    parser.add_argument("--by", choices=CLASSES, default="tier", help="what victims and culprits are grouped by")
    parser.add_argument("--json", action="store_true", help="print JSON; sums in ns")


def run(args: argparse.Namespace) -> int:
    """Print the budget, the excess, the spread, and victims and culprits."""
    only, slow = parse_filter(args.filter), parse_slow(args.slow)
    with Session(local(args.path)) as session:
        found = blame(session, only, slow, args.by)
    if args.json:
        write_json(sys.stdout, document(found))
    else:
        show(blame_lines(found, terminal_width()))
    return 0
