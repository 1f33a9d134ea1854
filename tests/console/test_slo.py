"""Limits as people type them: exact, or refused with the key that is wrong."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.decimals import NumberError, exact, whole_ns
from console.slo import Slo, SloError, read_slo, slo_of


@given(st.decimals(min_value=0, max_value=10**9, places=9))
def test_decimals_are_taken_exactly(number: Decimal) -> None:
    assert exact(str(number), "x") == exact(number, "x") == Fraction(number)


@given(st.integers(0, 10**15))
def test_milliseconds_are_whole_nanoseconds(ns: int) -> None:
    assert whole_ns(f"{ns // 10**6}.{ns % 10**6:06}", "x") == ns


@pytest.mark.parametrize(
    "value", ["", "ten", "nan", "inf", "-1", "1e99", "0.0000000001", True, None, [], "1e-999999", "9" * 5000]
)
def test_what_is_no_number_in_reach_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(NumberError, match="the thing: "):
        exact(value, "the thing")


def test_less_than_a_nanosecond_is_refused() -> None:
    with pytest.raises(NumberError, match="finer than a nanosecond"):
        whole_ns("0.0000001", "x")


@given(st.fractions(Fraction(1, 10**6), 1), st.integers(0, 1000), st.integers(0, 1000))
def test_an_slo_is_met_by_the_share_that_it_asks_for(share: Fraction, inside: int, rest: int) -> None:
    of = inside + rest
    assert Slo(share=share).met(inside, of) == (of > 0 and Fraction(inside, max(of, 1)) >= share)


def test_one_of_a_hundred_may_miss_and_no_more() -> None:
    assert Slo(e2e_ns=1).met(99, 100)
    assert not Slo(e2e_ns=1).met(98, 100)
    assert not Slo(e2e_ns=1).met(0, 0)


def test_a_file_has_the_limits_and_may_have_a_budget_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "slo.toml"
    path.write_text("[slo]\nttft_ms = 0.1\ne2e_ms = 200\nshare = 0.95\n[budget]\ningress = 1\n")
    assert read_slo(path) == Slo(ttft_ns=100_000, e2e_ns=200_000_000, share=Fraction(95, 100))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"no section \[slo\]"),
        ("slo = 3", r"no section \[slo\]"),
        ("[slo]\n", "has no limit"),
        ("[slo]\ne2e = 3", "did you mean e2e_ms"),
        ("[slo]\ne2e_ms = 'soon'", "not a number"),
        ("[slo]\ne2e_ms = nan", "not a number"),
        ("[slo]\ne2e_ms = 0", "no request takes 0 ms"),
        ("[slo]\ne2e_ms = 1\nshare = 0", "always met"),
        ("[slo]\ne2e_ms = 1\nshare = 1.1", "not between 0 and 1"),
        ("[slos]\n", "did you mean slo"),
        ("[slo", "not valid TOML"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "slo.toml"
    path.write_text(text)
    with pytest.raises((SloError, NumberError), match=said):
        read_slo(path)


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(SloError, match="can't read it"):
        read_slo(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(SloError, match="not UTF-8"):
        read_slo(tmp_path / "bytes.toml")


def test_without_limits_there_is_none() -> None:
    assert not slo_of({}, "--slo")
    assert slo_of({"tpot_ms": "5"}, "--slo")
