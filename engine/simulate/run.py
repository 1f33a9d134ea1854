"""The way in: a workload and a configuration become results, or an ordinary run."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.config import Config, ConfigError
from engine.load.retry import Retrying
from engine.simulate.covered import covers
from engine.simulate.drive import Source
from engine.simulate.files import VirtualRun
from engine.simulate.formats import read
from engine.simulate.front import SUMMARY_TABLES, Arrival
from engine.simulate.jumped import jump_through
from engine.simulate.results import Results
from engine.simulate.rows import request_columns
from engine.simulate.setup import Setup
from engine.simulate.sources import ClosedLoop, OpenLoop
from engine.simulate.stepped import step_through
from engine.simulate.workload import Workload


def prepare(
    source: str, config: Config, *, workers: int = 1, seed: int = 0, retries: int = 0, retry_budget: float = 0.0
) -> tuple[Setup, Workload]:
    """The workload that `source` names or describes, and the fleet to serve it. Raises a UserError for bad input.

    Clients that are turned away come again up to `retries` times, all together for a share of the requests.
    """
    if config.record.keep != "all":
        raise ConfigError(
            f'[record] keep = "{config.record.keep}" is for servers: a simulated run is kept whole, or with --summary'
            " without steps; leave the key away"
        )
    workload = read(source, seed)
    room = [config.engine.max_model_len, config.kv.num_blocks * config.kv.block_size + 1]
    limits = [limit for limit in room if limit > 1]
    if limits:
        workload = workload.fitted(min(limits))
    return replace(Setup.of(config, workload.longest, workers), retrying=Retrying(retries, retry_budget)), workload


def simulate_workload(setup: Setup, workload: Workload) -> Results:
    """Serve it in virtual time: in jumps where they decide as the scheduler would, pass by pass elsewhere.

    Of clients that come again there are more results than requests: `record_workload` writes those.
    """
    if _jumps(setup, workload):
        return jump_through(setup, workload)
    return Results.of(workload, setup, step_through(setup, _source(workload)))


def record_workload(setup: Setup, workload: Workload, run: Path, *, seed: int = 0, summary: bool = False) -> None:
    """The same, written into the new folder `run`; with `summary`, requests alone. RunError where it can't be."""
    about = {**workload.about, "by": "jumps" if _jumps(setup, workload) else "passes"}
    if setup.retrying.limit:
        about |= {"retries": setup.retrying.limit, "retry_budget": setup.retrying.budget_share}
    with VirtualRun(run, setup, about, seed) as files:
        if not _jumps(setup, workload):
            step_through(setup, _source(workload), files, summary=summary)
        elif summary:
            _write_summary(setup, jump_through(setup, workload), files)
        else:
            jump_through(setup, workload, files)


def _jumps(setup: Setup, workload: Workload) -> bool:
    """Whether jumps decide as the scheduler would; they know nothing of deadlines."""
    return covers(setup) and not workload.has_deadlines


def _source(workload: Workload) -> Source[Arrival]:
    return (ClosedLoop if workload.closed else OpenLoop)(workload, workload.request)


def _write_summary(setup: Setup, results: Results, files: VirtualRun) -> None:
    columns = request_columns(results, np.arange(len(results)), setup.delays)
    files.front(SUMMARY_TABLES).extend("requests", columns, len(results))
