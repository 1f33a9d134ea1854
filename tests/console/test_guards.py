"""Guard rails: a measure, a sign and a limit, which may be a multiple of what the first run has (SPEC D7)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.decimals import NumberError
from console.guards import NAMES, GuardError, parse_guards


def test_a_guard_is_a_measure_a_sign_and_a_limit() -> None:
    (guard,) = parse_guards([" p99_e2e_ms <= 0.3 "])
    values = dict.fromkeys(NAMES, Fraction(0))
    assert guard.holds({**values, "p99_e2e_ms": Fraction(3, 10)}, values)
    assert not guard.holds({**values, "p99_e2e_ms": Fraction(3, 10) + Fraction(1, 10**12)}, values)
    assert not guard.holds({**values, "p99_e2e_ms": None}, values)


@given(st.integers(-5, 5))
def test_each_sign_means_itself(away: int) -> None:
    value = dict.fromkeys(NAMES, Fraction(10 + away))
    held = {sign: parse_guards([f"goodput{sign}10"])[0].holds(value, value) for sign in ("<", "<=", ">", ">=")}
    assert held == {"<": away < 0, "<=": away <= 0, ">": away > 0, ">=": away >= 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99_e2e<3", "did you mean p99_e2e_ms"),
        ("luck>3", "known are"),
        ("p99_e2e_ms", "write a measure"),
        ("p99_e2e_ms=3", "write a measure"),
        ("p99_e2e_ms<fast", "not a number"),
        ("", "write a measure"),
    ],
)
def test_what_is_no_guard_is_told(text: str, said: str) -> None:
    with pytest.raises((GuardError, NumberError), match=said):
        parse_guards([text])


def test_a_multiple_is_of_the_first_run() -> None:
    (guard,) = parse_guards(["p99_e2e_ms<=1.1x"])
    values = dict.fromkeys(NAMES, Fraction(100))
    assert guard.holds({**values, "p99_e2e_ms": Fraction(110)}, values)
    assert not guard.holds({**values, "p99_e2e_ms": Fraction(110) + Fraction(1, 10**9)}, values)
    assert not guard.holds(values, {**values, "p99_e2e_ms": None}), "nothing is no multiple of nothing"
