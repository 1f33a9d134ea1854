"""Which attempt a request says it is, and which one it repeats (SPEC A8)."""

import pytest

from engine.api import retries
from engine.api.errors import ApiError
from engine.api.retries import Latest, attempt_number


@pytest.mark.parametrize(
    ("headers", "number"),
    [
        ({}, 1),
        ({"X-Attempt": "1"}, 1),
        ({"X-Attempt": "7"}, 7),
        ({"X-Stainless-Retry-Count": "0"}, 1),
        ({"X-Stainless-Retry-Count": "2"}, 3),
        ({"X-Attempt": "2", "X-Stainless-Retry-Count": "5"}, 2),
    ],
)
def test_an_attempt_is_counted_from_one(headers: dict[str, str], number: int) -> None:
    assert attempt_number(headers) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "two", "1001", "\u0664", "9" * 40])
def test_what_is_no_number_of_an_attempt_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="is not a whole number from 1 to 1000") as caught:
        attempt_number({"X-Attempt": text})
    assert (caught.value.status, caught.value.param) == (400, "X-Attempt")


def test_the_latest_attempt_is_known_by_who_asked_until_many_others_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_MANY", 2)
    latest = Latest()
    latest.note("ada", "x", 1)
    latest.note("bob", "x", 2)
    latest.note("ada", "x", 3)
    assert (latest.of("ada", "x"), latest.of("bob", "x"), latest.of("cy", "x")) == (3, 2, None)
    latest.note("cy", "y", 4)
    assert (latest.of("ada", "x"), latest.of("bob", "x"), latest.of("cy", "y")) == (3, None, 4)
