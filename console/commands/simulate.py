"""`tailtrace simulate`: serve a workload in virtual time, write the run, and print its report."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console.jsonout import write_json
from console.report import report
from console.session import Session
from console.text.paint import show, terminal_width
from console.text.report import report_lines
from engine.config import load_config
from engine.simulate.run import prepare, record_workload
from recorder.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--workload",
        required=True,
        metavar="FILE|SPEC",
        help="arrivals: a file (ours, Mooncake's or Azure's format, or a description in TOML), or a description such as"
        " poisson:rate=8,n=1000,prompt=lognormal(200,0.8),output=uniform(1,64)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="configuration; [cost] has step times")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="equal workers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of what a description draws (default: 0)")
    parser.add_argument(
        "--retry", type=int, default=0, metavar="N", help="clients that are turned away come again, up to N times"
    )
    parser.add_argument(
        "--retry-budget",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="retries of all clients together, as a share of the requests (default: %(default)s)",
    )
    parser.add_argument("--summary", action="store_true", help="keep requests alone, no steps: faster, and no causes")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--out", type=Path, metavar="RUN", help="folder of the new run; not needed with --summary")


def run(args: argparse.Namespace) -> int:
    """Simulate and report. Raises UserError for bad input, and leaves no run behind then."""
    if args.out is None and not args.summary:
        raise UserError("say where the run goes with --out RUN, or keep only its report with --summary")
    if not 1 <= args.workers <= 1024:
        raise UserError(f"--workers {args.workers}: give a number from 1 to 1024")
    if args.seed < 0:
        raise UserError(f"--seed {args.seed}: give a number from 0")
    if not (0 <= args.retry <= 100 and 0 <= args.retry_budget <= 1):
        raise UserError(
            f"--retry {args.retry} --retry-budget {args.retry_budget}: give 0 to 100, and a share from 0 to 1"
        )
    setup, workload = prepare(
        args.workload,
        load_config(args.config),
        workers=args.workers,
        seed=args.seed,
        retries=args.retry,
        retry_budget=args.retry_budget,
    )
    sys.stderr.write(f"{workload.about['loop']}: {len(workload):,} requests in virtual time\n")
    with _place(args.out) as folder:
        begun = time.perf_counter()
        record_workload(setup, workload, folder, seed=args.seed, summary=args.summary)
        took = time.perf_counter() - begun
        sys.stderr.write(f"simulated and written in {took:.2f} s, {len(workload) / took:,.0f} requests a second\n")
        with Session(folder) as session:
            made = report(session)
    if args.json:
        write_json(sys.stdout, made)
    else:
        show(report_lines(made, terminal_width()))
    return 0


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    """The folder asked for, or one that vanishes with the report."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="tailtrace-") as folder:
        yield Path(folder) / "simulated"
