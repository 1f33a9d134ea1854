"""Places and orders of columns agree with numpy's own searches and sorts, whatever the values span."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.attribution.columns import Places, beginnings, codes, in_order
from recorder.schema import NONE

number = st.one_of(st.integers(-5, 40), st.integers(-(2**63), 2**63 - 1), st.just(NONE))
numbers = st.lists(number, max_size=40)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


@given(numbers, numbers)
@example([7, 8, 8, 9], [6, 7, 8, 9, 10, NONE, 2**63 - 1])
@example([NONE, NONE + 1], [2**63 - 1, NONE, NONE + 1])
def test_a_place_is_the_first_one_that_holds_the_value(values: list[int], wanted: list[int]) -> None:
    values = sorted(values)
    assert Places(array(values)).of(array(wanted)).tolist() == [
        values.index(each) if each in values else -1 for each in wanted
    ]


@given(st.lists(st.tuples(number, number, number), max_size=40))
@example([(1, NONE, 0), (1, 2**63 - 1, 0), (0, 5, 2**62)])
def test_rows_are_sorted_by_one_key_after_the_other_and_keep_their_order(rows: list[tuple[int, int, int]]) -> None:
    keys = [array([row[place] for row in rows]) for place in range(3)]
    order = in_order(*keys)
    assert order.tolist() == sorted(range(len(rows)), key=rows.__getitem__)
    found = [rows[place] for place in order]
    expected = [place for place in range(len(rows)) if place == 0 or found[place] != found[place - 1]]
    assert beginnings(*(key[order] for key in keys)).tolist() == expected


@given(st.lists(st.lists(st.sampled_from(["a", "b", "strange", None]), max_size=5), max_size=3))
def test_words_are_coded_alike_however_they_are_stored(chunks: list[list[str | None]]) -> None:
    words = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string())
    expected = [["b", "a"].index(word) if word in {"a", "b"} else -1 for chunk in chunks for word in chunk]
    for column in (words, words.dictionary_encode()):
        assert codes(pa.table({"word": column}), "word", ["b", "a"]).tolist() == expected
