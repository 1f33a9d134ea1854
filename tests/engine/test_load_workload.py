"""Workload files: read whole, refused with their line, and the shipped ones are what they claim."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.load.workload import WorkloadError, parse_workload, read_workload, synthesise

WORKLOADS = Path(__file__).parents[2] / "traces" / "workloads"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{"], "w:1: not a JSON object"),
        (["", '{"prompt": "x"}'], "w:2: Object missing required field `arrival_s`"),
        (['{"arrival_s": -1, "prompt": "x"}'], "w:1: Expected `float` >= 0"),
        (['{"arrival_s": 0}'], "w:1: give either prompt or prompt_tokens"),
        (['{"arrival_s": 0, "prompt": "x", "prompt_tokens": 4}'], "w:1: give either prompt or prompt_tokens"),
        (['{"arrival_s": 0, "prompt_tokens": 0}'], "w:1: Expected `int` >= 1"),
        (['{"arrival_s": 0, "prompt": "x", "maxtokens": 4}'], "w:1: Object contains unknown field `maxtokens`"),
        (['{"arrival_s": 2, "prompt": "x"}', '{"arrival_s": 1, "prompt": "x"}'], "w:2: arrival_s = 1.0 is earlier"),
        (['{"arrival_s": 0, "prompt": "x", "id": "a"}'] * 2, "w:2: id 'a' is already that of line 1"),
        (['{"arrival_s": 0, "prompt": "x", "id": "a b"}'], "w:1: Expected `str` matching"),
        ([], "the workload is empty"),
    ],
)
def test_a_bad_line_is_named(lines: list[str], words: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(lines, "w")
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"none\.jsonl: can't read the workload"):
        read_workload(tmp_path / "none.jsonl")
    (tmp_path / "raw").write_bytes(b"\xff")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        read_workload(tmp_path / "raw")


def test_requests_without_an_id_get_one_that_pairs_runs() -> None:
    lines = ['{"arrival_s": 0, "prompt": "x"}', '{"arrival_s": 0, "prompt_tokens": 3}']
    assert [arrival.id for arrival in parse_workload(lines, "w")] == ["w-0001", "w-0002"]


@given(st.integers(1, 500), st.text(max_size=8))
def test_a_synthesised_prompt_has_that_many_words_and_is_always_the_same(tokens: int, key: str) -> None:
    text = synthesise(tokens, key)
    assert len(text.split(" ")) == tokens
    assert text == synthesise(tokens, key)


def test_synthesised_prompts_share_no_prefix() -> None:
    assert synthesise(50, "a") != synthesise(50, "b")


def test_the_shipped_workloads_read_and_the_demo_mixes_long_prompts_with_short_ones() -> None:
    files = {path.stem: read_workload(path) for path in WORKLOADS.glob("*.jsonl")}
    assert set(files) == {"long-prompts-among-short-chats", "steady-chats", "burst"}
    demo = files["long-prompts-among-short-chats"]
    words = {str(arrival.id): len(arrival.text().split()) for arrival in demo}
    assert all((count > 200) == name.startswith("long") for name, count in words.items())
    assert 4 <= sum(name.startswith("long") for name in words) < len(words) / 2
    assert all(arrival.ignore_eos for arrivals in files.values() for arrival in arrivals)
