"""`tailtrace contrast RUN [--filter TEXT] [--against TEXT] [--json]`: what sets some requests apart (SPEC F3)."""

import argparse
import sys

from console.blame.cohorts import SLOW_HELP, parse_slow
from console.commands import FILTER_HELP, RUN_HELP
from console.contrast.answer import contrast, document
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.session import Session
from console.text.contrast import contrast_lines
from console.text.paint import show, terminal_width
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--filter", metavar="TEXT", default="", help=f"{FILTER_HELP}; default: the slow ones")
    parser.add_argument("--against", metavar="TEXT", default="", help="what they are compared with (default: the rest)")
    parser.add_argument("--slow", metavar="WHAT", default="p95", help=f"without --filter: {SLOW_HELP} (default: p95)")
    parser.add_argument("--json", action="store_true", help="print JSON; times in µs, shares of E2E in thousandths")


def run(args: argparse.Namespace) -> int:
    """Print what sets them apart, or why that can't be told."""
    selection, against, slow = parse_filter(args.filter), parse_filter(args.against), parse_slow(args.slow)
    with Session(local(args.path)) as session:
        found = contrast(session, selection, against, slow)
    if args.json:
        write_json(sys.stdout, document(found))
    else:
        show(contrast_lines(found, terminal_width()))
    return 0
