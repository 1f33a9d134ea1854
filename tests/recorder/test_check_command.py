"""`tailtrace check`: its two outputs and its three exit codes."""

import json
from pathlib import Path
from random import Random

import pytest

from console.cli import main
from recorder.schema import SCHEMA_VERSION
from tests.recorder.ledgers import Ledger
from tests.recorder.simulated import simulate


def damaged() -> Ledger:
    ledger = simulate(Random(5), requests=8)
    ledger.rows["steps"][4]["t_end"] += 1
    return ledger


def test_sound_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulate(Random(5), requests=8).write(tmp_path)
    assert main(["check", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "made: all 12 checks hold"
    assert sum(line.startswith("✓ ok") for line in lines) == 12


def test_run_with_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = damaged().write(tmp_path)
    assert main(["check", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    fault = next(number for number, line in enumerate(lines) if line.startswith("✗ FAIL  passes tile"))
    assert lines[fault + 1].split()[:2] == ["worker=0", "step=5"]


@pytest.mark.parametrize("sound", [True, False])
def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], sound: bool) -> None:
    ledger = simulate(Random(5), requests=8) if sound else damaged()
    assert main(["check", str(ledger.write(tmp_path)), "--json"]) == (0 if sound else 1)
    told = json.loads(capsys.readouterr().out)
    assert told.keys() == {"run", "ok", "checks"}
    assert (told["run"], told["ok"]) == ("made", sound)
    assert all(each.keys() == {"name", "ok", "detail"} for each in told["checks"])
    assert sound == all(each["ok"] for each in told["checks"])


def test_damaged_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulate(Random(5), requests=8).write(tmp_path)
    part = next((run / "slices").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-40])
    assert main(["check", str(run), "--json"]) == 1
    told = {each["name"]: each["ok"] for each in json.loads(capsys.readouterr().out)["checks"]}
    assert not told["files intact"]
    assert not told["slices match steps"]


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "is no run" in capsys.readouterr().err


def test_newer_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulate(Random(5), requests=2).write(tmp_path)
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(info | {"schema_version": SCHEMA_VERSION + 1}))
    assert main(["check", str(run)]) == 2
    assert "upgrade" in capsys.readouterr().err
