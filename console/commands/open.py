"""`tailtrace open RUN [RUN...]`: the console on a terminal."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from console.commands import BUDGET_HELP, FILTER_HELP, RUN_HELP, slo_ns
from console.filter import Filter
from console.filter_language import parse_filter
from console.keymap import read_keymap
from console.leaving import exit_at_once
from console.screentable import NAMES
from console.seeking import HELP
from recorder.copies import local
from recorder.errors import UserError
from recorder.run import load_info

if TYPE_CHECKING:
    from console.app import Tailtrace
    from console.budget import Budget

_PATIENCE_S: Final = 1.0
_PORT: Final = 8008
_TIMELINE: Final = "timeline"
_LIVE: Final = ("ws://", "wss://")
_DRIVER: Final = "TEXTUAL_DRIVER"
"""Set where somebody else than a terminal shows the console."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help=f"{RUN_HELP}; two or more to compare")
    parser.add_argument("--screen", choices=NAMES, help="screen to begin with (default: compare for several runs)")
    parser.add_argument("--slo-ms", type=float, metavar="MS", help="end to end over this is slow (default: p95 and up)")
    parser.add_argument("--filter", metavar="TEXT", help=f"{FILTER_HELP}; default: as the run was left")
    places = HELP.replace("%", "%%")
    parser.add_argument("--at", metavar="PLACE", help=f"where the timeline begins, as `g` takes it: {places}")
    parser.add_argument("--budget", type=Path, metavar="FILE.toml", help=f"held against the runs: {BUDGET_HELP}")
    parser.add_argument("--web", action="store_true", help="in a browser on this machine instead of in the terminal")
    parser.add_argument("--port", type=int, default=_PORT, metavar="N", help="of --web (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Show the runs until the person leaves. What is wrong with a run is said before the screen is taken over."""
    slo_ns(args.slo_ms)
    only = None if args.filter is None else parse_filter(args.filter)
    budget = None if args.budget is None else _budget(args.budget)
    runs = [_folder(run) for run in args.runs]
    for path in runs:
        load_info(path)
    if args.web:
        return _in_browser(args, runs)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and _DRIVER not in os.environ:
        raise UserError("open needs a terminal; `tailtrace report RUN` prints the same numbers anywhere")
    app = build(runs, args.screen or (_TIMELINE if args.at else None), args.slo_ms, only, budget)
    app.wanted_at = args.at
    app.run()
    code = app.return_code or 0
    if not app.leave(_PATIENCE_S):
        exit_at_once(code)
    return code


def _folder(run: str) -> Path:
    """The run as a folder of this machine. What is served live is told by another command."""
    if run.startswith(_LIVE):
        raise UserError(f"{run} is a live tail and no run: `tailtrace tail {run}` shows it")
    return local(run)


def _budget(path: Path) -> "Budget":
    from console.budget import read_budget  # brings numpy and Arrow, which the first screen can do without

    return read_budget(path)


def _in_browser(args: argparse.Namespace, runs: Sequence[Path]) -> int:
    from console.web import serve  # needs textual-serve, which the terminal does not

    if not 1 <= args.port <= 65535:
        raise UserError(f"--port {args.port} is no port; ports go from 1 to 65535")
    given = {"--screen": args.screen, "--slo-ms": args.slo_ms, "--filter": args.filter, "--at": args.at}
    given["--budget"] = None if args.budget is None else args.budget.resolve()
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    return serve([*(run.resolve() for run in runs), *options], args.port)


def build(
    runs: list[Path],
    screen: str | None = None,
    slo_ms: float | None = None,
    only: Filter | None = None,
    budget: "Budget | None" = None,
) -> "Tailtrace":
    """The application, not yet on screen."""
    from console.app import Tailtrace
    from console.book import Book

    start = screen or ("compare" if len(runs) > 1 else "overview")
    return Tailtrace(
        [Book(path) for path in runs], start, slo_ns(slo_ms), only=only, budget=budget, keymap=read_keymap()
    )
