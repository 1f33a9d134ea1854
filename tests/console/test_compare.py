"""Two runs compared: what changed, what differs in their settings, and the same requests paired (SPEC D7, F6)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.compare import compare, delta, differences, pair
from console.session import Session
from console.text.compare import compare_lines
from console.text.curves import cdf
from console.widgets.ink import width_of
from recorder.words import Status
from tests.console.runs import golden_rows, request, write_run
from tests.console.test_report import check_golden_text, text
from tests.engine.runs import make_demo_run


@pytest.fixture
def slower(tmp_path: Path, golden: Session) -> Iterator[Session]:
    """The golden run again, with another policy, one request 5 ms slower on its way out, and one that got through."""
    rows = golden_rows(slow_ms=5)
    rows["requests"][5] = request(5, 7, returned_ms=21, output_tokens=1)
    rows["requests"].append(request(8, 10, returned_ms=12, output_tokens=1))
    run = write_run(tmp_path, rows, "slower", config={"scheduler": {"policy": "static", "max_batch_size": 4}})
    with Session(run) as session:
        yield session


def test_differences_are_b_minus_a(golden: Session, slower: Session) -> None:
    made = compare(golden, slower)
    assert made["delta"]["e2e_ms"]["max"] == {"diff": 5.0, "ratio": 40 / 35}
    assert made["delta"]["requests"]["ok"] == {"diff": 2, "ratio": 2.0}
    assert made["delta"]["phases_ms"]["return"]["total"] == {"diff": 5.0, "ratio": 2.0}
    assert made["a"]["run"] == "golden"
    assert made["b"]["run"] == "slower"


def test_the_same_requests_are_paired_by_their_id(golden: Session, slower: Session) -> None:
    paired = compare(golden, slower)["paired"]
    assert paired is not None
    assert (paired["pairs"], paired["only_a"], paired["only_b"]) == (2, 0, 1)
    assert paired["e2e_ms"]["slower"] == 1
    assert paired["e2e_ms"]["same"] == 1
    assert paired["phases_ms"]["return"]["slower"] == 1
    assert paired["phases_ms"]["prefill"]["same"] == 2
    assert paired["slower"] == [{"request_id": "req-2", "a_ms": 35.0, "b_ms": 40.0, "diff_ms": 5.0}]
    assert paired["faster"] == []
    assert {"a": "cancelled", "b": "ok", "requests": 1} in paired["outcomes"]


def test_a_phase_or_cause_that_one_run_lacks_counts_as_no_time(tmp_path: Path) -> None:
    runs = [make_demo_run(tmp_path / policy, policy) for policy in ("immediate", "continuous")]
    with Session(tmp_path / "immediate") as a, Session(tmp_path / "continuous") as b:
        made = compare(a, b)
    assert made["paired"] is not None
    both = [x for x, y in zip(*runs, strict=True) if x.status is y.status is Status.OK]
    assert made["paired"]["pairs"] == len(both)
    for change in (*made["paired"]["phases_ms"].values(), *made["paired"]["causes_ns"].values()):
        assert change["faster"] + change["slower"] + change["same"] == len(both)
    assert made["paired"]["causes_ns"]["STALLED_BY_PREFILL"]["slower"] > 0
    assert made["delta"]["causes_ns"]["STALLED_BY_PREFILL"]["ratio"] is None
    json.dumps(made, allow_nan=False)


def test_of_several_attempts_the_last_one_is_paired(tmp_path: Path) -> None:
    first = request(1, 0, Status.FAILED, request_id="again", returned_ms=3)
    second = request(2, 4, request_id="again", returned_ms=9) | {"attempt": 2, "retry_of": 1}
    with Session(write_run(tmp_path, {"requests": [first, second]})) as session:
        pairs = pair(session, session)
    assert pairs.answered["rid_a"].to_pylist() == pairs.answered["rid_b"].to_pylist() == [2]


def test_runs_without_common_ids_are_not_paired(tmp_path: Path, golden: Session) -> None:
    with Session(write_run(tmp_path, {"requests": [request(1, 0, request_id="other")]}, "other")) as other:
        assert compare(golden, other)["paired"] is None


@pytest.mark.parametrize("requests", [[], [request(1, 0, Status.REJECTED)], [request(1, 0, Status.OPEN)]])
def test_odd_runs_are_compared(tmp_path: Path, golden: Session, requests: list[dict[str, object]]) -> None:
    with Session(write_run(tmp_path, {"requests": requests}, "odd")) as odd:
        for a, b in ((odd, golden), (golden, odd), (odd, odd)):
            made = compare(a, b)
            json.dumps(made, allow_nan=False)
            assert compare_lines(made, 80)


def test_a_run_compared_with_itself_is_the_same(golden: Session) -> None:
    made = compare(golden, golden)
    assert made["differs"] == []
    assert made["paired"] is not None
    assert made["paired"]["e2e_ms"]["same"] == made["paired"]["pairs"] == 2
    assert made["delta"]["e2e_ms"]["p99"] == {"diff": 0.0, "ratio": 1.0}


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ("1@6", "", "config.faults: 1@6 → (none)"),
        ("", "1@6", "config.faults: (none) → 1@6"),
        ("1@6", " ", "config.faults: 1@6 → (none)"),
        ("1@6", None, "config.faults: 1@6 → not set"),
        (1, False, "config.faults: 1 → False"),
        ("x" * 30, "y" * 30, f"config.faults: {'x' * 30} → {'y' * 30}"),
    ],
)
def test_a_setting_that_was_emptied_says_so(golden: Session, a: object, b: object, told: str) -> None:
    made = compare(golden, golden)
    made["differs"] = list(differences({"config": {"faults": a}}, {"config": {"faults": b}}))
    assert told in text(compare_lines(made, 80)).splitlines()


def test_settings_that_differ_are_named_by_their_dotted_key() -> None:
    a = {"config": {"scheduler": {"policy": "static", "max_num_seqs": 4}}, "devices": [{"name": "cpu"}], "seed": 0}
    b = {
        "config": {"scheduler": {"policy": "static"}, "kv": {"block_size": 16}},
        "devices": [{"name": "gpu"}],
        "seed": None,
    }
    assert list(differences(a, b)) == [
        {"key": "config.scheduler.max_num_seqs", "a": 4, "b": None},
        {"key": "devices[0].name", "a": "cpu", "b": "gpu"},
        {"key": "seed", "a": 0, "b": None},
        {"key": "config.kv.block_size", "a": None, "b": 16},
    ]


def test_delta_follows_the_shape_of_the_reports() -> None:
    assert delta({"x": 2, "deep": {"y": None}}, {"x": 3, "deep": {"y": 1.0}, "new": 5}) == {
        "x": {"diff": 1, "ratio": 1.5},
        "deep": {"y": {"diff": None, "ratio": None}},
        "new": {"diff": 5, "ratio": None},
    }


def test_every_measure_comes_with_its_formula(golden: Session, slower: Session) -> None:
    """SPEC D1."""
    made = compare(golden, slower)
    page = " ".join(text(compare_lines(made, 100)).split())
    for key in ("ttft_ms", "tpot_ms", "e2e_ms", "closure"):
        assert made["a"]["formulas"][key] in page


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_asked(golden: Session, slower: Session, width: int) -> None:
    assert max(width_of(line) for line in compare_lines(compare(golden, slower), width)) <= width


def test_the_page(golden: Session, slower: Session) -> None:
    check_golden_text("compare", text(compare_lines(compare(golden, slower), 100)))


def test_curves_are_drawn_apart_and_leave_nothing_behind() -> None:
    first = cdf("E2E", {"a": [1.0, 2.0, 3.0], "b": [10.0]}, 60, 10)
    assert first == cdf("E2E", {"a": [1.0, 2.0, 3.0], "b": [10.0]}, 60, 10)
    assert "● a" in first[0]
    assert "○ b" in first[0]
    assert "10.0 ms" in first[-1]
    assert all(len(line) <= 60 for line in first)
    assert "\x1b" not in "".join(first)


@pytest.mark.parametrize("values", [[0.0], [5.0], [1.0] * 1000])
def test_curves_of_few_or_equal_values_are_drawn(values: list[float]) -> None:
    assert len(cdf("E2E", {"a": values}, 40, 8)) == 9


def test_no_values_draw_no_curve() -> None:
    assert cdf("E2E", {"a": [], "b": []}, 40, 8) == []
