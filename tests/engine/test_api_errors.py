"""Refusals as clients see them: status, code, and when to come again (SPEC B1, C2)."""

import pytest

from engine.api.errors import never_fits, turned_away, unavailable
from engine.core import Admission
from engine.messages import Refused
from recorder.words import Reason


@pytest.mark.parametrize(
    ("why", "status", "code"),
    [
        (Reason.DEADLINE, 429, "deadline_exceeded"),
        (Reason.RATE_LIMIT, 429, "rate_limit_exceeded"),
        (Reason.QUEUE_FULL, 529, "overloaded"),
        (Reason.OVERLOADED, 529, "overloaded"),
    ],
)
def test_each_refusal_has_its_code(why: Reason, status: int, code: str) -> None:
    failure = turned_away(Admission(False, "no", status, 12, why))
    assert (failure.status, failure.code, failure.message) == (status, code, "no")


@pytest.mark.parametrize(("ms", "seconds"), [(1, "1"), (1000, "1"), (1001, "2")])
def test_the_wait_is_told_exactly_and_in_whole_seconds_rounded_up(ms: int, seconds: str) -> None:
    headers = turned_away(Admission(False, "no", 529, ms, Reason.OVERLOADED)).headers(1_700_000_000.25)
    assert headers == {"Retry-After-Ms": str(ms), "Retry-After": seconds, "X-Server-Time": "1700000000.250"}


def test_what_never_will_be_taken_is_not_asked_for_again() -> None:
    assert unavailable("stopping").headers(0.0) == {}
    never = never_fits(Refused(1, "no"))
    assert (never.status, never.code, never.headers(0.0)) == (400, "never_fits", {})
