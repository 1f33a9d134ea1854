"""A selected stretch, and what a mouse means: columns to instants and back."""

from hypothesis import given
from hypothesis import strategies as st

from console.filter_language import parse_filter
from console.selecting import Stretch
from console.timeline import Window
from console.widgets.minimap import window_columns
from tests.console.test_timeline import windows

widths = st.integers(1, 300)


@given(windows(), widths, st.data())
def test_columns_to_a_stretch_and_back(window: Window, width: int, data: st.DataObject) -> None:
    """A column is a nanosecond or more here: the closest window is 1,000 ns, the widest screen 300 cells."""
    one, other = (data.draw(st.integers(-5, width + 5)) for _ in range(2))
    first, last = (min(max(column, 0), width - 1) for column in sorted((one, other)))
    stretch = Stretch.of_columns(one, other, window, width)
    assert stretch.columns(window, width) == range(first, last + 1)
    assert window.start <= stretch.start < stretch.end <= window.end
    assert Stretch.of_columns(other, one, window, width) == stretch


@given(windows(), widths, st.data())
def test_a_column_of_the_minimap_is_an_instant_and_back(window: Window, width: int, data: st.DataObject) -> None:
    whole = window.fit()
    column = data.draw(st.integers(0, width - 1))
    t = whole.instant(column, width)
    assert whole.column(t, width) == column
    moved = window.centred(t)
    assert (moved.span, moved.low, moved.high) == (window.span, window.low, window.high)
    assert whole.low <= moved.start <= t <= moved.end <= whole.high
    lit = window_columns(whole, moved, width)
    assert column in lit or t == moved.end


@given(windows(), widths)
def test_the_window_on_the_minimap_is_where_it_is(window: Window, width: int) -> None:
    whole = window.fit()
    lit = window_columns(whole, window, width)
    assert 0 <= lit.start < lit.stop <= width
    assert lit.start == whole.column(window.start, width)
    assert whole.column(window.end - 1, width) == lit.stop - 1
    assert len(window_columns(whole, whole, width)) == width


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_stretch_grows_from_its_anchor(anchor: int, one: int, other: int) -> None:
    stretch = Stretch.between(anchor, one)
    assert stretch.to(other) == Stretch.between(anchor, other)
    assert stretch.to(other).to(one) == stretch
    assert stretch.span == max(abs(one - anchor), 1)


@given(windows(), widths)
def test_a_stretch_beyond_the_window_has_no_columns(window: Window, width: int) -> None:
    assert not Stretch(window.end, window.end + 5).columns(window, width)
    assert not Stretch(window.start - 5, window.start).columns(window, width)
    assert Stretch(window.low, window.high).columns(window, width) == range(width)


@given(st.integers(0, 10**9), st.integers(0, 10**12), st.integers(1, 10**12))
def test_its_term_is_typed_as_it_is_meant(low: int, since: int, span: int) -> None:
    term = Stretch(low + since, low + since + span).term(low)
    assert parse_filter(str(term)).terms == (term,)
    assert (term.start, term.end) == (since, since + span)
