"""`tailtrace sweep`: the same traffic at several levels of one variable, and where the knee is (SPEC D2, D3, D7)."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from console.decimals import exact
from console.figures import Figures
from console.guards import NAMES, parse_guards
from console.jsonout import write_json
from console.slo import LIMITED, Slo, read_slo, slo_of
from console.sweep.answer import Question, Sweep, answer, document
from console.sweep.level import Task, faster
from console.sweep.plan import LOAD, MOST_WORKERS, Plan, SweepError, make_plan
from console.sweep.running import default_jobs, run_all
from console.text.paint import colour_of, is_dark, show, terminal_width
from console.text.sweep import curve_lines, sweep_lines
from engine.config import load_config
from engine.simulate.run import prepare
from engine.simulate.setup import Setup

_MOST_JOBS = 256


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--workload", required=True, metavar="FILE|SPEC", help="arrivals, as tailtrace simulate has it")
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="configuration; [cost] has step times")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="KEY=V,V", help="a key of the configuration, or workers"
    )
    parser.add_argument(
        "--load", action="append", default=[], metavar="X,X", help="the same requests, their arrivals X times as fast"
    )
    for name in LIMITED:
        parser.add_argument(f"--slo-{name}-ms", metavar="MS", help=f"limit of {name.upper()}")
    parser.add_argument("--slo-share", metavar="SHARE", help="share of the requests that must be inside (0.99)")
    parser.add_argument("--slo", type=Path, metavar="FILE.toml", help="the limits as a file: its section [slo]")
    parser.add_argument(
        "--guard",
        action="extend",
        nargs="+",
        default=[],
        metavar="RAIL",
        help=f"exit with 1 if a level breaks it, as in 'p99_e2e_ms<2000'; of {', '.join(NAMES)}",
    )
    parser.add_argument("--cost-per-hour", metavar="PRICE", help="of one worker's device; without: device-seconds")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="equal workers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of what a description draws (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="levels at once (default: as many as there are cores)")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep each level as an ordinary run in this folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Sweep and tell. 1 where a guard rail breaks; UserError for bad input, before any level runs."""
    _refuse_nonsense(args)
    plan = make_plan(load_config(args.config), args.vary, args.load, args.workers)
    slo, guards = _slo(args), parse_guards(args.guard)
    hourly = None if args.cost_per_hour is None else exact(args.cost_per_hour, "--cost-per-hour")
    about = _check_levels(plan, args.workload, args.seed)
    outs = _outs(plan, args.runs)
    tasks = [Task(args.workload, args.seed, level, slo, out) for level, out in zip(plan.levels, outs, strict=True)]
    figures = _run(plan, tasks, args.jobs)
    swept = answer(Question(plan, slo, guards, hourly, about), figures)
    if args.json:
        write_json(sys.stdout, document(swept, [None if out is None else str(out) for out in outs]))
    else:
        _show(swept)
    for level, guard in swept.failures:
        sys.stderr.write(f"tailtrace: guard rail broken at {plan.variable}={level.label}: {guard.text}\n")
    return 1 if swept.failures else 0


def _refuse_nonsense(args: argparse.Namespace) -> None:
    if not 1 <= args.workers <= MOST_WORKERS:
        raise SweepError(f"--workers {args.workers}: give a number from 1 to {MOST_WORKERS}")
    if args.seed < 0:
        raise SweepError(f"--seed {args.seed}: give a number from 0")
    if args.jobs is not None and not 1 <= args.jobs <= _MOST_JOBS:
        raise SweepError(f"--jobs {args.jobs}: give a number from 1 to {_MOST_JOBS}")


def _slo(args: argparse.Namespace) -> Slo:
    """The SLO of the file or of the options; one without limits where there is none."""
    given = {f"{name}_ms": getattr(args, f"slo_{name}_ms") for name in LIMITED}
    given = {name: value for name, value in given.items() if value is not None}
    if args.slo_share is not None:
        given["share"] = args.slo_share
    if args.slo is not None:
        if given:
            raise SweepError("--slo has all limits in its file: leave --slo-... out, or the file")
        return read_slo(args.slo)
    slo = slo_of(given, "--slo")
    if given and not slo:
        raise SweepError("--slo-share needs a limit to be kept: give --slo-ttft-ms, --slo-tpot-ms or --slo-e2e-ms")
    return slo


def _check_levels(plan: Plan, source: str, seed: int) -> dict[str, object]:
    """Read the workload once, and refuse what would fail in a level; returns the workload's account of itself."""
    first = plan.levels[0]
    _, workload = prepare(source, first.config, workers=first.workers, seed=seed)
    if plan.variable == LOAD and workload.closed:
        raise SweepError("--load: in a closed loop answers decide when requests come; sweep an open one, or use --vary")
    faster(workload, min(level.load for level in plan.levels))
    for level in plan.levels:
        Setup.of(level.config, workload.longest, level.workers)
    sys.stderr.write(
        f"{workload.about['loop']}: {len(workload):,} requests at {len(plan.levels)} levels of {plan.variable}\n"
    )
    return dict(workload.about)


def _outs(plan: Plan, folder: Path | None) -> list[Path | None]:
    """Where the levels' runs are kept. Raises SweepError if one is there already."""
    if folder is None:
        return [None] * len(plan.levels)
    names = [re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{plan.variable}-{level.label}") for level in plan.levels]
    outs = [folder / (name if names.count(name) == 1 else f"{place}-{name}") for place, name in enumerate(names, 1)]
    for out in outs:
        if out.exists():
            raise SweepError(f"--runs {folder}: {out.name} exists already; choose another folder, or delete it")
    return list(outs)


def _run(plan: Plan, tasks: Sequence[Task], jobs: int | None) -> list[Figures]:
    def progress(task: Task, found: Figures, done: int) -> None:
        said = f"[{done}/{len(tasks)}] {plan.variable}={task.level.label}: {found.total:,} requests"
        sys.stderr.write(f"{said} in {found.took_s:.2f} s\n")
        sys.stderr.flush()

    return run_all(tasks, min(jobs or default_jobs(len(tasks)), len(tasks)), progress)


def _show(swept: Sweep) -> None:
    show(sweep_lines(swept, terminal_width()))
    if sys.stdout.isatty():
        lines = curve_lines(swept, terminal_width(), colour=colour_of(sys.stdout), dark=is_dark())
        sys.stdout.write("".join(f"{line}\n" for line in ["", *lines]))
