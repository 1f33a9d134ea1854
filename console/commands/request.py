"""`tailtrace request RUN ID [--json]`: the life of one request."""

import argparse
import sys

from console.commands import RUN_HELP
from console.jsonout import write_json
from console.request import lives
from console.session import Session
from console.text.paint import show, terminal_width
from console.text.request import request_lines
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("id", metavar="ID", help="the request's id, or its number in the run (7 or req:7)")
    parser.add_argument("--json", action="store_true", help="print its attempts as JSON; times in ns")


def run(args: argparse.Namespace) -> int:
    """Print every attempt of the request, oldest first."""
    with Session(local(args.path)) as session:
        found = lives(session, args.id)
        name = session.name
    if args.json:
        write_json(sys.stdout, {"run": name, "id": args.id, "attempts": found})
        return 0
    for life in found:
        show(request_lines(life, terminal_width()))
    return 0
