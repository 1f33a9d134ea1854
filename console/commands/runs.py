"""`tailtrace runs [DIR] [--json]`: which runs there are."""

import argparse
import sys

from console.jsonout import write_json
from console.text.paint import show
from console.text.runs import instant_of_day, notes, runs_lines
from console.widgets.ink import clean
from recorder.catalogue import Catalogue, Entry, catalogue


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("dir", metavar="DIR", nargs="?", default="runs", help="folder or URL (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON; times in ns, sizes in bytes")


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first. What is no run is named on stderr."""
    found = catalogue(args.dir)
    if args.json:
        write_json(sys.stdout, document(found))
    elif found.runs:
        show(runs_lines(found.runs))
    for note in notes(found):
        sys.stderr.write(f"tailtrace: {clean(note)}\n")
    if not found.runs:
        sys.stderr.write(f"tailtrace: no runs in {found.where}\n")
    return 0


def document(found: Catalogue) -> dict[str, object]:
    """The catalogue for other programs."""
    return {
        "where": found.where,
        "runs": [_run(one) for one in found.runs],
        "skipped": [{"name": one.name, "why": one.why} for one in found.skipped],
    }


def _run(run: Entry) -> dict[str, object]:
    return {
        "run": run.name,
        "where": run.where,
        "state": run.state,
        "created": f"{instant_of_day(run.created_ns).replace(' ', 'T')}Z",
        "size_bytes": run.size_bytes,
        "duration_ns": run.duration_ns,
        "requests": dict(run.requests),
        "drops": run.drops,
        "damages": list(run.damages),
    }
