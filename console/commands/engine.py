"""`tailtrace engine RUN [--json]`: what the workers did over a stretch of a run, and what that says."""

import argparse
import sys
from typing import Final

from console.commands import FILTER_HELP, RUN_HELP
from console.engine_view.answer import engine
from console.engine_view.look import Look, stretch, whole
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.session import Session
from console.text.engine import engine_lines
from console.text.engine_strips import parts_for
from console.text.paint import show, terminal_width
from recorder.copies import local

_PARTS: Final = 120
"""In so many parts JSON tells its series, whatever the terminal is."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--worker", type=int, metavar="N", help="one worker (default: all)")
    parser.add_argument("--window", metavar="A..B", default="..", help="a stretch of the run, such as 2s..5s")
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON; times in ns")


def run(args: argparse.Namespace) -> int:
    """Print the numbers. Damage in the run leaves gaps, and is no error."""
    only = parse_filter(args.filter)
    width = terminal_width()
    with Session(local(args.path)) as session, session.connect() as cursor:
        parts = _PARTS if args.json else parts_for(width)
        look = Look(stretch(args.window, whole(session)), args.worker, parts)
        found = engine(session, only, look.of_run(session), cursor)
    if args.json:
        write_json(sys.stdout, found.report)
    else:
        show(engine_lines(found, width))
    return 0
