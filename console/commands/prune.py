"""`tailtrace prune DIR --keep-days N --max-size 10GB`: delete old runs, the oldest first."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from console.text.report import counted
from console.text.runs import instant_of_day, notes
from console.text.sizes import parse_size, size
from console.widgets.ink import clean
from recorder.catalogue import Catalogue, catalogue
from recorder.errors import UserError
from recorder.retention import Going, Policy, decide, may_be_in_use, remove, sweep
from recorder.storage import is_url

_DAY_NS: Final = 24 * 3600 * 10**9
_REASONS: Final = {"age": "too old", "size": "to make room"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("dir", metavar="DIR", help="folder of runs")
    parser.add_argument("--keep-days", type=_days, metavar="N", help="runs whose last record is older than this go")
    parser.add_argument(
        "--max-size", type=_size, metavar="SIZE", help="oldest runs go until all fit: 500MB, 10GB, 1TiB"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Delete, and say what and how much. 1 where something could not be deleted. Runs in use always stay."""
    if args.keep_days is None and args.max_size is None:
        raise UserError("nothing says what to delete: give --keep-days, --max-size or both")
    if is_url(args.dir):
        raise UserError(f"{args.dir} is not on this machine: prune deletes folders of this machine only")
    found, now = catalogue(args.dir), time.time_ns()
    going = decide(found.runs, now, Policy(args.keep_days, args.max_size))
    for note in notes(found):
        _say(f"{note}: it stays")
    if args.dry_run:
        _list(going, "would delete")
        _sum_up("would free", going, found)
        return 0
    _confirm(going, args)
    return _delete(going, found, Path(args.dir))


def _days(text: str) -> int:
    """Days as ns."""
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 < days < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days above 0")
    return round(days * _DAY_NS)


def _size(text: str) -> int:
    try:
        wanted = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not wanted:
        raise argparse.ArgumentTypeError("0 bytes would delete every run: delete the folder instead")
    return wanted


def _confirm(going: Sequence[Going], args: argparse.Namespace) -> None:
    if args.yes or not going:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{counted(len(going), 'run')} would go: say --yes to delete, --dry-run to see which")
    _list(going, "would delete")
    sys.stdout.flush()
    sys.stderr.write(f"Delete {counted(len(going), 'run')}, {size(_bytes(going))}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UserError("nothing is deleted")


def _delete(going: Sequence[Going], found: Catalogue, folder: Path) -> int:
    """One run that resists must not save the others."""
    gone = []
    for one in going:
        try:
            remove(Path(one.run.where))
        except UserError as error:
            _say(str(error))
        except OSError as error:
            _say(f"{one.run.where} can't be deleted: {error.strerror}")
        else:
            gone.append(one)
            _list([one], "deleted")
    _sum_up("freed", gone, found)
    return 0 if len(gone) == len(going) and _swept(folder) else 1


def _swept(folder: Path) -> bool:
    try:
        sweep(folder)
    except OSError as error:
        _say(f"the remnant {error.filename} of an earlier prune can't be deleted: {error.strerror}")
        return False
    return True


def _list(going: Sequence[Going], verb: str) -> None:
    for one in going:
        ended, bytes_ = instant_of_day(one.run.ended_ns), size(one.run.size_bytes)
        sys.stdout.write(f"{verb} {clean(one.run.name)}: {bytes_}, ended {ended}, {_REASONS[one.reason]}\n")


def _sum_up(verb: str, gone: Sequence[Going], found: Catalogue) -> None:
    left = [run for run in found.runs if run not in [one.run for one in gone]]
    in_use = sum(may_be_in_use(run, time.time_ns()) for run in left)
    stays = (
        f"{counted(len(left), 'run')} stay{'s' if len(left) == 1 else ''}, {size(sum(run.size_bytes for run in left))}"
    )
    busy = f", {in_use} in use" if in_use else ""
    sys.stdout.write(f"{verb} {size(_bytes(gone))} of {counted(len(gone), 'run')}; {stays}{busy}\n")


def _bytes(going: Sequence[Going]) -> int:
    return sum(one.run.size_bytes for one in going)


def _say(text: str) -> None:
    sys.stderr.write(f"tailtrace: {clean(text)}\n")
