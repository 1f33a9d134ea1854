"""Who takes the tail: every table closes to the nanosecond, on any run (SPEC F1, F2, F3)."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.blame.answer import blame, document
from console.blame.cohorts import Cohorts, Slow, SlowError, parse_slow, read_cohorts, slow_ideas
from console.blame.interference import CLASSES, interference_of, read_culprits, read_interference, read_pairs
from console.blame.ledgers import Ledger, Ledgers, excess, ledger_of, read_ledgers, read_whole
from console.blame.spread import KINDS, read_spread, spread_of
from console.cli import main
from console.filter import EVERYTHING
from console.filter_language import parse_filter
from console.lanes import load_lanes
from console.measures import E2E, TPOT, TTFT
from console.report import UNNAMED
from console.session import Session
from console.text.blame import blame_lines, excess_table
from console.widgets.ink import width_of
from tests.console import tui_runs
from tests.console.runs import MS, request, write_run

ODD = [tui_runs.empty, tui_runs.one_request, tui_runs.no_duration, tui_runs.all_rejected, tui_runs.mixed_ends,
       tui_runs.damaged]  # fmt: skip
SLOW = ["p95", "p50", "ttft:p90", "tpot:p99", "300ms", "ttft>50ms", "1h"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A served run in which long prompts stall chats."""
    with Session(tui_runs.served(tmp_path_factory.mktemp("runs"), count=60)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "slow"),
    [
        ("p95", Slow()),
        ("P99.9", Slow(percentile=Decimal("99.9"))),
        ("p100", Slow(percentile=Decimal(100))),
        ("ttft:p50", Slow(TTFT, Decimal(50))),
        ("2s", Slow(limit_ns=2_000 * MS)),
        ("tpot>50ms", Slow(TPOT, limit_ns=50 * MS)),
        ("e2e:1.5s", Slow(E2E, limit_ns=1_500 * MS)),
    ],
)
def test_what_is_slow_is_read_and_printed(text: str, slow: Slow) -> None:
    assert parse_slow(text) == slow
    assert parse_slow(str(slow)) == slow


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p20", "upper half"),
        ("p101", "from 0 to 100"),
        ("ttft:p1000", "from 0 to 100"),
        ("slow", "needs a time"),
        ("2", "such as 2ms or 2s"),
        ("", "what is slow"),
        ("p 95", "p95"),
    ],
)
def test_what_is_not_slow_gets_an_answer_that_helps(text: str, words: str) -> None:
    with pytest.raises(Exception, match=words) as raised:
        parse_slow(text)
    assert isinstance(raised.value, SlowError) or "slow" in str(raised.value)


@pytest.mark.parametrize("text", SLOW)
def test_cohorts_are_what_a_hand_written_question_finds(session: Session, text: str) -> None:
    slow = parse_slow(text)
    with session.connect() as cursor:
        cohorts = read_cohorts(session, slow, cursor)
        ledgers = read_ledgers(session, cohorts, cursor)
        whole = read_whole(session, cursor)
    with session.connect(parse_filter("status:ok")) as cursor:
        assert read_whole(session, cursor) == whole
    column = f"{slow.measure.name}_ns"
    rows = session.query(f"SELECT {column} AS ns FROM latency WHERE status = 'ok'").to_pylist()
    times = sorted(row["ns"] for row in rows if row["ns"] is not None)

    def rank(share: Fraction) -> float:
        return float(times[-(-share.numerator * len(times) // share.denominator) - 1])

    is_slow: Callable[[float], bool] = lambda ns: ns > (slow.limit_ns or 0)  # noqa: E731
    if slow.limit_ns is None:
        is_slow = lambda ns: ns >= rank(Fraction(slow.percentile / 100))  # noqa: E731
    typical = [ns for ns in times if rank(Fraction(1, 4)) <= ns <= rank(Fraction(3, 4)) and not is_slow(ns)]
    assert ledgers.slow.n == sum(map(is_slow, times))
    assert ledgers.typical.n == len(typical)
    assert whole.n == len(rows)
    if slow.measure is not TPOT:  # a filter has whole ns
        assert session.picked(cohorts.slow_filter).num_rows == ledgers.slow.n


@pytest.mark.parametrize("slo_ns", [None, 100 * MS])
def test_who_is_slow_is_slow_on_the_timeline_and_to_the_request_screen(session: Session, slo_ns: int | None) -> None:
    """At the percentile or beyond it; over an SLO, which whoever takes just as long has kept."""
    with session.connect() as cursor:
        cohorts = read_cohorts(session, slow_ideas(slo_ns)[0], cursor)
        lanes = load_lanes(session, cursor)
        limit = {"limit": cohorts.edge, "at": cohorts.at, "way": 1}
        after = session.ask("next_slow", cursor=cursor, arrival=-1, rid=-1, **limit)["rid"].to_pylist()
    slow = sorted(session.picked(cohorts.slow_filter)["rid"].to_pylist())
    assert [lanes.lane(index).rid for index in lanes.slow(slo_ns).tolist()] == slow
    assert after == slow[:1]


@pytest.mark.parametrize("text", SLOW)
def test_the_excess_sums_to_the_difference_of_the_means(session: Session, text: str) -> None:
    with session.connect() as cursor:
        found = read_ledgers(session, read_cohorts(session, parse_slow(text), cursor), cursor)
    for ledger in (found.slow, found.typical):
        assert sum(ledger.phases.values()) == sum(ledger.causes.values()) == ledger.e2e_ns
        assert UNNAMED in ledger.phases
        assert UNNAMED in ledger.causes
    for kind in ("phases", "causes"):
        rows = excess(found.slow, found.typical, kind)
        if not found.slow.n:
            assert rows == []
            continue
        slow, typical = found.slow, found.typical
        assert sum(row.ns for row in rows) == slow.mean(slow.e2e_ns) - typical.mean(typical.e2e_ns)
        assert sum((row.share or Fraction(0)) for row in rows) == 1
        assert rows[-1].name == UNNAMED
        assert [row.ns for row in rows[:-1]] == sorted((row.ns for row in rows[:-1]), reverse=True)


def test_long_prompts_stall_the_slow_ones_of_the_served_run(session: Session) -> None:
    """The planted cause comes first, and the culprits are the long prompts."""
    chats = parse_filter("id:chat-*")
    found = blame(session, chats, by="prompt")
    assert found.ledgers.slow.n == 3
    assert found.whole.n == 52
    assert excess(found.ledgers.slow, found.ledgers.typical, "causes")[0].name == "STALLED_BY_PREFILL"
    assert str(found.culprits[0]["culprit_id"]).startswith("long-")
    assert found.interference.culprits[0] == "512-2047"
    assert all(str(row["request_id"]).startswith("chat-") for row in found.pairs)


def test_what_is_modelled_is_marked_in_every_table(session: Session) -> None:
    lines = ["".join(piece for piece, _ in line) for line in blame_lines(blame(session, by="cause"), 160)]
    named = [line for line in lines if "STALLED_BY_PREFILL" in line]
    assert len(named) > 10
    assert all("STALLED_BY_PREFILL~" in line for line in named)
    assert lines[-1] == "~ in part modelled, not measured"


def test_what_rounds_to_nothing_has_no_minus() -> None:
    slow = Ledger(1, 2_000_000_000, {"queue": 9, "decode": 1_999_999_991, UNNAMED: 0}, {})
    typical = Ledger(1, 1_000_000_000, {"queue": 10, "decode": 999_999_990, UNNAMED: 0}, {})
    table = excess_table(Ledgers(Cohorts(Slow(), 2, 2e9, 1e9, 1e9), slow, typical), "phases", 120)
    said = next(text for line in table.lines if "queue" in (text := "".join(piece for piece, _ in line)))
    assert said.split()[2:6] == ["0.000", "0.000", "+0.000", "+0.0%"]


def test_a_missing_nanosecond_is_unnamed_and_shown() -> None:
    rows: list[dict[str, object]] = [
        {"kind": "e2e", "name": "E2E", "ns": 100, "n": 2, "measured": True},
        {"kind": "phase", "name": "queue", "ns": 60, "n": None, "measured": True},
        {"kind": "cause", "name": UNNAMED, "ns": 7, "n": None, "measured": True},
        {"kind": "cause", "name": "DECODE", "ns": 90, "n": None, "measured": False},
    ]
    ledger = ledger_of(rows)
    assert ledger.phases == {"queue": 60, UNNAMED: 40}
    assert ledger.causes == {"DECODE": 90, UNNAMED: 10}
    assert list(ledger.causes)[-1] == UNNAMED
    assert ledger.n == 2
    assert ledger.mean(ledger.e2e_ns) == Fraction(50)
    assert ledger.modelled == {"DECODE"}


PARTS = st.lists(
    st.fixed_dictionaries({}, optional={name: st.integers(-50, 10**12) for name in ("a", "b", "c")}),
    min_size=1,
    max_size=6,
)


@given(PARTS, st.lists(st.integers(0, 10**13), min_size=6, max_size=6))
def test_the_spread_closes_whatever_is_unnamed(requests: list[dict[str, int]], e2e: list[int]) -> None:
    """Var(E2E) = sum Var + 2 sum Cov, exactly, and each covariance is that of its definition."""
    vectors = [{**parts, "E2E": whole, "1": 1} for parts, whole in zip(requests, e2e, strict=False)]
    names = sorted({name for one in vectors for name in one})
    products = [
        (a, b, sum(one.get(a, 0) * one.get(b, 0) for one in vectors)) for a in names for b in names if a <= b
    ]  # fmt: skip
    found = spread_of(products)
    for one in vectors:
        one[UNNAMED] = one["E2E"] - sum(ns for name, ns in one.items() if name in "abc")
    assert found.n == len(vectors)
    assert found.variance == _covariance(vectors, "E2E", "E2E")
    for a, b in found.covariances:
        assert found.of(a, b) == found.of(b, a) == _covariance(vectors, a, b)
    own = sum(found.of(name, name) for name in found.parts)
    assert own + sum(twice for _, _, twice in found.pairs()) == found.variance
    assert sum(found.with_whole(name) for name in found.parts) == found.variance
    assert found.parts[-1] == UNNAMED


def _covariance(vectors: list[dict[str, int]], a: str, b: str) -> Fraction:
    n = len(vectors)
    means = [Fraction(sum(one.get(name, 0) for one in vectors), n) for name in (a, b)]
    return sum(((one.get(a, 0) - means[0]) * (one.get(b, 0) - means[1]) for one in vectors), Fraction(0)) / n


@pytest.mark.parametrize("text", ["", "id:chat-*", "id:nobody"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_spread_of_a_run_is_that_of_its_requests(session: Session, kind: str, text: str) -> None:
    """Against numpy, in floating point."""
    with session.connect(parse_filter(text)) as cursor:
        found = read_spread(session, kind, cursor)
        source = (
            'SELECT rid, name, "end" - start AS ns FROM spans'
            if kind == "phases"
            else "SELECT rid, cause, ns FROM causes"
        )
        rows = session.query(source, cursor=cursor).to_pylist()
        e2e = {
            row["rid"]: row["e2e_ns"]
            for row in session.query("SELECT rid, e2e_ns FROM latency", cursor=cursor).to_pylist()
        }
    assert found.n == len(e2e)
    if not e2e:
        return
    parts = {name: dict.fromkeys(e2e, 0) for name in found.parts}
    for rid, name, ns in (row.values() for row in rows):
        if rid in e2e:
            parts[name][rid] += ns
    if kind == "phases":
        parts[UNNAMED] = {rid: ns - sum(parts[name][rid] for name in found.parts) for rid, ns in e2e.items()}
    columns = np.array([list(parts[name].values()) for name in found.parts], dtype=np.float64)
    expected = np.cov(columns, bias=True)
    for (i, a), (j, b) in product(enumerate(found.parts), repeat=2):
        assert float(found.of(a, b)) == pytest.approx(expected[i, j], rel=1e-6, abs=1e3)
    assert float(found.variance) == pytest.approx(np.var(list(e2e.values())))


@pytest.mark.parametrize("by", CLASSES)
@pytest.mark.parametrize("text", ["", "id:chat-*"])
def test_the_matrix_sums_to_the_budget(session: Session, by: str, text: str) -> None:
    with session.connect(parse_filter(text)) as cursor:
        matrix = read_interference(session, by, cursor)
        budget = session.ask("answered_time", cursor=cursor).to_pylist()[0]["ns"]
        blamed = read_culprits(session, cursor)[0]["whole_ns"]
        pairs = read_pairs(session, cursor, top=10**6)
    assert matrix.e2e_ns == budget == sum(matrix.blamed(victim) + matrix.ns(victim, None) for victim in matrix.victims)
    others = sum(matrix.ns(victim, culprit) for victim in matrix.victims for culprit in matrix.culprits)
    assert others == blamed == sum(row["ns"] for row in pairs) > 0
    assert all(row["ns"] == sum(one["ns"] for one in row["causes"]) for row in pairs)


def test_culprits_outside_the_filter_keep_their_class(session: Session) -> None:
    """The filter chooses victims; who took their time is told whoever it was."""
    with session.connect(parse_filter("id:chat-*")) as cursor:
        matrix = read_interference(session, "prompt", cursor)
    assert {"512-2047"} <= set(matrix.culprits)
    assert {"512-2047"}.isdisjoint(matrix.victims)


def test_time_of_a_culprit_that_is_not_in_the_run_is_unknown_not_nobodys() -> None:
    rows: list[dict[str, object]] = [
        {"victims": "free", "culprits": None, "cause": "DECODE", "ns": 5},
        {"victims": "free", "culprits": "unknown", "cause": "QUEUE/BEHIND_FIFO", "ns": 3},
        {"victims": "", "culprits": "free", "cause": "DECODE", "ns": 2},
    ]
    matrix = interference_of("tier", rows)
    assert (matrix.e2e_ns, matrix.blamed("free"), matrix.ns("free", None), matrix.blamed("")) == (10, 3, 5, 2)
    assert matrix.culprits == ["unknown", "free"]


def test_culprits_of_one_cause(session: Session) -> None:
    with session.connect() as cursor:
        found = read_culprits(session, cursor, cause="STALLED_BY_PREFILL")
    assert found
    assert {one["cause"] for row in found for one in row["causes"]} == {"STALLED_BY_PREFILL"}
    whole = session.query(
        "SELECT sum(ns)::BIGINT AS ns FROM causes WHERE cause = 'STALLED_BY_PREFILL' AND culprit >= 0"
    )
    assert found[0]["whole_ns"] == whole.to_pylist()[0]["ns"]


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_odd_runs_are_told_of_within_any_width(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with Session(make(tmp_path)) as opened:
        for text in ("", "status:ok", "id:nobody"):
            found = blame(opened, parse_filter(text))
            json.dumps(document(found), allow_nan=False)
            for width in (60, 80, 160):
                assert all(width_of(line) <= width for line in blame_lines(found, width))
            whole = found.whole
            assert sum(whole.phases.values()) == sum(whole.causes.values()) == whole.e2e_ns == found.interference.e2e_ns


def test_columns_of_minutes_do_not_touch_each_other(tmp_path: Path) -> None:
    rows = [request(rid, 0, returned_ms=100_000 + (rid > 3) * 345_678, output_tokens=1) for rid in range(1, 5)]
    with Session(write_run(tmp_path, {"requests": rows})) as opened:
        found = blame(opened, EVERYTHING)
    said = ["".join(piece for piece, _ in line) for line in blame_lines(found, 80)]
    sums = next(line for line in said if "sum = mean E2E" in line)
    assert sums.split()[-3:] == ["445,678.0", "100,000.0", "+345,678.0"]


def test_products_beyond_a_word_are_exact(tmp_path: Path) -> None:
    """Hours squared take more than 64 bits in ns."""
    hours = [request(rid, 0, returned_ms=rid * 3_600_000 + 1, output_tokens=1) for rid in (1, 2, 3)]
    with Session(write_run(tmp_path, {"requests": hours})) as opened, opened.connect() as cursor:
        found = read_spread(opened, "causes", cursor)
    assert found.variance == Fraction(2 * (3_600_000 * MS) ** 2, 3)


def test_the_command_prints_the_numbers_of_the_document(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(session.path)
    assert main(["blame", run, "--slow", "p90", "--by", "cause", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cohorts"]["slow"] == "e2e:p90"
    assert sum(found["whole"]["causes_ns"].values()) == found["whole"]["e2e_ns"] == found["interference"]["e2e_ns"]
    assert sum(part["share"] for part in found["spread"]["phases"]["parts"]) == pytest.approx(1)
    assert set(found["spread"]) == set(KINDS)
    assert main(["blame", run, "--slow", "p90"]) == 0
    text = capsys.readouterr().out
    assert f"{found['whole']['e2e_ns']:,} ns" in text
    assert text.count(UNNAMED) >= 5
    assert main(["blame", run, "--slow", "p9"]) == 2
    assert "upper half" in capsys.readouterr().err
