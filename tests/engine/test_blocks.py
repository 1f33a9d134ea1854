"""The block pool: nothing is lost, nothing is given twice (SPEC C3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.scheduling.blocks import BlockPool


@given(st.integers(1, 50), st.lists(st.integers(0, 60)))
def test_blocks_are_conserved_and_held_once(total: int, wishes: list[int]) -> None:
    pool = BlockPool(total, 16)
    held: list[tuple[int, ...]] = []
    for wish in wishes:
        if wish <= pool.free:
            held.append(pool.take(wish))
        elif held:
            pool.give_back(held.pop(0))
        out = [block for blocks in held for block in blocks]
        assert pool.free + len(out) == total
        assert len(set(out)) == len(out)
        assert set(out) <= set(range(total))


@given(st.integers(1, 64), st.integers(0, 10_000))
def test_blocks_for_is_the_least_that_holds_the_tokens(block_size: int, tokens: int) -> None:
    count = BlockPool(1, block_size).blocks_for(tokens)
    assert (count - 1) * block_size < tokens <= count * block_size or tokens == count == 0


def test_more_than_is_free_is_refused_and_changes_nothing() -> None:
    pool = BlockPool(4, 16)
    pool.take(3)
    with pytest.raises(ValueError, match="2 blocks asked for, 1 are free"):
        pool.take(2)
    assert pool.free == 1


def test_the_block_returned_last_is_reused_first() -> None:
    pool = BlockPool(8, 16)
    first, second = pool.take(2), pool.take(2)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(1) == second[:1]
