"""The pure parts of a sweep: what is varied, the knee, the reference line, and arrivals made faster."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.decimals import NumberError
from console.sweep import reference
from console.sweep.knee import LEAST_GAIN, Knee, Point, find_knee, saturated
from console.sweep.level import faster
from console.sweep.plan import SweepError, make_plan
from engine.config import Config, ConfigError, from_dict
from engine.simulate.formats import read

CONFIG = Config()
SPEC = "poisson:rate=40,n=200,prompt=uniform(5,90),output=uniform(1,40),tiers=chat+batch"


# -- plan --------------------------------------------------------------------------------------------------------------


def test_a_key_takes_its_levels_in_the_order_given_and_nothing_else_changes() -> None:
    """SPEC D7."""
    plan = make_plan(CONFIG, ["max_num_batched_tokens=512, 128,256"], [], workers=3)
    assert plan.variable == "scheduler.max_num_batched_tokens"
    assert [level.config.scheduler.max_num_batched_tokens for level in plan.levels] == [512, 128, 256]
    for level in plan.levels:
        assert level.workers == 3
        assert level.load == 1
        same = from_dict({"scheduler": {"max_num_batched_tokens": level.config.scheduler.max_num_batched_tokens}}, "")
        assert level.config == same


def test_words_truths_and_lists_are_values_too() -> None:
    words = make_plan(CONFIG, ["scheduler.policy=immediate,continuous"], [])
    assert [level.config.scheduler.policy for level in words.levels] == ["immediate", "continuous"]
    truths = make_plan(CONFIG, ["kv.enable_prefix_caching=true,false"], [])
    assert [level.config.kv.enable_prefix_caching for level in truths.levels] == [True, False]
    lists = make_plan(CONFIG, ["preferred_batch_size=[2,4],[8]"], [])
    assert [level.config.scheduler.preferred_batch_size for level in lists.levels] == [(2, 4), (8,)]


def test_loads_ascend_and_are_exact() -> None:
    plan = make_plan(CONFIG, [], ["2,0.1,1"])
    assert [level.load for level in plan.levels] == [Fraction(1, 10), 1, 2]
    assert plan.variable == "load"
    assert {level.config for level in plan.levels} == {CONFIG}


def test_workers_can_be_varied() -> None:
    assert [level.workers for level in make_plan(CONFIG, ["workers=8,16"], []).levels] == [8, 16]


@pytest.mark.parametrize(
    ("vary", "load", "said"),
    [
        ([], [], "none is given"),
        (["max_num_seqs=1"], ["1"], "one variable"),
        (["max_num_seqs=1", "order=fcfs"], [], "one variable"),
        ([], ["1", "2"], "one variable"),
        (["max_num_seq=1,2"], [], "did you mean max_num_seqs"),
        (["max_num_seqs"], [], "write KEY=VALUE"),
        (["max_num_seqs="], [], "empty"),
        (["max_num_seqs=1,,2"], [], "empty"),
        (["max_num_seqs=1,1"], [], "given twice"),
        (["record.ring_mb=1,2"], [], "decides nothing"),
        (["engine.dtype=auto"], [], "decides nothing"),
        (["workers=1.5"], [], "not a whole number"),
        ([], [""], "empty"),
        ([], ["0,1"], "above 0"),
        ([], ["1,1.0"], "same load"),
        (["max_num_seqs=" + ",".join(map(str, range(1, 300)))], [], "299 levels"),
    ],
)
def test_what_is_no_sweep_is_told(vary: list[str], load: list[str], said: str) -> None:
    with pytest.raises((SweepError, ConfigError), match=said):
        make_plan(CONFIG, vary, load)


def test_a_level_that_the_configuration_forbids_is_told_with_its_value() -> None:
    with pytest.raises(ConfigError, match=r"max_num_seqs=0.*must be a whole number"):
        make_plan(CONFIG, ["max_num_seqs=1,0"], [])
    with pytest.raises(ConfigError, match="psychic"):
        make_plan(CONFIG, ["policy=psychic"], [])
    with pytest.raises(NumberError, match="not a number"):
        make_plan(CONFIG, [], ["1,fast"])


# -- knee --------------------------------------------------------------------------------------------------------------

POINTS = st.lists(
    st.builds(Point, st.fractions(Fraction(1, 100), 100), st.fractions(0, 100), st.booleans()), max_size=12
).map(lambda points: sorted({point.load: point for point in points}.values(), key=lambda point: point.load))


def points(*levels: tuple[int, int, bool]) -> list[Point]:
    return [Point(Fraction(load), Fraction(throughput), meets) for load, throughput, meets in levels]


@given(POINTS)
def test_the_knee_and_all_below_it_hold_and_the_next_does_not(some: list[Point]) -> None:
    """SPEC D3, by the definition."""
    knee, full = find_knee(some), saturated(some)
    holds = [point.meets_slo and not mark for point, mark in zip(some, full, strict=True)]
    upto = 0 if knee.place is None else knee.place + 1
    assert all(holds[:upto])
    assert (knee.why == "beyond") == (upto == len(some))
    if upto < len(some):
        assert not holds[upto]
        assert knee.why == ("saturated" if some[upto].meets_slo else "slo")


@given(POINTS)
def test_beyond_saturation_everything_is_and_the_first_point_never(some: list[Point]) -> None:
    full = saturated(some)
    assert full == sorted(full)
    assert not any(full[:1])


@given(POINTS, st.fractions(Fraction(1, 50), 50), st.fractions(Fraction(1, 50), 50))
def test_the_units_of_load_and_throughput_do_not_matter(some: list[Point], a: Fraction, b: Fraction) -> None:
    scaled = [Point(point.load * a, point.throughput * b, point.meets_slo) for point in some]
    assert find_knee(scaled) == find_knee(some)


def test_saturation_is_where_less_than_half_of_the_load_comes_through() -> None:
    assert 2 * LEAST_GAIN == 1
    assert saturated(points((1, 10, True), (2, 15, True), (4, 30, True))) == [False, False, False]
    assert saturated(points((1, 100, True), (2, 149, True), (4, 298, True))) == [False, True, True]


def test_the_knee_of_a_server_that_falls_behind() -> None:
    assert find_knee(points((1, 10, True), (2, 20, True), (4, 39, False), (8, 40, False))) == Knee(1, "slo")
    assert find_knee(points((1, 10, True), (2, 20, True), (4, 22, True))) == Knee(1, "saturated")
    assert find_knee(points((1, 10, True), (2, 20, True))) == Knee(1, "beyond")
    assert find_knee(points((1, 10, False), (2, 20, True))) == Knee(None, "slo")


# -- reference ---------------------------------------------------------------------------------------------------------


def test_the_reference_is_one_over_mu_less_lambda() -> None:
    """SPEC D8: 100 served a second, 75 come a second: 40 ms in the system."""
    second = 10**9
    assert reference.mean_ns(76, second, 100, second) == second // 25
    assert reference.mean_ns(101, second, 100, second) is None
    assert reference.mean_ns(1, 0, 0, 0) is None


def test_it_is_drawn_only_where_it_says_something() -> None:
    alone, many = from_dict({"scheduler": {"policy": "immediate"}}, ""), CONFIG
    poisson, steady = {"spec": {"kind": "poisson"}}, {"spec": {"kind": "steady"}}
    assert reference.applies(make_plan(alone, [], ["1,2"]), poisson)
    assert reference.applies(make_plan(from_dict({"scheduler": {"max_num_seqs": 1}}, ""), [], ["1"]), poisson)
    assert not reference.applies(make_plan(alone, [], ["1,2"]), steady)
    assert not reference.applies(make_plan(alone, [], ["1,2"]), {"file": "trace.csv"})
    assert not reference.applies(make_plan(many, [], ["1,2"]), poisson)
    assert not reference.applies(make_plan(alone, [], ["1,2"], workers=2), poisson)
    assert not reference.applies(make_plan(alone, ["cost.host_us=1,2"], []), poisson)


# -- arrivals ----------------------------------------------------------------------------------------------------------


@given(st.fractions(Fraction(1, 1000), 1000, max_denominator=1000))
def test_more_load_is_the_same_requests_sooner(load: Fraction) -> None:
    """SPEC D3, D7: every arrival to the nearest ns, in the same order; lengths and tiers untouched."""
    base = read(SPEC, 3)
    made = faster(base, load)
    for was, now in zip(base.arrival.tolist(), made.arrival.tolist(), strict=True):
        assert abs(now - was / load) <= Fraction(1, 2)
    assert (np.diff(made.arrival) >= 0).all()
    for name in ("prompt_tokens", "max_tokens", "output_tokens"):
        assert (getattr(made, name) == getattr(base, name)).all()
    assert made.tiers == base.tiers


def test_arrivals_that_would_leave_virtual_time_are_refused() -> None:
    with pytest.raises(SweepError, match="would come after"):
        faster(read(SPEC, 3), Fraction(1, 10**9))
