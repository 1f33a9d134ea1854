"""`tailtrace budget RUN --budget FILE.toml [--json]`: does a run keep its SLO and the budget of each part (SPEC A4)?"""

import argparse
import sys
from pathlib import Path

from console.budget import document, judge, read_budget
from console.commands import BUDGET_HELP, FILTER_HELP, RUN_HELP
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.session import Session
from console.text.budget import budget_lines
from console.text.paint import show, terminal_width
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--budget",
        type=Path,
        required=True,
        metavar="FILE.toml",
        help=BUDGET_HELP,
    )
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the verdict: 0 kept, 1 violated. UserError for a budget that can't hold, before the run is read."""
    budget, only = read_budget(args.budget), parse_filter(args.filter)
    with Session(local(args.path)) as session:
        verdict = judge(session, budget, only)
    if args.json:
        write_json(sys.stdout, document(verdict))
    else:
        show(budget_lines(verdict, terminal_width()))
    return 0 if verdict.ok else 1
