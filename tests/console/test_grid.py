"""A table of any length as lines: the rows that are seen, whatever is in them."""

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.querying.tables import ColumnDoc, TableDoc
from console.widgets.browser import browser_lines, history_entries, schema_entries
from console.widgets.grid import NULL, Grid
from console.widgets.ink import Line, width_of

texts = st.one_of(st.none(), st.text(max_size=20))


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def test_a_row_has_a_number_and_its_values_under_their_names() -> None:
    grid = Grid(pa.table({"name": ["a", None], "n": [1, 20]}))
    assert [text_of(line) for line in grid.heads(0, 30)] == ["   name        n  ", "   string  int64  "]
    assert [text_of(line).rstrip() for line in grid.lines(0, 9, 0, 30, chosen=1)] == [
        " 1 a           1",
        f"▸2 {NULL}          20",
    ]


def test_a_million_rows_are_read_where_one_looks() -> None:
    grid = Grid(pa.table({"i": pa.array(range(1_000_000), pa.int64())}))
    assert len(grid) == 1_000_000
    lines = grid.lines(999_998, 40, 0, 40, chosen=999_999)
    assert [text_of(line).strip() for line in lines] == ["999,999 999998", "▸1,000,000 999999"]


@given(st.lists(st.tuples(texts, texts), max_size=8), st.integers(0, 60), st.integers(0, 2), st.integers(0, 12))
def test_lines_fit_whatever_is_in_them(
    rows: list[tuple[str | None, str | None]], width: int, first: int, top: int
) -> None:
    table = pa.table(
        {"a": pa.array([a for a, _ in rows], pa.string()), "[b]": pa.array([b for _, b in rows], pa.string())}
    )
    grid = Grid(table)
    lines = [*grid.heads(first, width), *grid.lines(top, 5, first, width, chosen=0)]
    assert all(width_of(line) <= width for line in lines)
    assert len(lines) == 2 + max(min(len(rows) - top, 5), 0)


def test_cells_of_every_kind_are_one_line_of_text() -> None:
    values = {
        "nested": [{"a": [1, None]}],
        "when": [datetime.datetime(2026, 1, 2, 3, 4, 5)],
        "exact": [decimal.Decimal("1.50")],
        "real": [1 / 3],
        "bytes": [b"\x00x"],
        "lines": ["a\nb\x1b[31m"],
    }
    (line,) = Grid(pa.table(values)).lines(0, 1, 0, 200)
    assert "\n" not in text_of(line) and "\x1b" not in text_of(line)
    assert all(part in text_of(line) for part in ("{'a': [1, None]}", "2026-01-02 03:04:05", "1.50", "0.333333", "a·b"))


def test_no_rows_and_no_columns() -> None:
    assert Grid(pa.table({"a": pa.array([], pa.int64())})).lines(0, 5, 0, 20) == []
    assert Grid(pa.table({})).heads(0, 20) == [[("   ", "text")], [("   ", "text")]]


TABLES = (
    TableDoc(
        "steps", "one pass", (ColumnDoc("t_end", "BIGINT", "ns", "pass over"), ColumnDoc("kind", "VARCHAR", "", ""))
    ),
    TableDoc("events", "one change", ()),
)


def test_tables_open_to_their_columns() -> None:
    closed, opened = schema_entries(TABLES, frozenset()), schema_entries(TABLES, frozenset({"steps"}))
    assert [entry.text for entry in closed] == ["steps", "events"]
    assert [entry.text for entry in opened] == ["steps", "t_end", "kind", "events"]
    assert text_of(opened[1].line).split() == ["t_end", "bigint", "ns"]
    assert [entry.doc for entry in opened[:3]] == ["a row is one pass", "pass over", "no more is known of it"]


@pytest.mark.parametrize("height", [1, 3, 6, 20])
@pytest.mark.parametrize("chosen", [0, 5, 39])
def test_the_chosen_entry_is_in_sight(height: int, chosen: int) -> None:
    entries = history_entries([f"SELECT {number}\nFROM\tx" for number in range(40)])
    lines = browser_lines("History", entries, chosen, lit=True, width=24, height=height)
    assert len(lines) <= height
    assert all(width_of(line) <= 24 for line in lines)
    if height > 1:
        assert sum(text_of(line).startswith(f"▸SELECT {39 - chosen} FROM x") for line in lines) == 1


def test_an_empty_history_says_so() -> None:
    assert "nothing yet" in [text_of(line) for line in browser_lines("History", [], 0, lit=True, width=24, height=9)]
