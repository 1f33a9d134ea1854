"""Causes as a waterfall and as a table: the same rows, the same numbers, cell for cell (SPEC F1)."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.request import Life
from console.text.request import request_lines
from console.theme import CAUSES, cause_look
from console.waterfall import cells, falls, falls_of_rows
from console.widgets.ink import duration
from console.widgets.life import panes_of

MS = 1_000_000
names = st.sampled_from([*CAUSES, "PREEMPTED/KV_BLOCKS"])
rows = st.lists(
    st.fixed_dictionaries(
        {
            "cause": names,
            "root": st.sampled_from(["", "KV_BLOCKS"]),
            "ns": st.integers(1, 10**12),
            "measured": st.booleans(),
            "culprit": st.none() | st.integers(0, 99),
            "culprit_id": st.sampled_from([None, "req-1", "[bold]x"]),
        }
    ),
    min_size=1,
    max_size=12,
)


def life(causes: list[dict[str, Any]]) -> Life:
    """An attempt of which only the causes matter."""
    whole = sum(cause["ns"] for cause in causes)
    numbers = ("prompt_tokens", "output_tokens", "max_tokens", "cached_tokens", "preemptions", "queue_depth",
               "http_status", "worker", "ttft_ns", "tpot_ns", "queue_ns", "admitted", "queued", "first_scheduled",
               "first_token", "last_token")  # fmt: skip
    request: dict[str, Any] = dict.fromkeys(numbers) | dict.fromkeys(("tier", "tenant", "model", "reason"), "")
    request |= {"rid": 1, "attempt": 1, "request_id": "r", "status": "ok", "incomplete": False, "arrival": 0}
    request |= {"returned": whole, "e2e_ns": whole}
    return Life(request=request, causes=causes, phases=[], gaps=[], neighbours=[], passes=[], family=[], steps=[],
                events=[])  # fmt: skip


@given(rows, st.integers(1, 200))
def test_bars_follow_each_other_and_fill_the_whole(causes: list[dict[str, Any]], room: int) -> None:
    steps = falls(causes)
    whole = sum(cause["ns"] for cause in causes)
    bars = [cells(step.before, step.ns, whole, room) for step in steps]
    assert (bars[0].start, bars[-1].stop) == (0, room)
    assert all(len(bar) for bar in bars)
    for one, other in pairwise(bars):
        assert one.stop - 1 <= other.start <= one.stop or room < len(bars)
    for step, bar in zip(steps, bars, strict=True):
        assert abs(len(bar) - step.ns * room / whole) < 2


@given(rows)
def test_the_waterfall_has_the_sums_of_the_table(causes: list[dict[str, Any]]) -> None:
    for step in falls(causes):
        own = [cause for cause in causes if cause["cause"] == step.cause]
        assert step.ns == sum(cause["ns"] for cause in own)
        assert step.measured == all(cause["measured"] for cause in own)
    assert falls_of_rows(causes)[0].before == 0
    last = falls_of_rows(causes)[-1]
    assert last.before + last.ns == sum(cause["ns"] for cause in causes)


@given(rows, st.integers(80, 160))
def test_what_is_drawn_is_what_is_written(causes: list[dict[str, Any]], width: int) -> None:
    """On the screen: the glyphs of a row stand in the cells that its number has, from where the row above ended."""
    pane = panes_of(life(causes))[0]
    whole, before = sum(cause["ns"] for cause in causes), 0
    room = sum(len(text) for text, _ in pane.draw(0, width)[4:7])
    ordered = [pane.say(row)[0][0] for row in range(pane.rows)]
    for row in range(pane.rows):
        ns = int(ordered[row].removesuffix(" ns").replace(",", ""))
        line = pane.draw(row, width)
        assert line[2][0].strip() == duration(ns)
        bar = "".join(text for text, _ in line[4:7])
        lit = cells(before, ns, whole, room)
        glyph = cause_look(line[1][0].strip().rstrip("~")).glyph
        assert bar == " " * lit.start + glyph * len(lit) + " " * (room - lit.stop)
        before += ns
    assert before == whole


@given(rows, st.integers(60, 120))
def test_the_page_of_the_headless_twin_has_the_same_numbers(causes: list[dict[str, Any]], width: int) -> None:
    page = ["".join(text for text, _ in line) for line in request_lines(life(causes), width)]
    begin = next(i for i, line in enumerate(page) if line.startswith("Waterfall"))
    steps = falls(causes)
    for step, line in zip(steps, page[begin + 1 :], strict=False):
        assert line.endswith(f"{step.ns / MS:,.3f}")
    table = next(i for i, line in enumerate(page) if line.startswith("Causes"))
    written = [int(line[24:42].replace(",", "")) for line in page[table + 1 : table + 1 + len(causes)]]
    assert sorted(written) == sorted(cause["ns"] for cause in causes)
    assert "sum = E2E" in page[table]


def test_nothing_has_no_cells() -> None:
    assert [len(cells(0, ns, whole, room)) for ns, whole, room in ((0, 5, 5), (-3, 5, 5), (5, 0, 5), (5, 5, 0))] == [
        0
    ] * 4
