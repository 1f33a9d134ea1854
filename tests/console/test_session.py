"""The session: what the views hold, what they can't do, and how they keep up with a run that changes under them."""

import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from console.database import QueryError, check_reads_only
from console.filter_language import parse_filter
from console.session import Session, rows
from recorder.producer import PartProducer, RingProducer
from recorder.run import RunError, create_run, load_info, save_info
from recorder.schema import SCHEMA_VERSION, TABLES
from recorder.tables import RunTables
from recorder.words import Status
from tests.console.runs import fixed_causes, golden_rows, request, write_run
from tests.console.tui_runs import mixed_ends


def count(session: Session, view: str) -> int:
    return int(session.query(f"SELECT count(*) AS n FROM {view}")["n"][0].as_py())


def test_every_table_is_a_view_with_the_schema_of_the_recorder(golden: Session) -> None:
    for table in TABLES.values():
        answer = golden.query(f"SELECT * FROM {table.name}")
        assert answer.schema.names == [column.name for column in table.columns]
        coded = [column.name for column in table.columns if column.words]
        assert all(str(answer.schema.field(name).type) == "string" for name in coded)


def test_views_hold_what_the_recorder_reads(golden: Session) -> None:
    for name in TABLES:
        assert count(golden, name) == golden.tables.table(name).num_rows


def test_the_end_of_a_request_makes_its_beginning_void(golden: Session) -> None:
    statuses = golden.query("SELECT status FROM requests WHERE rid = 1")["status"].to_pylist()
    assert statuses == [Status.OK]
    assert count(golden, "requests WHERE status = 'open'") == 1


def test_slices_of_a_step_that_never_ended_are_not_shown(golden: Session) -> None:
    assert count(golden, "slices WHERE rid = 7") == 0


def test_measures_are_null_where_a_stamp_is_missing(golden: Session) -> None:
    one_token = golden.query("SELECT tpot_ns FROM latency WHERE rid = 2")["tpot_ns"].to_pylist()
    never_started = golden.query("SELECT queue_ns, ttft_ns, e2e_ns FROM latency WHERE rid = 7").to_pylist()
    assert one_token == [None]
    assert never_started == [{"queue_ns": None, "ttft_ns": None, "e2e_ns": None}]


def test_causes_are_attributed_once_and_only_when_asked_for(golden_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[RunTables] = []

    def attribute(tables: RunTables) -> pa.Table:
        calls.append(tables)
        return fixed_causes()

    monkeypatch.setattr("recorder.attribution.attribute", attribute)
    with Session(golden_run) as session:
        session.query("-- nothing about causes\nSELECT 1")
        assert calls == []
        assert count(session, "causes") == count(session, '"Causes"') == fixed_causes().num_rows
        assert len(calls) == 1
        session.refresh()
        count(session, "causes")
        assert len(calls) == 2


def test_a_growing_run_shows_more_after_a_refresh(golden_run: Path) -> None:
    with Session(golden_run) as session:
        before = count(session, "requests")
        producer = PartProducer(golden_run, "later", ["requests"])
        producer.row("requests", **request(99, 50))
        producer.close()
        assert count(session, "requests") == before
        session.refresh()
        assert count(session, "requests") == before + 1


def test_rows_still_in_rings_stand_beside_sealed_ones(tmp_path: Path) -> None:
    """Also after their writer is gone and nobody sealed them: the rings are files."""
    run = write_run(tmp_path, {"requests": [request(1, 0, Status.OPEN), request(2, 1)]}, sealed=False)
    producer = RingProducer(run, "frontend", ["requests"], ring_mb=1)
    with Session(run) as session:
        assert count(session, "requests") == 2
        producer.row("requests", **request(1, 0, returned_ms=9))
        producer.row("requests", **request(3, 2, Status.OPEN))
        assert count(session, "requests") == 2
        session.refresh()
        producer.close()
        answer = session.query("SELECT rid, status FROM requests ORDER BY rid").to_pylist()
    assert [(row["rid"], row["status"]) for row in answer] == [(1, "ok"), (2, "ok"), (3, "open")]


def test_parts_that_are_merged_away_under_a_session_are_found_again(tmp_path: Path) -> None:
    run = write_run(tmp_path, golden_rows())
    with Session(run) as session:
        before = count(session, "steps")
        (old,) = session.tables.part_files("steps")
        first, last = old.stem.split("-")[1:]
        old.rename(old.with_name(f"merged-{first}-{last}.parquet"))
        assert count(session, "steps") == before


@pytest.mark.parametrize("folder", ["a'b", "[x]*?", "day=1"])
def test_folders_may_have_any_name(tmp_path: Path, folder: str) -> None:
    run = write_run(tmp_path / folder, golden_rows())
    with Session(run) as session:
        assert count(session, "requests") == 7


def test_a_damaged_part_is_named_and_the_rest_is_shown(golden_run: Path) -> None:
    (part,) = (golden_run / "events").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with Session(golden_run) as session:
        assert [damage.file for damage in session.damages] == [f"events/{part.name}"]
        assert count(session, "events") == 0
        assert count(session, "requests") == 7


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DROP VIEW requests", "read only"),
        ("COPY requests TO 'x.csv'", "read only"),
        ("SET threads = 8", "read only"),
        ("EXPLAIN ANALYZE SELECT 1", "read only"),
        ("SELECT 1; SELECT 2", "one SQL statement"),
        ("", "one SQL statement"),
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM requests", "nothing"),
        ("FROM read_text('/etc/hostname')", "Permission"),
    ],
)
def test_what_is_no_question_is_refused_with_words(golden: Session, sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        golden.user_query(sql)


@pytest.mark.parametrize("sql", ["SELECT 1", "FROM requests", "SUMMARIZE latency", "DESCRIBE latency", "SHOW TABLES"])
def test_what_only_reads_is_allowed(sql: str) -> None:
    check_reads_only(sql)


def test_no_run_and_a_newer_run_are_told_apart(tmp_path: Path, golden_run: Path) -> None:
    with pytest.raises(RunError, match="no run"):
        Session(tmp_path / "nothing")
    info = load_info(golden_run)
    info.schema_version = SCHEMA_VERSION + 1
    save_info(golden_run, info)
    with pytest.raises(RunError, match="schema"):
        Session(golden_run)


def test_threads_ask_at_the_same_time(golden: Session) -> None:
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(count(golden, "requests"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [7] * 8


def test_one_query_is_interrupted_and_no_other(golden: Session) -> None:
    cursor = golden.connect()
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) AS a, range(1000000) AS b"
    started, failed = threading.Event(), []

    def ask() -> None:
        started.set()
        try:
            golden.query(endless, cursor=cursor)
        except duckdb.InterruptException as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    started.wait()
    while thread.is_alive():  # an interrupt before the query begins is lost
        cursor.interrupt()
        thread.join(0.05)
    assert len(failed) == 1
    assert rows(golden.query("SELECT 1 AS one")) == [{"one": 1}]


def test_a_run_that_holds_nothing_answers_everything(tmp_path: Path) -> None:
    info = load_info(write_run(tmp_path, {}))
    info.run_id = "bare"
    with Session(create_run(tmp_path, info)) as session:
        assert [count(session, name) for name in (*TABLES, "latency", "causes")] == [0] * (len(TABLES) + 2)


@pytest.mark.parametrize("view", ["requests", "latency", "cause_times", "attempt_times"])
def test_under_a_filter_the_whole_run_can_be_asked_for(tmp_path: Path, view: str) -> None:
    with Session(mixed_ends(tmp_path)) as session:
        cursor = session.connect(parse_filter("status:ok"))
        some, whole = (
            session.query(f"SELECT count(*) AS n FROM {name}", cursor=cursor)["n"][0].as_py()
            for name in (view, f"memory.main.{view}")
        )
        assert 0 < some < whole == session.count()
