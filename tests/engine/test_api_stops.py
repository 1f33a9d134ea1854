"""Stop strings: found wherever the text is cut, never shown, and nothing else is lost."""

from hypothesis import given
from hypothesis import strategies as st

from engine.api.stops import StopFinder

_TEXT = st.text(alphabet="ab", max_size=12)


@given(st.lists(_TEXT), st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3))
def test_the_text_before_the_first_stop_string_leaves_however_it_comes(pieces: list[str], stops: list[str]) -> None:
    finder = StopFinder(stops)
    out = []
    for piece in pieces:
        out.append(finder.feed(piece))
        if finder.found:
            break
    shown = "".join([*out, finder.rest()])
    whole = "".join(pieces)
    assert finder.found == any(stop in whole for stop in stops)
    if not finder.found:
        assert shown == whole
    else:
        assert whole.startswith(shown)
        assert not any(stop in shown for stop in stops)
        assert any(whole[len(shown) :].startswith(stop) for stop in stops)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    finder = StopFinder(["\n\nUser:"])
    assert finder.feed("Hello\n") == "Hello"
    assert finder.feed("\nUs") == ""
    assert finder.feed("age") == "\n\nUsage"
    assert finder.rest() == ""
