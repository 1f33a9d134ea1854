"""The report as data and as text: on the golden run by its numbers, on odd runs by not failing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from console.jsonout import finite
from console.report import Report, report
from console.session import Session
from console.text.report import block_lines, describe_setup, report_lines
from console.widgets.ink import Line, width_of
from engine.config import Policy
from recorder.left_out import LeftOut, Stretch, save_left_out
from recorder.words import Phase, Status, StepKind
from tests.console.runs import fixed_causes, request, span, step, write_run
from tests.engine.runs import make_demo_run

GOLDEN = Path(__file__).parent / "golden" / "text"
WIDTHS = (40, 60, 80, 120)

ODD_RUNS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "nothing": {},
    "one open request": {"requests": [request(1, 0, Status.OPEN)]},
    "all rejected": {"requests": [request(rid, rid, Status.REJECTED, returned_ms=rid) for rid in (1, 2, 3)]},
    "all at one instant": {"requests": [request(1, 5, returned_ms=5)], "spans": [span(1, Phase.QUEUE, 5, 5)]},
    "ok without stamps": {"requests": [request(1, 0, output_tokens=0)]},
    "index zero": {"requests": [request(0, 0, first_token_ms=0, last_token_ms=0, returned_ms=1, output_tokens=1)]},
    "markup and controls in names": {
        "requests": [request(1, 0, request_id="[red]\x1b[31m\n名前", tier="[/]", returned_ms=1)],
    },
    "only passes": {"steps": [step(0, (0, 0, 1, 1), StepKind.IDLE)]},
}


def text(lines: list[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines) + "\n"


def check_golden_text(name: str, got: str) -> None:
    """Compare with `golden/text/<name>.txt`; `UPDATE_GOLDEN=1` writes it anew."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(got)
    assert got == path.read_text()


def test_the_json_has_the_promised_keys_and_numbers(golden: Session) -> None:
    made = json.loads(json.dumps(report(golden)))
    assert made["run"] == "golden"
    assert made["requests"] == {
        "total": 7, "ok": 2, "rejected": 1, "expired": 1, "cancelled": 1, "failed": 1, "open": 1,
    }  # fmt: skip
    assert made["ttft_ms"] == {"n": 2, "p50": 14.0, "p95": 33.0, "p99": 33.0, "max": 33.0}
    assert made["tpot_ms"] == {"n": 1, "p50": 10.0, "p95": 10.0, "p99": 10.0, "max": 10.0}
    assert made["e2e_ms"] == {"n": 2, "p50": 27.0, "p95": 35.0, "p99": 35.0, "max": 35.0}
    assert made["phases_ms"]["queue"] == {"p50": 2.0, "p95": 22.0, "p99": 22.0, "total": 24.0, "share": 24 / 62}
    assert list(made["phases_ms"]) == [phase.value for phase in Phase]
    assert made["causes_ns"]["QUEUE/BEHIND_FIFO"] == 10_000_000
    assert made["throughput"] == {"requests_per_s": 50.0, "goodput_per_s": None, "output_tokens_per_s": 75.0}
    assert made["window_s"] == 0.04


def test_closure_is_named_time_over_all_time_and_unnamed_is_not_named(golden: Session) -> None:
    """SPEC F1: 1 ms of the 62 ms is UNNAMED."""
    made = report(golden)
    assert sum(made["causes_ns"].values()) == 62_000_000
    assert made["closure"] == pytest.approx(61 / 62, abs=1e-15)


def test_requests_that_got_no_answer_make_percentiles_lower_bounds(golden: Session) -> None:
    """SPEC E5, F4: open, expired, cancelled and failed ones; a rejected one never began."""
    made = report(golden)
    assert made["censored"] == 4
    assert "14.0†" in text(report_lines(made, 80))


def test_beside_lower_bounds_stand_estimates_with_all_who_began(golden: Session) -> None:
    """SPEC F4: two of six were answered, the last of those lived longest, so all percentiles are its own."""
    made = report(golden)
    assert made["kaplan_meier"]["e2e_ms"] == {"n": 6, "censored": 4, "p50": 35.0, "p95": 35.0, "p99": 35.0}
    assert "  KM      33.0      33.0      33.0   4 of 6 lost sight of" in text(report_lines(made, 80))


def test_an_answer_later_than_all_that_was_seen_is_beyond(tmp_path: Path) -> None:
    rows = {
        "requests": [
            request(1, 0, first_token_ms=1, last_token_ms=2, returned_ms=3),
            request(2, 0, Status.CANCELLED, queued_ms=5),
        ]
    }
    with Session(write_run(tmp_path, rows)) as session:
        made = report(session)
    assert made["kaplan_meier"]["e2e_ms"] == {"n": 2, "censored": 1, "p50": 3.0, "p95": None, "p99": None}
    assert "beyond" in text(report_lines(made, 80))


def test_an_attempt_that_was_handed_on_is_no_request_that_failed(tmp_path: Path) -> None:
    """SPEC A7, C9: the client of request 1 had its answer from another worker; that of request 3 asked again itself."""
    rows = {
        "requests": [
            request(1, 5, Status.FAILED, queued_ms=6),
            request(2, 5, attempt=2, retry_of=1, first_token_ms=30, last_token_ms=30, returned_ms=31),
            request(3, 7, Status.FAILED, queued_ms=8),
            request(4, 9, attempt=2, retry_of=3, first_token_ms=30, last_token_ms=30, returned_ms=32),
        ]
    }
    with Session(write_run(tmp_path, rows)) as session:
        made = report(session)
    assert (made["requests"]["total"], made["requests"]["ok"], made["requests"]["failed"]) == (3, 2, 1)
    assert (made["handed_on"], made["censored"]) == (1, 1)
    assert made["kaplan_meier"]["e2e_ms"]["n"] == 3
    assert "3 in all, 1 handed on by lost workers" in text(report_lines(made, 80))


def test_goodput_counts_answers_inside_the_limit(golden: Session) -> None:
    """SPEC D2: answers after 27 ms and 35 ms, in a window of 40 ms."""
    rates = [report(golden, slo_ns=ms * 1_000_000)["throughput"]["goodput_per_s"] for ms in (26, 27, 34, 35)]
    assert rates == [0.0, 25.0, 25.0, 50.0]


def test_without_such_requests_there_is_no_dagger(tmp_path: Path) -> None:
    rows = {"requests": [request(1, 0, first_token_ms=1, returned_ms=2), request(2, 0, Status.REJECTED)]}
    with Session(write_run(tmp_path, rows)) as session:
        page = text(report_lines(report(session), 80))
    assert "†" not in page
    assert "KM" not in page, "nothing was lost sight of"


def test_every_number_comes_with_its_formula(golden: Session) -> None:
    """SPEC D1: one number never stands for two definitions."""
    made = report(golden)
    page = " ".join(text(report_lines(made, 80)).split())
    for formula in made["formulas"].values():
        assert " ".join(formula.split()) in page


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_asked(golden: Session, width: int) -> None:
    assert max(width_of(line) for line in report_lines(report(golden), width)) <= width


def test_no_count_is_cut_off(golden: Session) -> None:
    """Who looks at 60 columns sees how many are open, and how long workers were idle, below the others."""
    found = report(golden)
    said = text([line for name in ("requests", "workers") for line in block_lines(name, found, 60)])
    assert f"{found['requests']['open']} open" in said
    assert said.count("idle ") == len(found["workers"])
    assert "…" not in said


def test_percentiles_of_minutes_do_not_touch_each_other(tmp_path: Path) -> None:
    life: dict[str, Any] = {
        "queued_ms": 1,
        "first_scheduled_ms": 222_222,
        "first_token_ms": 333_333,
        "last_token_ms": 444_444,
    }
    rows = {
        "requests": [request(1, 0, returned_ms=444_444, output_tokens=9, **life)],
        "spans": [span(1, Phase.QUEUE, 0, 222_222), span(1, Phase.DECODE, 222_222, 444_444)],
    }
    with Session(write_run(tmp_path, rows)) as session:
        said = text(block_lines("phases", report(session), 80))
    assert said.count(" 222,222.0 222,222.0 222,222.0 ") == 2


def test_the_page(golden: Session) -> None:
    check_golden_text("report", text(report_lines(report(golden), 80)))


@pytest.mark.parametrize("rows", ODD_RUNS.values(), ids=ODD_RUNS.keys())
@pytest.mark.parametrize("sealed", [True, False])
def test_odd_runs_are_reported(tmp_path: Path, rows: dict[str, list[dict[str, Any]]], sealed: bool) -> None:
    with Session(write_run(tmp_path, rows, sealed=sealed)) as session:
        made = report(session)
        page = text(report_lines(made, 80))
    json.dumps(made, allow_nan=False)
    assert made["state"] == ("sealed" if sealed else "killed")
    assert made["requests"]["total"] == len(rows.get("requests", []))
    assert "\x1b" not in page


def test_damage_is_part_of_the_report(golden_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.attribution.attribute", lambda tables: fixed_causes())
    (part,) = (golden_run / "spans").glob("*.parquet")
    part.write_bytes(b"PAR1 no more PAR1")
    with Session(golden_run) as session:
        made = report(session)
    assert [damage["file"] for damage in made["damages"]] == [f"spans/{part.name}"]
    assert made["phases_ms"]["queue"]["total"] == 0
    assert made["e2e_ms"]["p50"] == 27.0
    assert part.name in text(report_lines(made, 80))


@pytest.mark.parametrize("policy", ["immediate", "static", "continuous"])
def test_a_simulated_run_closes_and_agrees_with_its_outcomes(tmp_path: Path, policy: Policy) -> None:
    outcomes = make_demo_run(tmp_path / "run", policy)
    with Session(tmp_path / "run") as session:
        made: Report = report(session)
    e2e = sorted(outcome.returned - outcome.arrival.arrival for outcome in outcomes if outcome.returned is not None)
    assert made["requests"]["total"] == len(outcomes)
    assert made["requests"]["ok"] == len(e2e)
    assert made["e2e_ms"]["max"] == e2e[-1] / 1e6
    assert made["e2e_ms"]["p50"] == e2e[-(-len(e2e) // 2) - 1] / 1e6
    assert sum(made["causes_ns"].values()) == sum(e2e)
    assert made["closure"] is not None
    assert made["closure"] > 0.99


def test_json_has_no_nan() -> None:
    assert finite({"a": [float("nan"), (1.5, float("inf"))], "b": None}) == {"a": [None, [1.5, None]], "b": None}


def test_the_setup_is_one_line_of_what_is_known() -> None:
    setup = {
        "config": {"scheduler": {"policy": "static"}},
        "model": {"name": "tiny[/]", "device": "cpu", "dtype": "bf16", "weights": "random"},
        "devices": [],
        "workload": {"name": "bursts"},
        "clock": "monotonic",
        "created": "2026-01-02T03:04:05.678+00:00",
    }
    assert describe_setup(setup) == (
        "tiny[/] · random weights · cpu bf16 · policy static · bursts · 2026-01-02 03:04:05 UTC"
    )
    bare = {"config": {}, "model": {}, "devices": [{"name": "GPU 0"}], "workload": {}, "clock": "virtual"}
    assert describe_setup(bare) == "GPU 0 · virtual clock"


@pytest.mark.parametrize("width", WIDTHS)
def test_what_the_flight_recorder_left_out_is_said(tmp_path: Path, width: int) -> None:
    """And the time of who lived then is NOT_KEPT, which is no name."""
    run = write_run(tmp_path, {"requests": [request(1, 0, first_token_ms=3, last_token_ms=4, returned_ms=5)]})
    save_left_out(run, LeftOut((Stretch(0, 0, 1200, 0, 5_000_000),)))
    with Session(run) as session:
        found = report(session)
        assert found["left_out"] == {"passes": 1200, "seconds": 0.005}
        assert found["causes_ns"]["NOT_KEPT"] > 0
        assert found["closure"] is not None
        assert found["closure"] < 1
        lines = report_lines(found, width)
    assert "1,200 passes of 0.005 s were left out on purpose" in " ".join(text(lines).split())
    assert max(map(width_of, lines)) <= width
