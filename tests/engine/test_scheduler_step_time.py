"""The step-time model: it finds a linear law, says nothing before it can, and is not thrown by a stall."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Slice, StepPlan
from engine.scheduling.step_time import Prediction, StepTimeModel
from engine.simulate.cost import LinearCost
from recorder.words import Role


def decode(context: int) -> Slice:
    return Slice(1, Role.DECODE, 1, context, ())


def prefill(tokens: int, before: int = 0) -> Slice:
    return Slice(2, Role.PREFILL, tokens, before, ())


def random_plan(choose: random.Random) -> StepPlan:
    decodes = [decode(choose.randint(1, 800)) for _ in range(choose.randint(0, 15))]
    prefills = [prefill(choose.randint(1, 256), choose.randint(0, 512)) for _ in range(choose.choice([0, 0, 1, 2]))]
    return StepPlan(tuple([*decodes, *prefills] or [decode(5)]))


def trained(steps: int, seed: int = 0, noise: float = 0.0, stall_every: int = 0) -> StepTimeModel:
    model, choose, cost = StepTimeModel(), random.Random(seed), LinearCost()
    for number in range(steps):
        plan = random_plan(choose)
        took = cost(plan) * choose.uniform(1 - noise, 1 + noise)
        if stall_every and number % stall_every == stall_every - 1:
            took += 1e9
        model.observe(plan, round(took))
    return model


def error(model: StepTimeModel, plan: StepPlan) -> float:
    predicted = model.predict(plan).predicted_ns
    assert predicted is not None
    return abs(predicted / LinearCost()(plan) - 1)


def test_it_says_nothing_before_it_has_seen_enough() -> None:
    plan = StepPlan((decode(5), prefill(10)))
    assert StepTimeModel().predict(plan) == Prediction(None, None)
    model = StepTimeModel()
    for _ in range(9):
        model.observe(StepPlan((decode(5),)), 30_000_000)
    assert model.predict(plan).predicted_ns is None
    assert model.predict(plan).decode_only_ns is not None, "pure decodes alone teach this one"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_it_finds_a_linear_law(seed: int) -> None:
    model, choose = trained(80, seed), random.Random(seed + 1)
    for _ in range(20):
        assert error(model, random_plan(choose)) < 0.01


def test_a_mixed_step_without_its_prefills_costs_what_its_decodes_cost() -> None:
    model = trained(200)
    decodes = (decode(100), decode(300))
    with_prefill = model.predict(StepPlan((*decodes, prefill(200)))).decode_only_ns
    assert with_prefill is not None
    assert abs(with_prefill / LinearCost()(StepPlan(decodes)) - 1) < 0.01


def test_a_step_without_decodes_has_no_decode_part() -> None:
    assert trained(200).predict(StepPlan((prefill(50),))).decode_only_ns is None


def test_noise_and_stalls_of_the_host_shift_it_little() -> None:
    model, choose = trained(600, noise=0.05, stall_every=100), random.Random(9)
    errors = [error(model, random_plan(choose)) for _ in range(50)]
    assert sum(errors) / len(errors) < 0.1


def test_it_follows_a_device_that_slows_down() -> None:
    model, plan = trained(300), StepPlan(tuple(decode(100) for _ in range(8)))
    for _ in range(600):
        model.observe(plan, 2 * LinearCost()(plan))
    predicted = model.predict(plan).predicted_ns
    assert predicted is not None
    assert abs(predicted / (2 * LinearCost()(plan)) - 1) < 0.02


def test_the_same_step_over_and_over_stays_stable() -> None:
    model, plan = StepTimeModel(), StepPlan((decode(50),))
    for _ in range(20_000):
        model.observe(plan, 30_000_000)
    predicted = model.predict(plan).predicted_ns
    assert predicted is not None
    assert abs(predicted - 30_000_000) < 1_000
    other = StepPlan((decode(50), prefill(100)))
    assert model.predict(other).predicted_ns is None, "nothing like it was ever seen"
    for _ in range(30):
        model.observe(other, 170_000_000)
        model.observe(plan, 30_000_000)
    relearnt = model.predict(other).predicted_ns
    assert relearnt is not None
    assert abs(relearnt - 170_000_000) < 2_000_000
