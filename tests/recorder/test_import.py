"""`tailtrace import`: recordings of vLLM become runs that report and check as any other (SPEC F9)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.cli import main
from console.report import report
from console.session import Session
from recorder.tables import open_tables

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"

Line = dict[str, Any]
LINES: list[Line] = [
    {
        "request_id": f"bench-{number}",
        "input_toks": 100 + number,
        "output_toks": 5,
        "arrival_time": 1_787_267_980.0 + number,
        "queued_ts": 500.001 + number + 0.002 * number,
        "scheduled_ts": 500.1 + number,
        "first_token_ts": 500.2 + number,
        "last_token_ts": 500.6 + number,
    }
    for number in range(3)
]
META = {
    "model": "m",
    "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 2048, "max_model_len": None},
    "kv_cache": {"num_gpu_blocks": 77, "block_size": 16},
    "resolved_config": {
        "scheduler_config": {"enable_chunked_prefill": True, "max_num_seqs": 9, "async_scheduling": True}
    },
    "hardware": {"device_name": "GPU"},
}


def written(folder: Path, lines: list[Line], meta: object = META) -> Path:
    path = folder / "bench.requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if meta is not None:
        (folder / "bench.meta.json").write_text(json.dumps(meta))
    return path


def test_stamps_come_over_to_the_nanosecond_and_the_fastest_request_ties_the_clocks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["import", str(written(tmp_path, LINES)), "--out", str(run)]) == 0
    tables = open_tables(run)
    rows = tables.table("requests").to_pylist()
    assert [row["queued"] - row["arrival"] for row in rows] == [0, 2_000_000, 4_000_000]
    assert [row["first_token"] for row in rows] == [500_200_000_000, 501_200_000_000, 502_200_000_000]
    assert [row["prompt_tokens"] for row in rows] == [100, 101, 102]
    assert {row["status"] for row in rows} == {"ok"}
    assert tables.info.clock.mono_ns == 500_001_000_000
    assert tables.info.clock.wall_ns == 1_787_267_980_000_000_000
    assert tables.info.state == "sealed"


def test_the_engines_knobs_come_over_in_our_words(tmp_path: Path) -> None:
    run = tmp_path / "run"
    main(["import", str(written(tmp_path, LINES)), "--out", str(run)])
    info = open_tables(run).info
    assert info.config["scheduler"] == {
        "policy": "continuous",
        "max_num_seqs": 9,
        "max_num_batched_tokens": 2048,
        "enable_chunked_prefill": True,
    }
    assert info.config["kv"] == {"watermark": 0.0, "block_size": 16, "num_blocks": 77}
    assert info.config["engine"] == {}
    assert info.software == {"vllm": "0.19.0"}
    assert any("async_scheduling" in note for note in info.workload["notes"])


def test_without_a_meta_file_nothing_is_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["import", str(written(tmp_path, LINES, None)), "--out", str(run)]) == 0
    assert open_tables(run).info.config == {}
    assert "configuration is not known" in capsys.readouterr().err


def test_arrivals_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    run = tmp_path / "run"
    main(["import", str(written(tmp_path, LINES[::-1])), "--out", str(run)])
    requests = open_tables(run).table("requests").to_pylist()
    assert [(row["rid"], row["request_id"]) for row in requests] == [(1, "bench-0"), (2, "bench-1"), (3, "bench-2")]


def test_such_a_run_reports_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(["import", str(written(tmp_path, LINES)), "--out", str(run)])
    capsys.readouterr()
    assert main(["check", str(run), "--json"]) == 0
    told = {each["name"]: each["detail"] for each in json.loads(capsys.readouterr().out)["checks"]}
    assert told["slices match steps"] == "not recorded in this run: steps, slices"
    assert told["spans tile"] == "3 attempts"
    with Session(run) as session:
        made = report(session)
    assert made["requests"]["ok"] == 3
    assert made["ttft_ms"]["n"] == 3
    assert made["phases_ms"]["decode"]["total"] == pytest.approx(1200)
    assert main(["report", str(run)]) == 0


def test_rows_that_were_recorded_and_are_gone_are_still_missed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    main(["import", str(written(tmp_path, LINES)), "--out", str(run)])
    for part in (run / "spans").iterdir():
        part.unlink()
    assert main(["check", str(run)]) == 1


def _without(key: str) -> Callable[[Line], Line]:
    return lambda line: {name: value for name, value in line.items() if name != key}


def _with(**changes: object) -> Callable[[Line], Line]:
    return lambda line: line | changes


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_without("scheduled_ts"), "line 2: scheduled_ts is missing"),
        (_with(output_toks=0), "line 2: output_toks must be a whole number of at least 1, not 0"),
        (_with(input_toks=1.5), "line 2: input_toks must be a whole number of at least 1, not 1.5"),
        (_with(queued_ts="soon"), 'line 2: queued_ts must be seconds from 0 up, not "soon"'),
        (_with(arrival_time=-1.0), "line 2: arrival_time must be seconds from 0 up, not -1.0"),
        (_with(first_token_ts=float("nan")), "line 2: first_token_ts must be seconds from 0 up"),
        (_with(last_token_ts=501.0), "line 2: last_token_ts is 200000000 ns before first_token_ts"),
        (_with(request_id="bench-0"), "line 2: request_id 'bench-0' was in line 1 already"),
    ],
)
def test_a_faulty_line_is_named_and_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Line], Line], complaint: str
) -> None:
    path = written(tmp_path, [LINES[0], spoil(LINES[1]), LINES[2]])
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 2
    assert f"{path}, {complaint}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "\n\n", "TIMESTAMP,ContextTokens\n1,2\n", '{"a": 1}\n', "[1]\n", "\x00\x01"])
def test_what_is_no_recording_is_refused_by_its_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "some.requests.jsonl"
    path.write_text(content)
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 2
    assert "known are vLLM benchmark requests" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_half_a_line_and_half_a_meta_file_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, LINES)
    path.write_text(path.read_text()[:-20])
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 2
    assert "line 3: no JSON" in capsys.readouterr().err
    written(tmp_path, LINES)
    (tmp_path / "bench.meta.json").write_text("{")
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 2
    assert "bench.meta.json can't be read" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("x")
    assert main(["import", str(written(tmp_path, LINES)), "--out", str(tmp_path / "run")]) == 2
    assert (tmp_path / "run" / "mine").read_text() == "x"


def test_the_budget_of_an_imported_run_is_its_phases(tmp_path: Path) -> None:
    """SPEC F9: stamps name them to the ns; no more is claimed."""
    run = tmp_path / "run"
    assert main(["import", str(written(tmp_path, LINES)), "--out", str(run)]) == 0
    with Session(run) as session:
        told = report(session)["causes_ns"]
    assert {name: ns for name, ns in told.items() if ns} == {
        "INGRESS/PHASE": 6_000_000,
        "QUEUE/PHASE": 291_000_000,
        "PREFILL/PHASE": 300_000_000,
        "DECODE/PHASE": 1_200_000_000,
    }


@pytest.mark.parametrize("device", ["RTX4090", "RTXPRO6000"])
def test_real_recordings(tmp_path: Path, device: str) -> None:
    path = SAMPLES / f"vllm_bench_{device}_Llama-3.1-8B.requests.jsonl"
    if not path.exists():
        pytest.skip("the sample is not here")
    assert main(["import", str(path), "--out", str(tmp_path / "run")]) == 0
    assert main(["check", str(tmp_path / "run")]) == 0
    assert open_tables(tmp_path / "run").table("requests").num_rows == 300
