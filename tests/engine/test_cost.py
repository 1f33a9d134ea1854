"""Cost models: what is fitted comes out again, wild observations do not matter, and what can't be learnt is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calls import Attention
from engine.config import Config, KvConfig, SchedulerConfig
from engine.core import Slice, StepPlan
from engine.cost.model import CostError, CostFit, coefficients
from engine.cost.solve import Array, non_negative, robust
from engine.cost.stamps import fit_stamps
from engine.cost.steps import Steps, fit_steps, matches, read_steps
from engine.simulate.clock import Delays
from engine.simulate.cost import LinearCost, TwoRegimes
from engine.simulate.stepped import simulate
from engine.whatif.recorded import read_recorded
from engine.whatif.rerun import Engine, rerun_at
from recorder.tables import open_tables
from recorder.words import Role
from tests.engine.runs import mixed_arrivals

KNOWN = LinearCost(17_000_000_000, 900_000_000, 3_000_000, 1_100_000_000, 250_000)
DELAYS = Delays(ingress_ns=123_000, plan_ns=90_000, commit_ns=210_000, link_ns=70_000, write_ns=9_000)
CONFIG = Config(scheduler=SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=128), kv=KvConfig(num_blocks=120))


def recorded_run(path: Path, n: int = 60, blocks: int = 120, cancelled: float = 0.05) -> Path:
    arrivals = mixed_arrivals(3, n, cancelled=cancelled)
    simulate(CONFIG, arrivals, KNOWN, num_blocks=blocks, max_model_len=2048, delays=DELAYS, run=path)
    return path


def columns(rng: np.random.Generator, n: int) -> Array:
    return np.column_stack([np.ones(n), *(rng.uniform(0, top, n) for top in (8, 4000, 200, 40_000))])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.floats(0, 1e6), min_size=5, max_size=5))
def test_coefficients_come_out_again_and_none_is_negative(seed: int, truth: list[float]) -> None:
    some = columns(np.random.default_rng(seed), 60)
    found = non_negative(some, some @ np.array(truth))
    assert (found >= 0).all()
    assert some @ found == pytest.approx(some @ np.array(truth), rel=1e-6, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_non_negative_solution_is_closer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some, target = rng.normal(size=(12, 3)), rng.normal(size=12)
    found = non_negative(some, target)
    least = np.linalg.norm(some @ found - target)
    for other in (found + rng.uniform(-0.1, 0.1, (200, 3))).clip(0):
        assert np.linalg.norm(some @ other - target) >= least - 1e-9


def test_stalls_bend_nothing_and_count_for_no_more_than_a_step() -> None:
    rng = np.random.default_rng(1)
    some = columns(rng, 400)
    truth = np.array([20e6, 1e6, 2e3, 1e6, 300.0])
    target = some @ truth * rng.uniform(0.98, 1.02, 400)
    target[::40] += 400e6
    found = robust(some, target)
    assert (some @ found).sum() == pytest.approx(np.minimum(target, 2 * some @ truth).sum(), rel=0.01)
    stretched = (some @ found) / (some @ truth)
    assert stretched.max() / stretched.min() < 1.05


def test_a_runs_own_steps_give_the_cost_it_was_made_with(tmp_path: Path) -> None:
    steps = read_steps(open_tables(recorded_run(tmp_path / "r")))
    assert matches(steps, KNOWN)
    assert not matches(steps, replace(KNOWN, step=KNOWN.step + 2_000))
    fit = fit_steps(steps, DELAYS)
    assert fit.decode == fit.mixed
    assert coefficients(fit.decode) == pytest.approx(coefficients(KNOWN), rel=1e-4)
    assert (fit.delays.plan_ns, fit.delays.commit_ns) == (90_000, 210_000)
    assert fit.held_out["step_p95"] < 1e-5
    assert fit.device_share == 1.0


def made_steps(decode: Array, mixed: Array, sizes: Array | None = None, call: float = 0.0) -> Steps:
    """Every other one of decodes alone; calls of attention come and go with neither size nor context."""
    rng = np.random.default_rng(7)
    some = columns(rng, 600)
    some[:, 1] = rng.integers(1, 9, 600)
    some[::2, 3:] = 0
    is_mixed, calls = some[:, 3] > 0, rng.integers(1, 5, 600).astype(float)
    time = np.where(is_mixed, some @ mixed, some @ decode) + call * calls
    if sizes is not None:
        time += np.where(is_mixed, 0, sizes[some[:, 1].astype(int) - 1])
    plan, commit = np.full(600, 1e5), np.full(600, 2e5)
    return Steps(some, time, plan, commit, time * 0.9, np.cumsum(time), calls * (call > 0), Attention(16, 8, 64))


ONE = np.array([20e6, 1e6, 2e3, 1e6, 300.0])
OTHER = np.array([35e6, 0.5e6, 1e3, 2e6, 100.0])


def test_two_regimes_are_told_apart_only_where_there_are_two() -> None:
    fit = fit_steps(made_steps(ONE, OTHER), DELAYS)
    assert isinstance(fit.cost, TwoRegimes)
    assert not fit.shape
    assert coefficients(fit.mixed) == pytest.approx(OTHER, rel=1e-3)
    assert coefficients(fit.decode)[:3] == pytest.approx(ONE[:3], rel=1e-3)
    assert isinstance(fit_steps(made_steps(ONE, ONE), DELAYS).cost, LinearCost)
    assert fit.device_share == pytest.approx(0.9)


def test_sizes_that_suit_kernels_and_calls_of_attention_are_learnt() -> None:
    sizes = np.array([-2e6, 4e6, -3e6, -3e6, 1e6, 0, 2e6, -1e6])
    steps = made_steps(ONE, OTHER, sizes, call=2.5e6)
    fit = fit_steps(steps, DELAYS)
    assert fit.shape.call == pytest.approx(2.5e9, rel=0.01)
    assert coefficients(fit.mixed) == pytest.approx(OTHER, rel=0.01)
    each = [fit.decode.step + n * fit.decode.decode + fit.shape.of_size(n) for n in range(1, 9)]
    assert np.array(each) / 1e3 == pytest.approx(ONE[0] + np.arange(1, 9) * ONE[1] + sizes, rel=0.02)
    assert fit.held_out["step_p95"] < 0.03


def test_calls_of_attention_are_those_of_the_model() -> None:
    """Groups of like contexts, and tiles of prompts; of engines that are not this one nothing is known."""
    attention = Attention.on("cpu", 16)
    assert attention is not None
    assert attention.calls([(1, 15), (1, 16), (1, 79)]) == 1, "7 blocks wasted"
    assert attention.calls([(1, 15), (1, 16), (1, 160)]) == 2
    assert attention.calls([(1, 15), (64, 0), (65, 9), (2, 3)]) == 1 + 1 + 2 + 1
    assert attention.calls([]) == 0
    assert Attention.on("NVIDIA GeForce RTX 4090", 16) is None


def test_two_regimes_charge_by_whether_there_is_a_prompt() -> None:
    cost = TwoRegimes(LinearCost(1_000_000, 0, 0, 0, 0), LinearCost(5_000_000, 0, 0, 0, 0))
    decode, prompt = Slice(1, Role.DECODE, 1, 9, ()), Slice(2, Role.PREFILL, 9, 0, ())
    assert cost(StepPlan((decode,))) == 1000
    assert cost(StepPlan((decode, prompt))) == 5000


def test_a_fit_survives_being_stored() -> None:
    fit = fit_steps(made_steps(ONE, OTHER, np.linspace(0, 7e6, 8), call=2e6), DELAYS)
    assert fit.shape
    assert CostFit.from_dict(fit.to_dict()) == fit
    with pytest.raises(CostError, match="can't be read"):
        CostFit.from_dict({"source": "steps"})


def test_too_little_is_refused(tmp_path: Path) -> None:
    steps = read_steps(open_tables(recorded_run(tmp_path / "r")))
    with pytest.raises(CostError, match="5 executed steps are too few"):
        fit_steps(steps.part(slice(5)), DELAYS)
    recorded = read_recorded(open_tables(tmp_path / "r"))
    with pytest.raises(CostError, match="3 answered requests are too few"):
        fit_stamps(recorded.stamps, np.arange(len(recorded.stamps)) < 3, lambda cost: recorded.stamps)


@pytest.mark.parametrize(("blocks", "within"), [(2000, 0.02), (120, 0.03)], ids=["roomy", "KV pressure"])
def test_stamps_alone_give_a_cost_that_gives_the_stamps(tmp_path: Path, blocks: int, within: float) -> None:
    """Nothing of the steps is looked at; the second half of the requests is predicted."""
    recorded = read_recorded(open_tables(recorded_run(tmp_path / "r", 120, blocks, cancelled=0)))
    engine = Engine(CONFIG, blocks, 2048)
    half = recorded.answered & (np.arange(len(recorded.stamps)) < 60)
    cost = fit_stamps(recorded.stamps, half, lambda cost: rerun_at(recorded.arrivals, engine, cost, DELAYS).stamps)

    def miss(cost: LinearCost) -> float:
        got = rerun_at(recorded.arrivals, engine, cost, DELAYS).stamps
        rest = recorded.answered & ~half
        then = (recorded.stamps.last_token - recorded.stamps.arrival)[rest].mean()
        return float(abs((got.last_token - got.arrival)[rest].mean() / then - 1))

    assert miss(cost) < within
    assert miss(KNOWN) == 0
