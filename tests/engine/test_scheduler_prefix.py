"""The prefix cache: the same tokens are found again, exactly, and nobody loses a block that is in use (SPEC C4)."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import Config, KvConfig, SchedulerConfig
from engine.core import Head
from engine.scheduling.prefix import PrefixPool
from engine.simulate.cost import LinearCost
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from recorder.check import check
from recorder.tables import open_tables
from recorder.words import EventKind, Reason, Role
from tests.engine.driving import Driver

CACHING = KvConfig(block_size=4, watermark=0.0, enable_prefix_caching=True)


def driver(num_blocks: int = 100, **scheduler: int) -> Driver:
    return Driver(Config(scheduler=SchedulerConfig(**scheduler), kv=CACHING), num_blocks)  # type: ignore[arg-type]


def offer(drive: Driver, rid: int, ids: list[int], max_tokens: int = 2) -> None:
    assert drive.add(rid, len(ids), max_tokens, prompt_ids=ids)


def test_what_was_computed_is_found_by_who_begins_alike() -> None:
    drive = driver()
    offer(drive, 1, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    drive.run()
    offer(drive, 2, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0])
    (part,) = drive.tick().slices
    assert (part.cached, part.computed_before, part.tokens, part.new_blocks) == (8, 8, 2, 3)
    drive.run()
    assert drive.ends[2].progress.cached_tokens == 8


def test_one_token_is_always_computed() -> None:
    drive = driver()
    offer(drive, 1, [1, 2, 3, 4, 5, 6, 7, 8])
    drive.run()
    offer(drive, 2, [1, 2, 3, 4, 5, 6, 7, 8])
    (part,) = drive.tick().slices
    assert (part.cached, part.tokens, part.samples) == (4, 4, True)


def test_answers_are_found_too_by_who_goes_on_with_them() -> None:
    drive = driver()
    offer(drive, 1, [9, 9, 9], max_tokens=6)
    drive.run()
    offer(drive, 2, [9, 9, 9, 1, 2, 3, 4, 5, 77, 78])
    assert drive.tick().slices[0].cached == 8


def test_a_block_alike_behind_another_beginning_is_not_found() -> None:
    drive = driver()
    offer(drive, 1, [1, 1, 1, 1, 5, 5, 5, 5, 6])
    drive.run()
    offer(drive, 2, [2, 2, 2, 2, 5, 5, 5, 5, 6])
    assert drive.tick().slices[0].cached == 0


def test_blocks_in_use_are_shared_and_freed_by_the_last() -> None:
    drive = driver()
    offer(drive, 1, [1] * 8 + [2], max_tokens=9)
    drive.tick()
    offer(drive, 2, [1] * 8 + [3], max_tokens=2)
    plan = drive.tick()
    assert [(part.rid, part.new_blocks) for part in plan.slices] == [(1, 0), (2, 1)]
    assert plan.slices[0].blocks[:2] == plan.slices[1].blocks[:2]
    assert plan.occupancy.kv_free == 100 - 4
    drive.run()
    freed = {event.rid: event.freed_blocks for event in drive.events if event.kind is EventKind.FINISHED}
    assert freed == {2: 1, 1: 5}


def test_sharing_lets_in_whom_memory_alone_would_not() -> None:
    drive = driver(num_blocks=5)
    offer(drive, 1, [1] * 8 + [2], max_tokens=4)
    drive.tick()
    offer(drive, 2, [5] * 9)
    assert drive.tick().head == Head(2, Reason.KV_BLOCKS)
    drive.cancel(2)
    offer(drive, 3, [1] * 8 + [3], max_tokens=2)
    assert drive.tick().head is None


def test_what_is_not_used_any_more_makes_way_the_oldest_first_from_its_end() -> None:
    pool = PrefixPool(4, 1)
    chains = [pool.chain([1, 2]), pool.chain([3, 4])]
    for chain in chains:
        blocks = pool.take(2)
        pool.learn(chain, blocks, 2)
        assert pool.give_back(blocks) == 2
    pool.take(1)
    assert [len(pool.find(chain, 9)) for chain in chains] == [1, 2]
    pool.take(2)
    assert [len(pool.find(chain, 9)) for chain in chains] == [0, 1]


def test_after_a_preemption_it_goes_on_from_what_is_still_there() -> None:
    drive = driver(num_blocks=7)
    offer(drive, 1, [1] * 9, max_tokens=8)
    offer(drive, 2, [2] * 12, max_tokens=8)
    drive.run()
    assert drive.happened(EventKind.PREEMPTED) == [2]
    again = [part for plan in drive.plans for part in plan.slices if part.rid == 2 and part.cached]
    assert again
    end = drive.ends[2].progress
    assert end.cached_tokens == 0, "nothing was found when it first came"
    assert end.recomputed_tokens < sum(event.lost_tokens for event in drive.events)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(3, 12),
    st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=8), st.booleans()), max_size=40),
)
def test_a_pool_conserves_its_blocks_and_tells_no_lies(total: int, script: list[tuple[list[int], bool]]) -> None:
    """Against a pool that just remembers what is in each block: found is equal, held is kept, free is the rest."""
    pool = PrefixPool(total, 1)
    content: dict[int, tuple[int, ...]] = {}
    held: list[tuple[int, ...]] = []
    for tokens, leave in script:
        if leave and held:
            pool.give_back(held.pop(0))
            continue
        chain = pool.chain(tokens)
        found = pool.find(chain, len(tokens))
        for place, block in enumerate(found):
            assert content[block] == tuple(tokens[: place + 1])
        missing = len(tokens) - len(found)
        if missing + pool.unheld(found) > pool.free:
            continue
        in_use = {block for blocks in held for block in blocks}
        pool.share(chain, found)
        fresh = pool.take(missing)
        assert not in_use & set(fresh)
        assert not set(found) & set(fresh)
        blocks = found + fresh
        content.update((block, tuple(tokens[: place + 1])) for place, block in enumerate(blocks))
        pool.learn(chain, blocks, len(tokens))
        held.append(blocks)
        assert pool.free + len({block for blocks in held for block in blocks}) == total
        assert pool.find(pool.chain(tokens), len(tokens)), "what is held is found"


def test_a_run_with_shared_blocks_passes_its_checks(tmp_path: Path) -> None:
    """kv_free + held == kv_total, where a block that several hold counts once."""
    config = Config(
        scheduler=SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=64),
        kv=KvConfig(block_size=16, watermark=0.0, enable_prefix_caching=True),
    )
    arrivals = [
        Arrival(
            arrival=number * 150_000_000,
            prompt_tokens=520 + 7 * number % 40,
            max_tokens=40,
            output_tokens=7 + number % 30,
            prefix_of=number // 15 * 15 + 1 if number % 15 else 0,
            prefix_tokens=512 if number % 15 else 0,
        )
        for number in range(30)
    ]
    run = tmp_path / "run"
    outcomes = simulate(config, arrivals, LinearCost(), num_blocks=50, max_model_len=1000, run=run)
    assert sum(outcome.end.cached_tokens for outcome in outcomes if outcome.end) > 1_000
    assert sum(outcome.end.preemptions for outcome in outcomes if outcome.end) > 0
    tables = open_tables(run)
    assert [made for made in check(tables) if not made.ok] == []
    roles = {row["role"] for row in tables.table("slices").to_pylist()}
    assert roles >= {Role.PREFILL.value, Role.DECODE.value}
