"""What sets requests apart: planted differences come first, noise is called chance, too few is no answer (SPEC F3)."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import kept
from console.blame.cohorts import parse_slow
from console.cli import main
from console.contrast import samples
from console.contrast.answer import Sides, contrast, document
from console.contrast.attributes import ATTRIBUTES, LEFT_OUT, Attribute, is_told, part, term
from console.contrast.counting import EXACT, MOST_WORDS, Sample, count_numbers, count_words
from console.contrast.findings import LEAST, bins, judge
from console.contrast.narrowing import narrowing
from console.filter import EVERYTHING, Filter
from console.filter_language import parse_filter
from console.keeping import make
from console.kept import fingerprint
from console.session import Session, question
from console.text.contrast import chance, contrast_lines, finding_lines, ranking, value_text
from console.widgets.ink import width_of
from recorder.schema import REQUESTS
from tests.console import tui_runs
from tests.console.test_blame import ODD

COUNT = Attribute("running", "requests running", "state", "", "running")
WORD = Attribute("tier", "tier", "given", "", "tier")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A served run with a long prompt among every eight chats."""
    with Session(tui_runs.served(tmp_path_factory.mktemp("runs"), count=120)) as opened:
        yield opened


def numbers(inside: list[int], outside: list[int], attribute: Attribute = COUNT) -> Sample:
    values = sorted({*inside, *outside})
    sides = (np.array([side.count(value) for value in values]) for side in (inside, outside))
    return Sample(attribute, values, *sides)


def test_every_column_of_a_request_is_compared_or_said_to_be_left_out() -> None:
    asked = question("contrast_requests")
    compared = {column.name for column in REQUESTS.columns} - LEFT_OUT.keys()
    for name in compared:
        assert name in ATTRIBUTES, name
        assert name in asked, name
    fields = {attribute.field for attribute in ATTRIBUTES.values()}
    assert {"tier", "prompt", "queue_depth", "culprit"} <= fields
    assert len(compared) > 20


def _drawn(chooser: np.random.Generator) -> list[int]:
    return [int(value) for value in chooser.integers(0, 9, 60)]


def test_a_planted_difference_comes_first_and_noise_is_called_chance() -> None:
    chooser = np.random.default_rng(5)
    noise = [
        numbers(_drawn(chooser), _drawn(chooser), Attribute(f"noise{i}", f"noise {i}", "given")) for i in range(40)
    ]
    planted = numbers([7, 8, 9] * 20, [1, 2, 3] * 20)
    found = judge([*noise, planted])
    assert [one.attribute.name for one in found.believed] == ["running"]
    assert len(found.chance) == 40
    first = found.believed[0]
    assert first.effect == pytest.approx(1)
    assert (first.inside, first.outside, first.value, first.below, first.size) == (8, 2, 7, False, "large")


@given(
    st.lists(st.integers(0, 5), min_size=LEAST, max_size=30), st.lists(st.integers(0, 5), min_size=LEAST, max_size=30)
)
def test_the_value_that_tells_apart_is_where_the_shares_differ_most(inside: list[int], outside: list[int]) -> None:
    found = judge([numbers(inside, outside)])
    for one in (*found.believed, *found.chance):
        assert not isinstance(one.value, str)

        def share(side: list[int], value: int, below: bool) -> float:
            return sum((number < value) is below for number in side) / len(side)

        gained = share(inside, one.value, one.below) - share(outside, one.value, one.below)
        assert gained == pytest.approx(
            max(abs(share(inside, value, True) - share(outside, value, True)) for value in range(7))
        )


@given(st.lists(st.tuples(st.integers(-(10**12), 10**12), st.booleans()), min_size=1, max_size=200))
def test_numbers_are_counted_each_or_with_those_less_than_one_percent_away(drawn: list[tuple[int, bool]]) -> None:
    values, inside = [value for value, _ in drawn], [side for _, side in drawn]
    counted = count_numbers(COUNT, np.array(values), np.array(inside))
    told = [int(str(value)) for value in counted.values]
    assert told == sorted(set(told))
    assert set(told) <= set(values)
    assert (counted.inside.sum(), counted.outside.sum()) == (sum(inside), len(inside) - sum(inside))
    assert {value for value in values if abs(value) < EXACT} <= set(told)
    for value in values:
        assert value - max(kept for kept in told if kept <= value) <= abs(value) * 0.0101


def test_numbers_that_are_counted_together_are_called_by_the_least() -> None:
    counted = count_numbers(COUNT, np.array([7, 1009, 1005, 7, 5000]), np.array([True, True, False, False, False]))
    assert (counted.values, counted.inside.tolist(), counted.outside.tolist()) == (
        [7, 1005, 5000], [1, 1, 0], [1, 1, 1],
    )  # fmt: skip


def test_rare_words_are_counted_together_and_those_that_nobody_has_are_not() -> None:
    words = [f"w{place:02}" for place in range(MOST_WORDS + 3)]
    code = np.array([*range(MOST_WORDS + 2), *range(MOST_WORDS)])
    counted = count_words(WORD, words, code, np.arange(len(code)) < MOST_WORDS + 2)
    assert list(counted.values) == [*words[:MOST_WORDS], None]
    assert counted.inside.tolist() == [1] * MOST_WORDS + [2]
    assert counted.outside.tolist() == [1] * MOST_WORDS + [0]


def test_words_are_ranked_by_the_one_that_differs_most() -> None:
    sample = Sample(WORD, ["free", "gold", None], np.array([2, 30, 8]), np.array([60, 20, 20]))
    one = judge([sample]).believed[0]
    assert (one.value, one.inside, one.outside) == ("gold", 0.75, 0.2)
    assert one.effect == pytest.approx(0.55)
    assert str(term(one.attribute, one.value)) == "tier:gold"
    other = judge([Sample(WORD, [None, "x"], np.array([40, 1]), np.array([10, 31]))]).believed[0]
    assert other.value == "x"
    assert other.effect == pytest.approx(1 / 41 - 31 / 41)


def test_too_few_or_all_alike_is_no_finding() -> None:
    found = judge([numbers([1] * 9, [1] * 9), numbers([1, 2] * 3, [3] * 40, WORD)])
    assert (found.believed, found.chance) == ([], [])
    assert (found.same, found.unknown) == ([COUNT.title], [WORD.title])


@given(st.lists(st.integers(-(10**9), 10**9), min_size=LEAST, max_size=40), st.integers(3, 12))
def test_a_histogram_holds_everybody(values: list[int], cells: int) -> None:
    found = judge([numbers(values, [0, 1] * LEAST)])
    for one in (*found.believed, *found.chance):
        for side in bins(one, cells):
            assert sum(side) == pytest.approx(1)
            assert len(side) == cells
        assert all(width_of(line) <= 60 for line in finding_lines(one, 60, 20))


@pytest.mark.parametrize(
    ("attribute", "value", "below", "text"),
    [
        (ATTRIBUTES["prompt_tokens"], 2048, False, "prompt>=2048"),
        (ATTRIBUTES["queue_depth"], 3, True, "queue_depth<3"),
        (ATTRIBUTES["ttft"], 1500, False, "ttft>=1500us"),
        (ATTRIBUTES["worker"], "1", False, "worker:1"),
        (ATTRIBUTES["reason"], "", False, 'reason:""'),
        (ATTRIBUTES["culprit"], "812", False, "culprit:812"),
        (part("cause", "QUEUE/SEQ_SLOTS", "permille"), 125, False, "cause:QUEUE/SEQ_SLOTS>=12.5%"),
        (part("phase", "decode", "permille"), 40, True, "phase:decode<4%"),
        (part("cause", "STALLED_BY_PREFILL", "us"), 40_000, False, "cause:STALLED_BY_PREFILL>=40ms"),
    ],
)
def test_a_value_becomes_a_term_that_can_be_typed(
    attribute: Attribute, value: int | str, below: bool, text: str
) -> None:
    made = term(attribute, value, below=below)
    assert str(made) == text
    assert parse_filter(text).terms == (made,)


def test_what_a_filter_cannot_ask_makes_no_term() -> None:
    for name in ("arrival", "met_decodes", "culprit_tier", "main_cause", "staleness"):
        assert term(ATTRIBUTES[name], 3) is None
    assert term(ATTRIBUTES["culprit"], "") is None


def test_long_prompts_are_what_sets_apart_who_prefills_long(session: Session) -> None:
    """By another road than the prompt's length: its share of the time, so that the attribute has to be found."""
    found = contrast(session, parse_filter("phase:prefill>30%"), parse_filter("status:ok"))
    assert found.findings is not None
    names = [one.attribute.name for one in found.findings.believed]
    assert names.index("prompt_tokens") < 6
    first = next(one for one in found.findings.believed if one.attribute.name == "prompt_tokens")
    assert first.size == "large"
    assert first.inside > first.outside
    assert {"shares of E2E", "time in prefill"} <= set(found.left_out)


def test_every_chosen_request_is_counted_once_by_every_attribute(session: Session) -> None:
    """Whoever has no culprit, or none of a phase, has a value too: that it is none of them."""
    with session.connect() as cursor:
        chosen = samples.choose(session, cursor, parse_filter("id:long-*"), parse_filter("status:ok"))
        samples.show(cursor, chosen)
        found = [*samples.samples_told(chosen), *samples.read_lived(session, cursor)]
    by_name = {sample.attribute.name: sample for sample in found}
    for name in ("tier", "status", "arrival", "e2e", "phase:decode", "cause:PREFILL:share", "main_cause", "culprit"):
        assert (by_name[name].inside.sum(), by_name[name].outside.sum()) == (chosen.inside, chosen.outside), name
    for sample in found:
        assert len(set(sample.values)) == len(sample.values) == len(sample.inside) == len(sample.outside)
        assert (sample.inside + sample.outside).all()
    assert {"", "unknown"} & set(map(str, by_name["culprit_tier"].values))


def test_the_terms_of_findings_pick_more_inside_than_outside(session: Session) -> None:
    """Each chip that is offered keeps its promise, asked of the run by its filter."""
    chosen, rest = parse_filter("id:chat-* phase:decode>30%"), parse_filter("status:ok")
    found = document(contrast(session, chosen, rest))
    inside = _pairs(session, str(chosen))
    outside = _pairs(session, "status:ok") - inside
    checked = 0
    for one in found["findings"]:
        if one["filter"] is not None:
            picked = _pairs(session, one["filter"])
            shares = len(picked & inside) / len(inside), len(picked & outside) / len(outside)
            # Words may be told by being rarer inside; numbers are always from where there are more inside on.
            assert shares[0] != shares[1] if isinstance(one["value"], str) else shares[0] > shares[1], one["attribute"]
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("text", ["", "id:chat-*", "prompt>=40 prompt<60"])
def test_what_a_finding_leads_to_leaves_some_and_not_all(session: Session, text: str) -> None:
    """Of the filter, or of the run where there is none; whatever leads nowhere says why."""
    only = parse_filter(text)
    found = contrast(session, only, slow=parse_slow("p90"))
    assert found.findings is not None
    before, led = _pairs(session, text), 0
    for one in (*found.findings.believed, *found.findings.chance):
        asked = narrowing(one, found.sides, whole=not only)
        if isinstance(asked, str):
            assert " " in asked
        else:
            led += 1
            assert 0 < len(_pairs(session, str(only & Filter((asked,))))) < len(before), one.attribute.name
    assert led


def test_what_leads_nowhere_says_why() -> None:
    def led(sample: Sample, *, whole: bool = False) -> str:
        (one,) = (found := judge([sample])).believed or found.chance
        return str(narrowing(one, Sides(EVERYTHING, EVERYTHING, *one.n), whole=whole))

    low, high = [1, 2, 3] * 8, [7, 8, 9] * 8
    assert led(numbers(high, low)) == "running>=7 is true of all requests that are selected: it would leave out none"
    assert led(numbers(high, low), whole=True) == "running>=7"
    assert led(numbers([*high, 1], low)) == "running>=7"
    assert led(numbers(low, [*low, 9])) == "what differs may be chance: no value tells the sides apart"
    assert led(numbers(high, low, ATTRIBUTES["met_decodes"])) == "no filter can ask for this"
    words = Sample(WORD, ["free", "gold"], np.array([0, 20]), np.array([20, 0]))
    assert led(words) == "tier:gold is true of all requests that are selected: it would leave out none"
    rarer = Sample(WORD, ["free", "gold", "x"], np.array([0, 10, 10]), np.array([20, 10, 10]))
    assert led(rarer) == "none of the selected requests would be left by tier:free"
    assert led(rarer, whole=True) == "tier:free"


def _pairs(session: Session, text: str) -> set[tuple[int, int]]:
    rows = session.picked(parse_filter(text)).to_pylist()
    return {(row["rid"], row["attempt"]) for row in rows}


def test_of_very_many_some_are_drawn_and_that_is_said(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST", 30)
    found = contrast(session, parse_filter("id:long-*"))
    assert (found.sides.inside, found.sides.outside) == (15, 105)
    assert found.sides.drawn is not None
    assert found.sides.drawn[0] == 15
    assert 10 < found.sides.drawn[1] < 50
    assert any("drawn at random" in text for line in contrast_lines(found, 80) for text, _ in line)
    assert found.findings is not None
    assert found.findings.believed[0].n[1] <= found.sides.drawn[1]


def test_of_a_run_of_which_all_is_kept_the_same_is_told(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same are drawn, whether a filter is asked of wide rows or its answer is joined."""
    asked = [("", ""), ("", "prompt>30"), ("id:long-*", ""), ("prompt>40 -status:open", "status:ok"), ("culprit:3", "")]
    filters = [(parse_filter(selection), parse_filter(against)) for selection, against in asked]
    monkeypatch.setattr(samples, "MOST", 30)
    expected = [document(contrast(session, *each, parse_slow("p90"))) for each in filters]
    assert any(each["drawn"] for each in expected)
    monkeypatch.setattr(kept, "WORTH_KEEPING", 1)
    copy = Path(shutil.copytree(session.path, tmp_path / "copy"))
    with Session(copy) as opened:
        make(copy, copy / "kept.duckdb", fingerprint(opened.tables), lambda _part: None)
        opened.refresh()
        assert opened.is_quick(filters[2][0])
        decoded = opened.query("SELECT DISTINCT rid FROM slices WHERE role = 'decode'")
        assert opened.query("FROM kept.met").num_rows == decoded.num_rows > 0
        assert [document(contrast(opened, *each, parse_slow("p90"))) for each in filters] == expected


def test_without_a_selection_the_slow_answered_ones_are_compared(session: Session) -> None:
    found = contrast(session, EVERYTHING, EVERYTHING, parse_slow("p90"))
    assert found.sides.words.startswith("slow: E2E ≥ p90")
    assert found.sides.inside == 13  # ranks 108 to 120
    assert found.sides.inside + found.sides.outside == session.picked(parse_filter("status:ok")).num_rows
    assert {"E2E", "TTFT", "shares of E2E"} <= set(found.left_out)
    assert found.findings is not None
    assert found.findings.believed[0].effect > 0.5, "slow ones lost more, not a smaller share"


@pytest.mark.parametrize("text", ["id:nobody", "id:chat-000", "alive:0s.."])
def test_too_few_on_a_side_is_refused_in_words(session: Session, text: str) -> None:
    found = contrast(session, parse_filter(text))
    assert found.findings is None
    assert found.sides.refusal is not None
    assert "too few" in found.sides.refusal
    assert document(found)["findings"] == []
    assert any("too few" in text for line in contrast_lines(found, 200) for text, _ in line)


def test_who_selects_by_a_latency_selects_by_all_of_them() -> None:
    def told(text: str) -> set[str]:
        parts = [part("cause", name, unit) for name in ("QUEUE/SEQ_SLOTS", "DECODE") for unit in ("us", "permille")]
        everything = [*ATTRIBUTES.values(), *parts]
        return {attribute.name for attribute in everything if is_told(attribute, parse_filter(text))}

    shares = {"cause:QUEUE/SEQ_SLOTS:share", "cause:DECODE:share"}
    assert told("ttft>2s") == told("e2e<1s") == {"e2e", "ttft", "tpot", "queue", *shares}
    assert told("-tier:paid") == {"tier"}
    assert told("cause:QUEUE>2%") == {"cause:QUEUE/SEQ_SLOTS", "cause:QUEUE/SEQ_SLOTS:share"}
    assert told("alive:1s..2s") == {"arrival"}
    assert told("prompt>3 culprit:2") == {"prompt_tokens", "culprit"}


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_odd_runs_are_told_of_within_any_width(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with Session(make(tmp_path)) as opened:
        for text in ("", "status:ok", "status:rejected"):
            found = contrast(opened, parse_filter(text))
            json.dumps(document(found), allow_nan=False)
            for width in (60, 80, 160):
                assert all(width_of(line) <= width for line in contrast_lines(found, width))


def test_the_command_prints_what_the_document_holds(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["contrast", str(session.path), "--filter", "id:long-*", "--against", "status:ok"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["selection"] == "id:long-*"
    assert found["inside"] == 15
    assert found["findings"][0]["size"] == "large"
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert found["findings"][0]["title"] in text
    assert "may be chance" in text


def test_small_numbers_fit_their_column() -> None:
    assert [chance(p) for p in (0.5, 0.001, 0.0009, 1e-12, 3e-7, 0.0)] == [
        "0.500", "0.001", "< 1e-3", "< 1e-11", "< 1e-6", "< 1e-99",
    ]  # fmt: skip
    assert value_text(1500, "us") == "1.50ms"
    assert value_text(125, "permille") == "12.5%"


def test_few_values_are_told_one_by_one_and_cells_that_are_called_alike_are_one() -> None:
    def labels(sample: Sample) -> list[str]:
        (one,) = (found := judge([sample])).believed or found.chance
        lines = ["".join(text for text, _ in line) for line in finding_lines(one, 80, 20)]
        return [line[:15].strip() for line in lines if "%" in line[15:]]

    assert labels(numbers([0, 1, 40] * 8, [0, 2, 3] * 8)) == ["0", "1", "2", "3", "40"]
    many = labels(numbers([*range(12)] * 4, [0, 1, 2, 3] * 8 + [11, 12, 13]))
    assert many == sorted(set(many), key=many.index)
    assert many[0] == "from 0"


def test_all_that_is_told_of_an_attribute_fits_with_three_rows_of_it_at_least() -> None:
    (one,) = judge([numbers([*range(20, 40)] * 2, [*range(20)] * 2)]).believed
    for width, height in ((78, 8), (44, 40), (60, 20)):
        lines = ["".join(text for text, _ in line) for line in finding_lines(one, width, height)]
        assert len(lines) <= height
        assert sum("from " in line for line in lines) >= 3
        assert any(line.startswith("by chance: p") or "; by chance: p" in line for line in lines)


def test_a_title_has_the_cells_that_are_to_spare() -> None:
    words = Sample(ATTRIBUTES["culprit_prompt"], ["", "8192-32767"], np.array([0, 30]), np.array([30, 0]))
    found = judge([words])
    for width, whole in ((73, False), (78, True), (84, False), (104, True), (107, False), (118, True)):
        (row,) = ranking(found, width).rows
        assert width_of(row) < width
        assert any(text.strip() == "its culprit's prompt 8192-32767" for text, _ in row) is whole
