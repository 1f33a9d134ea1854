"""Passes planned while the one before them runs: who comes or ends meanwhile makes a difference one pass later."""

from pathlib import Path

import numpy as np
import pytest

from engine.config import Config, KvConfig, SchedulerConfig, to_dict
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost, fixed_time
from engine.simulate.files import VirtualRun
from engine.simulate.jumped import jump_through
from engine.simulate.results import Results
from engine.simulate.setup import Setup
from engine.simulate.workload import Workload
from engine.whatif.fitting import fit_share
from engine.whatif.measures import measured
from engine.whatif.recorded import STAMPS as RECORDED
from engine.whatif.recorded import Recorded, read_recorded
from engine.whatif.rerun import Engine, rerun, rerun_at
from recorder.check import check
from recorder.producer import PartProducer
from recorder.run import ClockAnchor, RunInfo, create_run
from recorder.tables import open_tables
from recorder.words import Status
from tests.engine.runs import mixed_arrivals

MS = 1_000_000
CONFIG = Config(scheduler=SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=512))
STAMPS = ("queued", "planned", "first_scheduled", "first_token", "last_token")


def setup(slots: int, *, ahead: bool = True, blocks: int = 100) -> Setup:
    """Every step takes 100 ms, and nothing else takes any time."""
    return Setup(
        config=Config(scheduler=SchedulerConfig(max_num_seqs=slots), kv=KvConfig(watermark=0.0)),
        cost=fixed_time(100 * MS),
        num_blocks=blocks,
        max_model_len=400,
        delays=Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0),
        plans_ahead=ahead,
    )


def asked(*requests: tuple[int, int], prompt: int = 4) -> Workload:
    """Arrival in ms and output of each."""
    arrival, output = (np.array(column, np.int64) for column in zip(*requests, strict=True))
    return Workload(
        arrival=arrival * MS, prompt_tokens=np.full(len(output), prompt), max_tokens=output, output_tokens=output
    )


def ms(results: Results, request: int) -> list[float]:
    return [getattr(results, name)[request] / MS for name in STAMPS]


def test_an_idle_worker_plans_at_once() -> None:
    assert ms(jump_through(setup(4), asked((30, 2))), 0) == [30, 30, 30, 130, 230]


def test_who_comes_while_a_pass_runs_finds_the_next_one_planned() -> None:
    """It comes at 150, in the pass until 200; that until 300 is planned: it starts in the one after."""
    results = jump_through(setup(4), asked((0, 9), (150, 2)))
    assert ms(results, 1) == [200, 200, 300, 400, 500]
    step_by_step = jump_through(setup(4, ahead=False), asked((0, 9), (150, 2)))
    assert ms(step_by_step, 1)[2:] == [200, 300, 400]


@pytest.mark.parametrize("blocks", [100, 2])
def test_what_one_gives_back_serves_the_pass_after_the_next(blocks: int) -> None:
    """A slot, or blocks: the first ends at 200, when the pass until 300 is planned."""
    results = jump_through(setup(2 if blocks == 100 else 9, blocks=blocks), asked((0, 2), (0, 9), (10, 3)))
    assert ms(results, 0)[-1] == 200
    assert ms(results, 2)[1:] == [200, 300, 400, 600]


def test_where_nobody_is_left_the_next_starts_at_once() -> None:
    results = jump_through(setup(1), asked((0, 2), (10, 2)))
    assert ms(results, 1)[1:] == [200, 200, 300, 400]


def test_a_run_of_it_is_an_ordinary_run(tmp_path: Path) -> None:
    """Its rows are those of passes: a start is when the pass begins that computes it."""
    rng = np.random.default_rng(3)
    workload = asked(*[(int(t), int(rng.integers(1, 60))) for t in np.sort(rng.integers(0, 9000, 60))])
    made = setup(6, blocks=14)
    with VirtualRun(tmp_path / "run", made, {}) as files:
        results = jump_through(made, workload, files)
    assert results.column("preemptions").sum() > 0
    tables = open_tables(tmp_path / "run")
    assert [found for found in check(tables) if not found.ok] == []
    rows = tables.table("requests").sort_by("rid")
    assert rows["first_scheduled"].to_pylist() == list(results.first_scheduled)
    assert (results.column("planned") <= results.column("first_scheduled")).all()


def stamped(path: Path, *, ahead: bool) -> Recorded:
    """A recording that has stamps alone, and does not say how its engine planned."""
    arrivals = [arrival for arrival in mixed_arrivals(3, 80, rate_per_s=2, cancelled=0) if arrival.prompt_tokens < 300]
    cost = LinearCost(20_000_000_000, 800_000_000, 2_000_000, 300_000_000, 0)
    again = rerun_at(arrivals, Engine(CONFIG, 4000, 2048), cost, Delays(), plans_ahead=ahead)
    clock = ClockAnchor(mono_ns=0)
    info = RunInfo(run_id=path.name, clock=clock, config=to_dict(CONFIG), recorded_tables=["requests"])
    info.workload["source"] = {"plans_ahead": None}
    producer = PartProducer(create_run(path.parent, info), "import", ["requests"])
    for rid, arrival in enumerate(arrivals, 1):
        known = {name: int(getattr(again.stamps, name)[rid - 1]) for name in RECORDED}
        sizes = {"prompt_tokens": arrival.prompt_tokens, "output_tokens": int(again.stamps.output_tokens[rid - 1])}
        producer.row("requests", rid=rid, attempt=1, worker=0, status=Status.OK, **known, **sizes)
    producer.close()
    return read_recorded(open_tables(path))


@pytest.mark.parametrize("ahead", [True, False])
def test_stamps_alone_show_how_an_engine_planned(tmp_path: Path, ahead: bool) -> None:
    recorded = stamped(tmp_path / "run", ahead=ahead)
    fit = fit_share(recorded, Engine(CONFIG, 4000, 2048), recorded.answered)
    assert fit.source == "stamps"
    assert fit.plans_ahead == ahead
    again = rerun(recorded.arrivals, Engine(CONFIG, 4000, 2048), fit)
    for stage in ("queue", "prefill", "decode"):
        then, now = (np.nanmean(measured(stamps)[stage]) for stamps in (recorded.stamps, again.stamps))
        assert now == pytest.approx(then, rel=0.1, abs=3 * MS)
