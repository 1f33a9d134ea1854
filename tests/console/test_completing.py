"""Completion of SQL: what may stand at the cursor, by where it is and what the question is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.querying.completing import MOST, Offer, Words, completions, read_words
from console.querying.tables import ColumnDoc, TableDoc, tables
from console.session import Session


def table(name: str, *columns: str) -> TableDoc:
    return TableDoc(name, "a thing", tuple(ColumnDoc(column, "BIGINT", "ns", "how much") for column in columns))


TABLES = (table("requests", "rid", "prompt_tokens", "arrival"), table("steps", "step", "t_done"), table("spans", "rid"))
WORDS = Words({"sum": "adds", "substr": "cuts", "quantile_cont": "ranks"}, ["select", "from", "where", "sample"])


def offered(marked: str, *, asked: bool = False) -> list[str]:
    """What is offered at the `|`."""
    cursor = marked.index("|")
    offer = completions(marked.replace("|", ""), cursor, TABLES, WORDS, asked=asked)
    return [] if offer is None else [one.text for one in offer.candidates]


@pytest.mark.parametrize(
    ("marked", "found"),
    [
        ("SELECT pr|", ["prompt_tokens"]),
        ("SELECT s|", ["step", "select", "sample", "sum(", "substr(", "steps", "spans"]),
        ("SELECT S|", ["step", "SELECT", "SAMPLE", "sum(", "substr(", "steps", "spans"]),
        ("SELECT tokens|", ["prompt_tokens"]),
        ("SELECT ok|", []),
        ("SELECT t| FROM steps", ["t_done"]),
        ("SELECT pr| FROM steps", []),
        ("SELECT r.| FROM requests r", ["rid", "prompt_tokens", "arrival"]),
        ("SELECT r.| FROM requests AS r JOIN spans", ["rid", "prompt_tokens", "arrival"]),
        ("SELECT a.| FROM spans, steps a", ["step", "t_done"]),
        ("SELECT steps.t| FROM steps", ["t_done"]),
        ("SELECT who.| FROM steps", []),
        ("SELECT * FROM s|", ["steps", "spans"]),
        ("SELECT * FROM requests JOIN sp|", ["spans"]),
        ("SELECT * FROM requests r, sp|", ["spans"]),
        ("WITH slow AS (SELECT 1) SELECT * FROM sl|", ["slow"]),
        ("DESCRIBE re|", ["requests"]),
        ("SELECT 'se|", []),
        ("SELECT -- se|", []),
        ("SELECT /* se|", []),
        ("SELECT 'a' s|", ["step", "select", "sample", "sum(", "substr(", "steps", "spans"]),
        ("SELECT 12|", []),
        ("SELECT |", []),
        ("SELECT rid| FROM spans", []),
        ("|", []),
        ("SELECT pr\n|", []),
    ],
)
def test_what_is_offered(marked: str, found: list[str]) -> None:
    assert offered(marked) == found


def test_who_asks_is_offered_what_may_begin_there() -> None:
    assert offered("SELECT * FROM |", asked=True) == ["requests", "steps", "spans"]
    assert offered("SELECT | FROM steps", asked=True)[:2] == ["step", "t_done"]
    assert offered("SELECT 'a |", asked=True) == []


def test_a_candidate_tells_what_it_is() -> None:
    offer = completions("SELECT prom", 11, TABLES, WORDS)
    assert offer is not None
    assert (offer.start, offer.end, offer.text) == (7, 11, "prompt_tokens")
    assert offer.candidates[0].doc == "bigint ns  requests  how much"
    functions = completions("SELECT quan", 11, TABLES, WORDS)
    assert functions is not None
    assert functions.candidates[0].doc == "ranks"


def test_one_goes_around_the_ends() -> None:
    offer = completions("SELECT * FROM s", 15, TABLES, WORDS)
    assert offer is not None
    assert [offer.moved(step).text for step in (0, 1, 2, -1)] == ["steps", "spans", "steps", "spans"]


@given(text=st.text("aest_ .,'\"$-/*\n;(1é", max_size=40), at=st.integers(0, 40), asked=st.booleans())
def test_every_text_can_be_completed_and_what_is_offered_continues_the_word(text: str, at: int, asked: bool) -> None:
    cursor = min(at, len(text))
    offer = completions(text, cursor, TABLES, WORDS, asked=asked)
    if offer is not None:
        word = text[offer.start : offer.end]
        assert isinstance(offer, Offer)
        assert offer.end == cursor
        assert 0 < len(offer.candidates) <= MOST
        assert all(word.lower() in one.text.lower() for one in offer.candidates)


def test_everything_of_a_run_and_of_duckdb_is_known(golden: Session) -> None:
    with golden.connect() as cursor:
        words, found = read_words(golden, cursor), tables(golden, cursor)
    assert {"sum", "quantile_cont", "date_trunc"} <= words.functions.keys()
    assert set(words.keywords[:110]) >= {"select", "from", "where", "join", "by"}
    offer = completions("SELECT e2e FROM latency", 10, found, words)
    assert offer is not None
    assert offer.text == "e2e_ns"
