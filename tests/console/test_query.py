"""SQL from the command line: each format says the same, nothing but the answer is on stdout, and nothing is changed."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from console.cli import main
from console.text.answer import table_text

SQL = "SELECT rid, request_id, status, ttft_ns, tpot_ns FROM latency ORDER BY rid LIMIT 3"
ANSWER = [
    {"rid": 1, "request_id": "req-1", "status": "ok", "ttft_ns": 14_000_000, "tpot_ns": 10_000_000.0},
    {"rid": 2, "request_id": "req-2", "status": "ok", "ttft_ns": 33_000_000, "tpot_ns": None},
    {"rid": 3, "request_id": "req-3", "status": "rejected", "ttft_ns": None, "tpot_ns": None},
]


def ask(run: Path, *argv: str, code: int = 0) -> None:
    assert main(["query", str(run), *argv]) == code


def test_json_is_a_list_of_rows(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ask(golden_run, SQL, "--format", "json")
    assert json.loads(capfdbinary.readouterr().out) == ANSWER


def test_a_filter_narrows_what_is_told_of_requests(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sql = """SELECT (SELECT count(*) FROM requests) AS requests, (SELECT count(DISTINCT rid) FROM causes) AS caused,
        (SELECT count(*) FROM spans) AS spans, (SELECT count(*) FROM steps) AS steps"""
    ask(golden_run, sql, "--filter", "id:req-1", "--format", "json")
    assert json.loads(capfdbinary.readouterr().out) == [{"requests": 1, "caused": 1, "spans": 5, "steps": 5}]
    ask(golden_run, sql, "--filter", "http_status>=400", "--format", "json")
    assert json.loads(capfdbinary.readouterr().out)[0]["requests"] == 1


def test_csv_has_a_header_and_empty_nulls(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ask(golden_run, SQL, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    expected = [{name: "" if value is None else value for name, value in row.items()} for row in ANSWER]
    assert [row | {"tpot_ns": row["tpot_ns"] and float(row["tpot_ns"])} for row in rows] == [
        {name: value if name == "tpot_ns" else str(value) for name, value in row.items()} for row in expected
    ]


@pytest.mark.parametrize("to_file", [True, False])
def test_parquet_keeps_types(
    golden_run: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], to_file: bool
) -> None:
    out = tmp_path / "answer.parquet"
    ask(golden_run, SQL, "--format", "parquet", *(["--out", str(out)] if to_file else []))
    written = capfdbinary.readouterr().out
    answer = pyarrow.parquet.read_table(out if to_file else pa.BufferReader(written))
    assert answer.to_pylist() == ANSWER
    assert answer.schema.field("rid").type == pa.int64()


def test_a_table_is_for_reading(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ask(golden_run, "SELECT rid, request_id FROM requests ORDER BY rid LIMIT 2")
    assert capfdbinary.readouterr().out.decode() == (
        "rid  request_id\n"
        "───  ──────────\n"
        "  1  req-1\n"
        "  2  req-2\n"
        "(2 rows)\n"
    )  # fmt: skip


def test_nested_and_odd_values_are_written_in_every_format(
    golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    sql = "SELECT [1, NULL] AS l, {'a': 'x'} AS s, 1.50::DECIMAL(4, 2) AS d, 'nan'::DOUBLE AS n, DATE '2026-01-01' AS t"
    for form in ("table", "csv", "json"):
        ask(golden_run, sql, "--format", form)
    shown = capfdbinary.readouterr().out.decode()
    assert "1.50" in shown
    assert "2026-01-01" in shown


def test_no_rows_are_an_answer(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ask(golden_run, "SELECT rid FROM requests WHERE false")
    assert capfdbinary.readouterr().out.decode() == "rid\n───\n(0 rows)\n"
    ask(golden_run, "SELECT rid FROM requests WHERE false", "--format", "json")
    assert json.loads(capfdbinary.readouterr().out) == []


def test_columns_of_one_name_are_both_shown() -> None:
    assert table_text(pa.table([[1], [2]], names=["x", "x"])) == "x  x\n─  ─\n1  2\n(1 row)\n"


def test_controls_in_values_are_shown_and_not_obeyed() -> None:
    assert table_text(pa.table({"x": ["a\x1b[2J\nb"]})).splitlines()[2] == "a·[2J·b"


def test_sql_is_read_from_stdin(
    golden_run: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 42 AS x"))
    ask(golden_run, "-", "--format", "json")
    assert json.loads(capfdbinary.readouterr().out) == [{"x": 42}]


@pytest.mark.parametrize("sql", ["SELEC 1", "DROP VIEW requests", "COPY requests TO 'here.csv'", "SELECT 1; SELECT 2"])
def test_what_is_no_question_exits_with_2(golden_run: Path, capsys: pytest.CaptureFixture[str], sql: str) -> None:
    ask(golden_run, sql, code=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tailtrace: ")


def test_an_output_that_can_t_be_written_exits_with_2(golden_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(golden_run, "SELECT 1", "--out", str(golden_run / "no" / "folder.txt"), code=2)
    assert "can't write" in capsys.readouterr().err


def test_damage_is_said_on_stderr_beside_the_answer(golden_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = (golden_run / "events").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:30])
    ask(golden_run, "SELECT count(*) AS n FROM requests", "--out", str(golden_run.parent / "n.txt"))
    assert part.name in capsys.readouterr().err
    assert (golden_run.parent / "n.txt").read_text().splitlines()[2] == "7"


def test_a_run_is_not_changed_by_being_asked(golden_run: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    before = {path: path.read_bytes() for path in golden_run.rglob("*") if path.is_file()}
    ask(golden_run, "SELECT * FROM causes")
    assert {path: path.read_bytes() for path in golden_run.rglob("*") if path.is_file()} == before
    assert capfdbinary.readouterr().out
