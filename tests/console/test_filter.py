"""Filters: what is printed is what is read, a conjunction is an intersection, bad text gets an answer that helps."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.filter import COUNTS, EVERYTHING, TIMES, WORDS, Alive, Blamed, Bound, Filter, Not, Op, Part, Words
from console.filter_language import FilterError, complete, parse_filter
from console.session import Session
from recorder.schema import REQUESTS
from recorder.words import Phase, Status
from tests.console.tui_runs import mixed_ends

NAMES = {"tier": ["free", "paid gold"], "worker": ["0", "1"]}
OPS = st.sampled_from(get_args(Op))
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
NS = st.one_of(st.integers(0, 10**12), st.integers(0, 2000).map(lambda ms: ms * 10**6))
SHARES = st.decimals(0, 100, places=3).map(Decimal)
CAUSES = st.sampled_from(["QUEUE", "QUEUE/SEQ_SLOTS", "PREFILL", "DECODE", "STALLED_BY_PREFILL", "PREEMPTED/KV_BLOCKS"])


def some(words: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(words, min_size=1, max_size=3, unique=True).map(tuple)


plain = st.one_of(
    st.builds(Words, st.sampled_from(sorted(WORDS.keys() - {"status"})), some(TEXT)),
    st.builds(Words, st.just("status"), some(st.sampled_from([s.value for s in Status]))),
    st.builds(Bound, st.sampled_from([*TIMES]), OPS, NS),
    st.builds(Bound, st.sampled_from([*COUNTS]), OPS, st.integers(0, 10**6)),
    st.builds(Words, st.sampled_from([*COUNTS]), some(st.from_regex(r"[0-9*?]{0,4}", fullmatch=True))),
    st.builds(Blamed, some(TEXT | st.integers(0, 30).map(str))),
    st.tuples(NS, NS).map(sorted).map(lambda sides: Alive(*sides)),
    st.builds(Alive, st.none() | NS, st.none()),
    st.builds(Part, st.just("phase"), st.sampled_from([p.value for p in Phase]), OPS, SHARES | NS),
    st.builds(Part, st.just("cause"), CAUSES, OPS, SHARES | NS),
)  # fmt: skip
terms = plain | st.builds(Not, plain)
filters = st.lists(terms, max_size=4, unique=True).map(lambda found: Filter(tuple(found)))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A run with every way to end in it, and names that look like markup."""
    with Session(mixed_ends(tmp_path_factory.mktemp("runs"))) as opened:
        yield opened


def picked(session: Session, only: Filter) -> set[tuple[int, int]]:
    rows = session.picked(only)
    return set(zip(rows["rid"].to_pylist(), rows["attempt"].to_pylist(), strict=True))


@given(filters)
def test_what_is_printed_is_what_is_read(made: Filter) -> None:
    assert parse_filter(str(made)) == made
    assert str(parse_filter(str(made))) == str(made)


@settings(max_examples=60, deadline=None)
@given(one=filters, other=filters)
def test_a_conjunction_is_an_intersection(session: Session, one: Filter, other: Filter) -> None:
    assert picked(session, one & other) == picked(session, one) & picked(session, other)


@settings(max_examples=60, deadline=None)
@given(term=plain)
def test_a_term_and_its_negation_share_out_all_requests(session: Session, term: Words | Bound | Alive | Part) -> None:
    mine, others = picked(session, Filter((term,))), picked(session, Filter((Not(term),)))
    assert mine | others == picked(session, EVERYTHING)
    assert not mine & others


@pytest.mark.parametrize(
    "text",
    [
        "",
        "status:ok",
        "id:chat-*",
        "cause:QUEUE>5%",
        "phase:decode>100ms",
        'http_status:"" max_tokens:16',
        "culprit:3",
        "culprit:long-*",
        "alive:..100ms",
    ],
)
def test_a_filter_picks_what_a_hand_written_question_finds(session: Session, text: str) -> None:
    by_hand = {
        "": "true",
        "status:ok": "status = 'ok'",
        "id:chat-*": "request_id LIKE 'chat-%'",
        "cause:QUEUE>5%": """100 * (SELECT coalesce(sum(ns), 0) FROM causes
            WHERE causes.rid = latency.rid AND cause LIKE 'QUEUE%') > 5 * e2e_ns""",
        "phase:decode>100ms": """(SELECT sum("end" - start) FROM spans
            WHERE spans.rid = latency.rid AND name = 'decode') > 100000000""",
        'http_status:"" max_tokens:16': "max_tokens = 16",
        "culprit:3": "EXISTS (SELECT 1 FROM causes WHERE causes.rid = latency.rid AND culprit = 3)",
        "culprit:long-*": """EXISTS (SELECT 1 FROM causes WHERE causes.rid = latency.rid AND culprit IN
            (SELECT rid FROM requests WHERE starts_with(request_id, 'long-')))""",
        "alive:..100ms": "arrival < (SELECT min(arrival) FROM latency) + 100000000",
    }
    lived = "latency JOIN (SELECT rid, attempt, max_tokens FROM requests) AS asked USING (rid, attempt)"
    found = session.query(f"SELECT rid, attempt FROM {lived} WHERE {by_hand[text]}").to_pylist()
    assert picked(session, parse_filter(text)) == {(row["rid"], row["attempt"]) for row in found}
    assert found


def test_names_that_look_like_markup_or_patterns_are_found(session: Session) -> None:
    assert len(picked(session, parse_filter("id:[red]x[/"))) == 1
    assert len(picked(session, parse_filter('id:"[@click=app.quit]q"'))) == 1
    assert len(picked(session, parse_filter("id:[*"))) == 2
    assert picked(session, parse_filter("id:chat%")) == set()
    assert picked(session, parse_filter("id:'")) == set()


def test_alive_counts_from_the_first_arrival_and_an_open_request_lives_on(session: Session) -> None:
    late = picked(session, parse_filter("alive:1h.."))
    assert late == picked(session, parse_filter("status:open"))


def test_spellings_of_one_filter() -> None:
    assert parse_filter("status=OK") == parse_filter("status:ok")
    assert parse_filter("!tier:paid") == parse_filter("-tier:paid")
    assert parse_filter("cause:queue") == parse_filter("cause:QUEUE>0s") == Filter((Part("cause", "QUEUE"),))
    assert parse_filter("e2e>1.5s e2e>1500ms") == Filter((Bound("e2e", ">", 1_500_000_000),))
    assert parse_filter("cause:QUEUE>050.0%") == parse_filter("cause:QUEUE>50%")
    assert parse_filter("prompt_tokens>5 request_id:a") == parse_filter("prompt>5 id:a")
    assert parse_filter("http_status=429") == Filter((Words("http_status", ("429",)),))


def test_every_column_of_a_request_is_a_field() -> None:
    for column in REQUESTS.columns:
        is_words = isinstance(column.kind, int) or column.words
        text = (
            f"{column.name}:{'ok' if column.words else '4'}"
            if is_words
            else f"{column.name}>4{'s' if column.unit else ''}"
        )
        if column.name == "worker":
            text = "worker:4"
        assert len(parse_filter(text).terms) == 1, text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("statu:ok", "did you mean status?"),
        ("status:okay", "did you mean ok?"),
        ("e2e>2", "such as 2ms or 2s"),
        ("e2e:2s", "write e2e>500ms"),
        ("prompt>many", "whole number"),
        ("prompt:many", "write prompt>100 or prompt:100"),
        ("http_statu:429", "did you mean http_status?"),
        ("deadline>3", "such as 3ms or 3s"),
        ("culprit>3", "culprit:812"),
        ("culprit:", "culprit:812"),
        ("tier>3", "write tier:3"),
        ("tier:", "needs a word"),
        ("cause:STALLED_BY_PREFIL>2%", "did you mean STALLED_BY_PREFILL?"),
        ("cause:", "such as cause:QUEUE>20%"),
        ("phase:decoding", "did you mean decode?"),
        ("alive:2s", "alive:2s..5s"),
        ("alive:5s..2s", "ends before it begins"),
        ('tier:"a', "not closed"),
        ('tier:a"b"', "around a whole word"),
        ("chat-010", "id:*chat-010*"),
        ("-", "no term"),
        ("id:\x00", "zero byte"),
    ],
)
def test_bad_text_gets_an_answer_that_helps(text: str, words: str) -> None:
    with pytest.raises(FilterError, match=re.escape(words)):
        parse_filter(text)


@given(st.text(max_size=30))
def test_no_text_makes_it_fall_over(text: str) -> None:
    try:
        made = parse_filter(text)
    except FilterError:
        return
    assert parse_filter(str(made)) == made


@given(st.text(max_size=20))
def test_completions_go_on_with_what_was_typed(text: str) -> None:
    for ending in complete(text, NAMES):
        assert ending.lower().startswith(text.rpartition(":")[0].lower())


def test_completion_knows_fields_states_causes_and_the_names_of_the_run() -> None:
    assert complete("st", NAMES) == ["status:"]
    assert complete("status:ok e2", NAMES) == ["status:ok e2e>"]
    assert complete("status:ok,ex", NAMES) == ["status:ok,expired"]
    assert complete("-tier:p", NAMES) == ['-tier:"paid gold"']
    assert complete("cause:stalled", NAMES) == ["cause:STALLED_BY_PREFILL"]
    assert complete("", NAMES) == []


def test_a_term_can_be_taken_away(tmp_path: Path) -> None:
    made = parse_filter("status:ok e2e>2s tier:free")
    assert str(made.without(1)) == "status:ok tier:free"
    assert not Filter((made.terms[0],)).without(0)
