"""`tailtrace explain RUN [--json] [--what-if]`: what makes the tail, ranked, and where to see it."""

import argparse
import sys
from pathlib import Path

from console.blame.cohorts import SLOW_HELP, parse_slow
from console.commands import FILTER_HELP, RUN_HELP
from console.explain.answer import document, explain
from console.explain.ranking import Account
from console.explain.rerun import Rerun, best_first
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.session import Session
from console.text.explain import explain_lines
from console.text.paint import show, terminal_width
from recorder.copies import local


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument(
        "--slow", metavar="TEXT", help=f"which requests are slow: {SLOW_HELP} (default: p99; p95 of less than 1,000)"
    )
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="re-run the recording with the settings that are suggested first, and say how far that can be trusted",
    )
    parser.add_argument("--json", action="store_true", help="print the account as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the account. UserError for a filter or a --slow that can't be, and for a re-run that can't be made."""
    only = parse_filter(args.filter)
    slow = None if args.slow is None else parse_slow(args.slow)
    folder = local(args.path)
    with Session(folder) as session:
        found = explain(session, only, slow)
    reruns = _tried(folder, found) if args.what_if else ()
    if args.json:
        write_json(sys.stdout, {**document(found, args.path), "what_if": [rerun.document() for rerun in reruns]})
    else:
        show(explain_lines(found, args.path, terminal_width(), reruns))
    return 0


def _tried(run: Path, found: Account) -> tuple[Rerun, ...]:
    """The settings that are suggested first, the best of them first."""
    from console.explain.whatif import try_changes  # the engine, for whoever asks what if

    reruns = try_changes(run, found.prominent, lambda change: _say(f"re-running with {change} in virtual time"))
    if not reruns:
        _say("no setting of the engine is suggested, so there is nothing to re-run")
    return best_first(reruns)


def _say(text: str) -> None:
    sys.stderr.write(f"tailtrace: {text}\n")
    sys.stderr.flush()
