"""Targets of a seek, as typed."""

import time

import pytest

from console.seeking import Places, SeekError, parse_seek

S = 10**9
PLACES = Places(
    start=100 * S,
    end=120 * S,
    position=110 * S,
    request={"abc": 105 * S, "2.5s": 106 * S}.get,
    step={12: 107 * S}.get,
)


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("+2.5s", 112.5),
        ("-300ms", 109.7),
        ("+1", 111),
        ("12.4s", 112.4),
        ("0", 100),
        (" 3 s ", 103),
        ("1m", 160),
        ("73%", 114.6),
        ("100 %", 120),
        ("req:abc", 105),
        ("req: 2.5s", 106),
        ("step:12", 107),
        ("250us", 100.00025),
    ],
)
def test_a_target_is_a_place_in_the_run(text: str, expected_s: float) -> None:
    assert parse_seek(text, PLACES) == round(expected_s * S)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no place in time"),
        ("soon", "'soon' is no place in time"),
        ("++1s", "no place in time"),
        ("1.2.3s", "no place in time"),
        ("5 parsec", "no place in time"),
        ("req:nobody", "no request 'nobody'"),
        ("step:x", "no pass 'x'"),
        ("step:99", "no pass '99'"),
        ("14:03:22.5", "virtual time"),
    ],
)
def test_what_means_nothing_is_said_in_words(text: str, says: str) -> None:
    with pytest.raises(SeekError, match=says):
        parse_seek(text, PLACES)


def test_a_time_of_day_is_the_next_one_after_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    begin = 1_800_000_000 * S  # 2027-01-15 08:00:00 UTC
    places = Places(start=5 * S, end=9 * S, position=5 * S, request=lambda _: None, step=lambda _: None,
                    wall_offset=begin - 5 * S)  # fmt: skip
    assert parse_seek("08:00:01.5", places) == 6 * S + S // 2
    assert parse_seek("08:00", places) == 5 * S
    assert parse_seek("07:59:59", places) == 5 * S + 86_399 * S
    with pytest.raises(SeekError, match="no time of day"):
        parse_seek("25:00", places)
