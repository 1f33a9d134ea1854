"""Answers that are found again: only those of the same question, parameters and filter, and of this look at the run."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pytest

from console import answers, kept
from console.answers import Answers, Asked, asked_as, read_by
from console.filter import EVERYTHING
from console.filter_language import parse_filter
from console.keeping import make
from console.kept import fingerprint
from console.report import report
from console.session import Session, question
from console.views import VIEWS
from recorder.producer import PartProducer
from tests.console.tui_runs import mixed_ends

OWN = {"chosen", "drawn", "met"}
"""What somebody makes on a cursor before asking."""
FAST = parse_filter("e2e<60ms")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(mixed_ends(tmp_path)) as session:
        yield session


def test_of_every_question_it_is_known_what_it_reads() -> None:
    names = [file.name.removesuffix(".sql") for file in resources.files("console.sql").iterdir()]
    for name in names:
        if not name.startswith("__"):
            assert {read.removeprefix("memory.main.") for read in read_by(question(name))} <= VIEWS | OWN, name


def test_the_second_time_nobody_is_asked(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [session.ask("states"), session.ask("states", cursor=session.connect(FAST))]
    assert not first[0].equals(first[1])
    monkeypatch.setattr(Session, "query", None)
    assert [session.ask("states"), session.ask("states", cursor=session.connect(FAST))] == first


def test_what_is_asked_of_the_whole_run_is_found_under_each_filter(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session.ask("explain_sizes")
    cursor = session.connect(FAST)
    monkeypatch.setattr(Session, "query", None)
    assert session.ask("explain_sizes", cursor=cursor) == first


def test_what_is_not_narrowed_is_found_under_each_filter(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = session.ask("workers")
    cursor = session.connect(FAST)
    monkeypatch.setattr(Session, "query", None)
    assert session.ask("workers", cursor=cursor) == first


def test_other_parameters_are_another_question(session: Session) -> None:
    asked = [
        session.ask("slo", ttft_ns=None, tpot_ns=None, e2e_ns=bound).to_pylist()[0]["inside"] for bound in (1, 10**12)
    ]
    assert asked[0] < asked[1]


def test_a_new_look_asks_anew(session: Session) -> None:
    (before,) = session.ask("answered_time").to_pylist()
    last = session.query("SELECT max(rid) AS rid, max(returned) AS t FROM requests").to_pylist()[0]
    producer = PartProducer(session.path, "later", ["requests"])
    stamps = {"arrival": last["t"], "admitted": last["t"], "returned": last["t"] + 7}
    producer.row("requests", rid=last["rid"] + 1, attempt=1, status="ok", **stamps)
    producer.close()
    assert session.ask("answered_time").to_pylist() == [before]
    session.refresh()
    assert session.ask("answered_time").to_pylist() == [{"ns": before["ns"] + 7}]


def test_what_is_about_the_table_of_a_cursor_is_asked_again(session: Session) -> None:
    cursor = session.connect()
    for number in (1, 2):
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT {number} AS n").fetchall()
        assert session.find("SELECT n FROM chosen", cursor=cursor).to_pylist() == [{"n": number}]


def test_lists_of_rows_are_not_remembered() -> None:
    assert asked_as("SELECT 1 FROM requests", {"rids": [1, 2]}, EVERYTHING) is None
    assert asked_as("SELECT 1 FROM requests", {"rid": 1}, EVERYTHING) is not None


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = pa.table({"n": pa.array(range(100), pa.int64())})
    monkeypatch.setattr(answers, "_MOST", 3 * answer.nbytes)
    remembered = Answers()
    asked: list[Asked] = [(str(number), (), EVERYTHING) for number in range(5)]
    for one in asked:
        remembered.keep(one, answer)
        remembered.keep(one, answer)
    assert [remembered.find(one) is not None for one in asked] == [False, False, True, True, True]
    remembered.keep(("large", (), EVERYTHING), pa.table({"n": pa.nulls(10**6, pa.int64())}))
    assert remembered.find(("large", (), EVERYTHING)) is None


def test_of_a_large_run_the_first_answers_are_there_before_anybody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "WORTH_KEEPING", 1)
    run = mixed_ends(tmp_path)
    with Session(run) as session:
        make(run, run / "kept.duckdb", fingerprint(session.tables), lambda _part: None)
        expected = [session.ask(name) for name in ("percentiles", "phases", "causes")]
    with Session(run) as session, monkeypatch.context() as patch:
        assert session.is_in_order
        patch.setattr(Session, "query", None)
        assert [session.ask(name) for name in ("percentiles", "phases", "causes")] == expected
    with Session(run) as session:
        assert report(session)["causes_ns"] != report(session, FAST)["causes_ns"]
