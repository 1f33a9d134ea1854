"""`tailtrace import FILE --out RUN`: a recording of another engine becomes an ordinary run."""

import argparse
import sys
from pathlib import Path

from recorder.importing.importer import import_file


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a vLLM benchmark's requests.jsonl; its meta.json is read from the same folder",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder of the new run")


def run(args: argparse.Namespace) -> int:
    """Import, say what a reader of the run must know on stderr, and print the run's folder."""
    recording = import_file(args.file, args.out)
    for note in recording.notes:
        sys.stderr.write(f"note: {note}\n")
    sys.stderr.write(f"{len(recording.requests)} requests imported\n")
    sys.stdout.write(f"{args.out}\n")
    return 0
