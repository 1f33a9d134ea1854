"""Priority and deadline of a request, in the body or in headers; what can't be meant is refused by name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.bodies import read_completion
from engine.api.errors import ApiError
from engine.api.terms import Terms


def body(**fields: object) -> bytes:
    return msgspec.json.encode({"prompt": "Hello", **fields})


def test_a_body_may_bring_priority_and_deadline() -> None:
    assert read_completion(body(priority=3, deadline_ms=250)).terms == Terms(3, 250.0)
    assert read_completion(body(priority=None)).terms == Terms()


@pytest.mark.parametrize("fields", [{"priority": -1}, {"priority": 1.5}, {"priority": 101}, {"deadline_ms": -1}])
def test_a_body_that_cannot_be_meant_is_refused_by_field(fields: dict[str, object]) -> None:
    with pytest.raises(ApiError) as refused:
        read_completion(body(**fields))
    assert (refused.value.status, refused.value.param) == (400, next(iter(fields)))


@given(st.integers(0, 100), st.floats(0, 86_400_000))
def test_headers_count_before_the_body(priority: int, deadline_ms: float) -> None:
    headers = {"X-Priority": str(priority), "X-Deadline-Ms": repr(deadline_ms)}
    assert Terms(7, 1.0).or_headers(headers) == Terms(priority, deadline_ms)
    assert Terms(7, 1.0).or_headers({}) == Terms(7, 1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Priority", "high"),
        ("X-Priority", "1.5"),
        ("X-Priority", "-1"),
        ("X-Deadline-Ms", "nan"),
        ("X-Deadline-Ms", ""),
    ],
)
def test_headers_that_cannot_be_meant_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ApiError) as refused:
        Terms().or_headers({name: value})
    assert (refused.value.status, refused.value.param) == (400, name)


def test_a_deadline_is_an_instant() -> None:
    assert Terms(0, 1.5).deadline(1_000) == 1_501_000
    assert Terms().deadline(1_000) is None
