"""`tailtrace check RUN [--json]`: does the run's ledger add up?"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from console.commands import RUN_HELP
from console.jsonout import write_json
from console.text.paint import show
from console.widgets.ink import Line, clean
from recorder.check import Check, check
from recorder.copies import local
from recorder.run import load_info
from recorder.tables import open_pinned, open_tables


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(args: argparse.Namespace) -> int:
    """Print every check, and of one that fails the rows that break it. 1 where one fails."""
    run_id, checks = _checked(local(args.path))
    if args.json:
        write_json(sys.stdout, document(run_id, checks))
    else:
        show(check_lines(run_id, checks))
    return 0 if all(found.ok for found in checks) else 1


def _checked(run: Path) -> tuple[str, list[Check]]:
    """The run's id, and its checks; parts of one that is recorded are held, as they are read for long."""
    with TemporaryDirectory(prefix="tailtrace-check-") as folder:
        is_recorded = load_info(run).state != "sealed"
        tables = open_pinned(run, Path(folder)) if is_recorded else open_tables(run)
        return tables.info.run_id, check(tables)


def document(run_id: str, checks: Sequence[Check]) -> dict[str, object]:
    """The checks for other programs."""
    told = [{"name": found.name, "ok": found.ok, "detail": found.detail} for found in checks]
    return {"run": run_id, "ok": all(found.ok for found in checks), "checks": told}


def check_lines(run_id: str, checks: Sequence[Check]) -> Iterator[Line]:
    """A verdict, then one line a check, and under one that fails its first offending rows."""
    failed = sum(not found.ok for found in checks)
    verdict = f"{failed} of {len(checks)} checks fail" if failed else f"all {len(checks)} checks hold"
    yield [(run_id, "strong"), (f": {verdict}", "bad" if failed else "text")]
    yield []
    width = max(len(found.name) for found in checks)
    for found in checks:
        yield [_mark(found.ok), (f"  {found.name.ljust(width)}  ", "text"), (found.detail, "muted")]
        yield from ([(f"        {_row(row)}", "muted")] for row in found.rows)


def _mark(ok: bool) -> tuple[str, str]:
    return ("✓ ok  ", "good") if ok else ("✗ FAIL", "bad")


def _row(row: dict[str, object]) -> str:
    return clean("  ".join(f"{name}={value}" for name, value in row.items()))
