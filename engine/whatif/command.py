"""`tailtrace whatif RUN`: re-run a recording as it was and as it might be, or check how well it can be predicted."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from engine.whatif.answer import Question, answer, open_command
from engine.whatif.changes import parse_changes
from engine.whatif.recorded import WhatIfError, read_recorded
from engine.whatif.self_check import self_check
from engine.whatif.text import answer_lines, check_lines
from engine.whatif.trust import LIMIT
from recorder.copies import local
from recorder.tables import open_tables


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("path", metavar="RUN", help="folder or URL of the recorded run")
    parser.add_argument(
        "--set",
        dest="changes",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="a key of the configuration and its other value; tailtrace config --explain lists the keys",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="another number of workers")
    parser.add_argument("--out", type=Path, metavar="RUN2", help="folder of the new run; the re-run goes to RUN2-rerun")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SHARE", help="error beyond which an answer is marked (0.1)"
    )
    parser.add_argument(
        "--recorded-steps",
        action="store_true",
        help="take each step's recorded time for as long as the plans are the recorded ones, and say until when",
    )
    parser.add_argument(
        "--self-check", action="store_true", help="learn from the first requests and predict the others; writes no run"
    )
    parser.add_argument(
        "--train-share", type=float, default=0.5, metavar="SHARE", help="share that --self-check learns from (0.5)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the answer. UserErrors for runs, keys and values that can't be used; then no run is left."""
    _refuse_nonsense(args)
    recorded = read_recorded(open_tables(local(args.path)))
    if args.self_check:
        found = self_check(recorded, args.train_share)
        _print(args.json, found.document(), check_lines(found))
        return 0
    question = Question(parse_changes(args.changes), args.workers, args.out, args.limit, args.recorded_steps)
    told = answer(recorded, question)
    shown_by = open_command(recorded, question)
    runs = {"run": str(recorded.tables.path), "rerun": str(question.rerun_out), "out": str(question.out)}
    _print(args.json, {**runs, **told.document()}, answer_lines(told, shown_by))
    return 0


def _refuse_nonsense(args: argparse.Namespace) -> None:
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise WhatIfError(f"--workers {args.workers}: give a whole number from 1 to 1024")
    if not 0 < args.train_share < 1:
        raise WhatIfError(f"--train-share {args.train_share:g}: give a share between 0 and 1")
    if not args.limit > 0:
        raise WhatIfError(f"--limit {args.limit:g}: give a share above 0, such as 0.1")
    if args.self_check and (args.changes or args.out or args.workers):
        raise WhatIfError("--self-check predicts the recorded configuration: leave --set, --workers and --out out")
    if not args.self_check and not args.out:
        raise WhatIfError("say where the new run goes: --out RUN2 (or --self-check, which writes none)")


def _print(as_json: bool, document: object, lines: Iterable[str]) -> None:
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(lines) + "\n")
