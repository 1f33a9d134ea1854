"""`tailtrace report RUN [--json]`: where the time of one run went."""

import argparse
import sys
from pathlib import Path

from console.jsonout import write_json
from console.report import report
from console.session import Session
from console.text.paint import show, terminal_width
from console.text.report import report_lines


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the report. Damage in the run is part of it, and no error."""
    with Session(args.path) as session:
        made = report(session)
    if args.json:
        write_json(sys.stdout, made)
    else:
        show(report_lines(made, terminal_width()))
    return 0
