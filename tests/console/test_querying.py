"""Asking in SQL: rows that are cut say so, errors point somewhere, answers become filters, and history is kept once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.cli import main
from console.database import QueryError
from console.filter import EVERYTHING, Asked, Filter
from console.filter_language import FilterError, parse_filter
from console.querying.answer import Answer, Refusal, ask, place_of
from console.querying.history import MOST, newer, older, with_query
from console.querying.picking import picking
from console.querying.tables import TableDoc, tables
from console.remembering import Memory
from console.session import Session
from console.widgets.sqleditor import token_ranges
from tests.console.tui_runs import served


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A run of 24 requests, three of them long."""
    with Session(served(tmp_path_factory.mktemp("runs"))) as opened:
        yield opened


def answer_of(session: Session, sql: str, only: str = "", most: int = 1_000) -> Answer | Refusal:
    with session.connect() as cursor:
        return ask(session, parse_filter(only), sql, cursor, most)


def test_an_answer_is_whole_or_says_that_it_is_cut(session: Session) -> None:
    sql = "SELECT rid FROM requests ORDER BY rid DESC"
    whole, cut = answer_of(session, sql, most=24), answer_of(session, sql, most=23)
    assert isinstance(whole, Answer) and isinstance(cut, Answer)
    assert (whole.rows.num_rows, whole.cut) == (24, False)
    assert (cut.rows.num_rows, cut.cut) == (23, True)
    assert cut.rows["rid"].to_pylist() == list(range(23, 0, -1)), "the order is that of the question"


@pytest.mark.parametrize("sql", ["SUMMARIZE latency", "DESCRIBE steps", "VALUES (1)", "FROM range(3)", "SHOW TABLES"])
def test_whatever_reads_can_be_asked(session: Session, sql: str) -> None:
    assert isinstance(answer_of(session, sql), Answer)


def test_the_filter_narrows_what_is_asked(session: Session) -> None:
    found = answer_of(session, "SELECT count(*) AS n FROM requests", "id:long-*")
    assert isinstance(found, Answer)
    assert found.rows["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("sql", "place", "words"),
    [
        ("SELECT rid\nFROM requests WHERE rid =", (1, 24), "syntax error"),
        ("SELEC 1", (0, 0), "syntax error"),
        ("SELECT rid,\n  nothing_of_that_name\nFROM requests", (1, 2), "nothing_of_that_name"),
        ("DELETE FROM requests", None, "read only"),
        ("SELECT 1; SELECT 2", None, "one SQL statement"),
        ("", None, "one SQL statement"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    session: Session, sql: str, place: tuple[int, int] | None, words: str
) -> None:
    found = answer_of(session, sql)
    assert isinstance(found, Refusal)
    assert words in found.said
    assert found.place == place


def test_the_place_is_found_in_a_long_line_that_is_quoted_in_part(session: Session) -> None:
    begin = "SELECT " + ", ".join(f"rid AS a{i}" for i in range(60))
    found = answer_of(session, f"{begin}, rid rid rid FROM requests" + " " * 3 + "-- " + "x" * 200)
    assert isinstance(found, Refusal) and found.place is not None
    line, column = found.place
    assert line == 0
    assert len(begin) < column <= len(begin) + len(", rid rid rid")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_words_about_any_text_are_survived(said: str, sql: str) -> None:
    for words in (said, f"LINE 1: {said}\n   ^", f"LINE 99: {sql}\n ^"):
        place = place_of(words, sql)
        assert place is None or 0 <= place[1] <= len(sql)


@given(st.lists(st.text("ab ", max_size=3), max_size=30))
def test_the_history_holds_each_question_once_with_the_newest_last(asked: list[str]) -> None:
    history: tuple[str, ...] = ()
    for sql in asked:
        history = with_query(history, sql)
    wanted = [sql.strip() for sql in asked if sql.strip()]
    assert history == tuple(reversed(list(dict.fromkeys(reversed(wanted)))))


def test_the_history_is_not_endless_and_can_be_walked() -> None:
    history: tuple[str, ...] = ()
    for number in range(MOST + 5):
        history = with_query(history, str(number))
    assert (len(history), history[-1]) == (MOST, str(MOST + 4))
    assert older((), None) is None
    assert [older(history, place) for place in (None, 5, 0)] == [MOST - 1, 4, 0]
    assert [newer(history, place) for place in (None, 5, MOST - 1)] == [None, 6, None]


def test_the_history_is_remembered(tmp_path: Path) -> None:
    assert Memory(tmp_path).questions() == ()
    Memory(tmp_path).keep_questions(("SELECT 1", "SELECT 2"))
    assert Memory(tmp_path).questions() == ("SELECT 1", "SELECT 2")


def picked(session: Session, only: Filter) -> list[int]:
    found: list[int] = session.picked(only)["rid"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT rid FROM requests WHERE prompt_tokens > 400",
        "SELECT rid, attempt, 7 AS more FROM requests WHERE prompt_tokens > 400 ORDER BY rid -- the long ones",
        "SELECT request_id FROM latency WHERE request_id LIKE 'long-%';",
        "SELECT request_id AS request_id FROM requests WHERE contains(request_id, 'long')\n",
    ],
)
def test_an_answer_is_a_filter_that_can_be_typed_again(session: Session, sql: str) -> None:
    answer = answer_of(session, sql)
    assert isinstance(answer, Answer)
    only = Filter((picking(sql, answer.rows.schema.names),))
    assert picked(session, only) == [3, 11, 19]
    assert parse_filter(str(only)) == only
    assert picked(session, parse_filter(f"-{only}")) == sorted(set(range(24)) - {3, 11, 19})
    assert picked(session, parse_filter(f"id:*-00* {only}")) == [3]


def test_an_attempt_is_only_matched_where_the_answer_tells_of_attempts(session: Session) -> None:
    assert picked(session, parse_filter('attempts:"SELECT 3 AS rid, 2 AS attempt"')) == []
    assert picked(session, parse_filter('attempts:"SELECT 3 AS rid, 1 AS attempt"')) == [3]
    assert picked(session, parse_filter('sql:"SELECT 3 AS rid, 2 AS attempt"')) == [3]
    assert picking("SELECT 1", ["attempt", "rid"]).field == "attempts"


def test_an_answer_without_the_columns_is_said_when_it_is_asked(session: Session) -> None:
    with pytest.raises(QueryError, match="rid"):
        picked(session, parse_filter('sql:"SELECT 3 AS three"'))
    with pytest.raises(QueryError, match="attempt"):
        picked(session, parse_filter('attempts:"SELECT 3 AS rid"'))


def test_an_answer_about_causes_is_a_filter_too(session: Session) -> None:
    blamed = picked(session, parse_filter("sql:\"SELECT rid FROM causes WHERE cause = 'PREFILL'\""))
    assert blamed == list(range(24))


def test_an_answer_about_no_requests_is_no_filter() -> None:
    with pytest.raises(FilterError, match="select rid"):
        picking("SELECT 1 AS one", ["one"])


@pytest.mark.parametrize(
    "text", ['sql:""', "sql:SELECT", 'sql:"DROP TABLE requests"', 'sql:"SELECT 1; SELECT 2"', "sql>1"]
)
def test_only_one_reading_question_is_a_term(text: str) -> None:
    with pytest.raises(FilterError, match="sql"):
        parse_filter(text)


def test_a_question_can_not_break_out_of_its_term(session: Session) -> None:
    only = Filter((Asked("SELECT 3 AS rid -- ) OR true"),))
    assert picked(session, only) == [3]
    with pytest.raises(FilterError):
        parse_filter('sql:"SELECT 3 AS rid) OR true --"')


def found_tables(session: Session) -> dict[str, TableDoc]:
    with session.connect() as cursor:
        return {table.name: table for table in tables(session, cursor)}


def test_every_column_that_can_be_asked_for_is_told(session: Session) -> None:
    for name, table in found_tables(session).items():
        answer = answer_of(session, f"SELECT * FROM {name} LIMIT 0")
        assert isinstance(answer, Answer)
        assert [column.name for column in table.columns] == answer.rows.schema.names
        assert all(column.type for column in table.columns)


def test_columns_come_with_unit_and_words(session: Session) -> None:
    found = found_tables(session)
    kind = next(column for column in found["steps"].columns if column.name == "kind")
    e2e = next(column for column in found["latency"].columns if column.name == "e2e_ns")
    assert (kind.type, kind.unit, "decode" in kind.doc) == ("VARCHAR", "", True)
    assert (e2e.type, e2e.unit, e2e.doc) == ("BIGINT", "ns", "returned - arrival")


def test_the_command_asks_under_a_filter_and_says_what_it_leaves_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = str(served(tmp_path))
    assert (
        main(["query", run, "SELECT rid FROM requests ORDER BY rid", "--filter", "id:long-*", "--format", "csv"]) == 0
    )
    assert capfd.readouterr().out.split() == ['"rid"', "3", "11", "19"]
    assert main(["query", run, "SELECT rid FROM requests ORDER BY rid", "--limit", "2", "--format", "csv"]) == 0
    told = capfd.readouterr()
    assert (told.out.split(), "there are more" in told.err) == (['"rid"', "0", "1"], True)
    assert main(["query", run, "SELECT 1 AS one", "--limit", "1", "--format", "csv"]) == 0
    assert "more" not in capfd.readouterr().err


def test_the_command_tells_what_there_is_to_ask_about(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = str(served(tmp_path))
    assert main(["query", run, "--tables", "--format", "csv"]) == 0
    assert '"steps","kv_free","BIGINT","","free KV blocks after planning"' in capfd.readouterr().out
    for wrong in ([], ["SELECT 1", "--tables"], ["SELECT 1", "--limit", "-1"]):
        assert main(["query", run, *wrong]) == 2


def test_tokens_are_coloured_by_bytes_and_line_by_line() -> None:
    sql = "SELECT 'é', 12 -- ñ\n/* a\nb */ FROM x"
    assert token_ranges(sql) == [
        (0, 0, 6, "keyword"),
        (0, 7, 11, "string_const"),
        (0, 11, 12, "operator"),
        (0, 13, 15, "numeric_const"),
        (0, 16, 21, "comment"),
        (1, 0, 4, "comment"),
        (2, 0, 4, "comment"),
        (2, 5, 9, "keyword"),
    ]


@given(st.text(max_size=80))
def test_any_text_can_be_coloured(sql: str) -> None:
    lines = sql.encode().split(b"\n")
    for line, start, end, _ in token_ranges(sql):
        assert 0 <= start < end <= len(lines[line])


def test_everything_is_let_through_without_terms(session: Session) -> None:
    assert picked(session, EVERYTHING) == list(range(24))
