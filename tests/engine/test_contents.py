"""What prompts are made of: numbers that are equal exactly where the tokens are known to be."""

from collections.abc import Sequence
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from engine.api.beginnings import Beginnings
from engine.simulate.contents import NUMBERED_TOKENS, Contents, alike


def equal_beginning(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


# -- from the numbers of a trace ---------------------------------------------------------------------------------------


@st.composite
def traces(draw: st.DrawFn) -> list[tuple[list[int], int]]:
    """Paths down a tree, each number being one of its nodes, and the length of each prompt."""
    children: dict[tuple[int, int], int] = {}
    made = []
    for _ in range(draw(st.integers(1, 12))):
        node, numbers = 0, []
        for branch in draw(st.lists(st.integers(0, 1), max_size=4)):
            node = children.setdefault((node, branch), len(children) + 1)
            numbers.append(node)
        made.append((numbers, draw(st.integers(1, NUMBERED_TOKENS * 5))))
    return made


def literal(place: int, numbers: Sequence[int], tokens: int) -> list[int]:
    """The prompt as the trace describes it."""
    shared = [number for number in numbers for _ in range(NUMBERED_TOKENS)][:tokens]
    return shared + [-place] * (tokens - len(shared))


@given(traces())
def test_prompts_are_alike_for_as_long_as_in_the_trace(trace: list[tuple[list[int], int]]) -> None:
    found = alike([numbers for numbers, _ in trace], [tokens for _, tokens in trace])
    contents = Contents()
    described, made = [], []
    for place, (numbers, tokens) in enumerate(trace, 1):
        described.append(literal(place, numbers, tokens))
        made.append(contents.prompt(place, tokens, int(found.of[place - 1]), int(found.tokens[place - 1])))
    for place, one in enumerate(described):
        for before in range(place):
            assert equal_beginning(made[place], made[before]) == equal_beginning(one, described[before])


# -- at the front end --------------------------------------------------------------------------------------------------

SIZE = 4
prompts = st.lists(st.lists(st.integers(0, 1), max_size=30), min_size=1, max_size=10)


@given(prompts, st.data())
def test_who_begins_alike_for_longest_is_found(told: list[list[int]], data: st.DataObject) -> None:
    """In whole blocks, outputs included. Prompts made of that are as alike to whom is named, and to others no more.

    They are less alike where two had the same output by chance.
    """
    beginnings, contents = Beginnings(SIZE), Contents()
    sequences: list[list[int]] = []
    made: list[list[int]] = []
    for rid, prompt in enumerate(told, 1):
        output = data.draw(st.lists(st.integers(0, 1), max_size=12))
        met = beginnings.meet(rid, prompt)
        whole = [equal_beginning(prompt, before) // SIZE * SIZE for before in sequences]
        assert met.prefix_tokens == max(whole, default=0)
        assert met.prefix_of is None or whole[met.prefix_of - 1] == met.prefix_tokens
        beginnings.answered(met, output)
        sequences.append(prompt + output)
        own = contents.prompt(rid, len(prompt), met.prefix_of or 0, met.prefix_tokens)
        assert all(equal_beginning(own, made[place]) <= tokens for place, tokens in enumerate(whole))
        assert met.prefix_of is None or equal_beginning(own, made[met.prefix_of - 1]) == met.prefix_tokens
        made.append(own + [-rid] * len(output))


def test_what_was_met_long_ago_is_forgotten_from_its_end() -> None:
    beginnings = Beginnings(SIZE, most=3)
    first, second = list(range(12)), list(range(100, 104))
    beginnings.meet(1, first)
    beginnings.meet(2, second)
    assert beginnings.meet(3, first).prefix_tokens == 8
    assert beginnings.meet(4, first).prefix_tokens == 12
    assert beginnings.meet(5, second).prefix_of is None
