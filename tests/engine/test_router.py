"""The router: never to a replica that is lost, never beyond the load bound, the same calls the same choices."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Config, KvConfig, RouterConfig
from engine.scheduling.handback import HandedBack, ending
from engine.scheduling.router import Choice, Load, Router, least_queued
from recorder.words import Reason, Status

MS = 1_000_000
BLOCK = 4


def caching(factor: float = 1.0, timeout_ms: float = 1000) -> Config:
    return Config(
        kv=KvConfig(block_size=BLOCK, enable_prefix_caching=True),
        router=RouterConfig(prefix_load_factor=factor, heartbeat_timeout_ms=timeout_ms),
    )


def send(router: Router, rid: int, prompt: list[int], now: int = 0) -> Choice:
    choice = router.choose(prompt, now)
    assert choice is not None
    router.send(rid, choice, len(prompt))
    return choice


# -- where to ----------------------------------------------------------------------------------------------------------


def test_the_least_loaded_is_chosen_and_the_first_of_equals() -> None:
    assert least_queued([Load(5, 1), Load(3, 9), Load(3, 2), Load(3, 2)]) == 2


def test_requests_go_where_the_fewest_tokens_wait_for_their_answer() -> None:
    router = Router(Config(), [100] * 3)
    assert [send(router, rid, [rid] * size).replica for rid, size in enumerate((50, 20, 10, 5, 30))] == [0, 1, 2, 2, 2]
    router.answered(0, received=7)
    assert send(router, 9, [9], now=6) == Choice(1, Reason.LEAST_QUEUED), "the answer is not received yet"
    assert send(router, 10, [10], now=7) == Choice(0, Reason.LEAST_QUEUED)


def test_where_the_same_waits_fewer_unfinished_requests_decide() -> None:
    router = Router(Config(), [100] * 2)
    send(router, 0, [0])
    router.answered(0, received=0)
    assert send(router, 1, [1]).replica == 1
    router.ended(0, received=3)
    router.answered(1, received=3)
    assert send(router, 2, [2], now=3).replica == 0


def test_a_prefix_is_worth_as_many_queued_tokens_as_it_saves() -> None:
    shared = list(range(40))
    for queued, expected in ((0, 0), (39, 0), (40, 0), (41, 1)):
        router = Router(caching(), [1000] * 2)
        send(router, 0, shared)
        router.answered(0, received=0)
        router.ended(0, received=0)
        router.send(1, Choice(0, Reason.LEAST_QUEUED), queued)
        choice = router.choose([*shared, 99], 1)
        reason = Reason.LEAST_QUEUED if expected else Reason.PREFIX
        assert choice == Choice(expected, reason), queued


def test_without_a_factor_a_prefix_only_decides_between_equal_queues() -> None:
    router = Router(caching(factor=0), [1000] * 2)
    router.send(7, Choice(0, Reason.LEAST_QUEUED), 1)
    send(router, 0, list(range(40)))
    assert router.choose(list(range(40)), 0) == Choice(0, Reason.LEAST_QUEUED), "one token against forty"
    for rid in (7, 0):
        router.ended(rid, received=0)
    assert router.choose(list(range(41)), 0) == Choice(1, Reason.PREFIX)


def test_what_left_the_cache_is_not_counted_on() -> None:
    router = Router(caching(), [10, 10])
    for rid in range(3):  # each fills nine blocks of ten: only the last prompt can be held
        router.send(rid, Choice(0, Reason.LEAST_QUEUED, router.choose([rid] * 36, 0).chain), 36)  # type: ignore[union-attr]
        router.ended(rid, received=0)
    assert router.choose([1] * 36 + [5], 0) == Choice(0, Reason.LEAST_QUEUED)
    assert router.choose([2] * 36 + [5], 0) == Choice(0, Reason.LEAST_QUEUED)
    router.send(8, Choice(0, Reason.LEAST_QUEUED), 30)
    assert router.choose([0] * 36 + [5], 0) == Choice(1, Reason.LEAST_QUEUED)
    assert router.choose([2] * 36 + [5], 0) == Choice(0, Reason.PREFIX)


# -- who is there ------------------------------------------------------------------------------------------------------


def test_what_a_lost_replica_held_is_handed_back_in_order_and_owned_by_nobody() -> None:
    router = Router(Config(), [100] * 2)
    for rid in (5, 3, 8, 1):
        send(router, rid, [rid] * 10)
    router.started([5])
    held = router.lost(0)
    assert [(lease.rid, lease.running) for lease in held] == [(5, True), (8, False)]
    assert not router.owns(0, 5)
    assert router.owns(1, 3)
    assert router.living == [1]


def test_a_fleet_without_replicas_has_no_choice() -> None:
    router = Router(Config(), [100])
    router.lost(0)
    assert router.choose([1], 0) is None


def test_a_silent_replica_is_found_and_is_in_again_when_it_is_heard() -> None:
    router = Router(caching(timeout_ms=1000), [100] * 3)
    for replica, heard in ((0, 500 * MS), (1, 1500 * MS), (2, 200 * MS)):
        assert not router.heard(replica, heard)
    assert router.silent(1500 * MS) == [2]
    assert router.silent(1501 * MS) == [0, 2]
    router.lost(2)
    assert router.silent(1501 * MS) == [0]
    assert router.heard(2, 1600 * MS)
    assert router.living == [0, 1, 2]


def test_the_last_one_is_never_taken_out_for_its_silence() -> None:
    router = Router(caching(), [100] * 2)
    router.heard(1, 5)
    assert router.silent(10**12) == [0]
    router.lost(0)
    assert router.silent(10**12) == []


def test_without_a_timeout_nobody_is_silent() -> None:
    assert Router(caching(timeout_ms=0), [100] * 2).silent(10**15) == []


# -- any sequence of calls ---------------------------------------------------------------------------------------------

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 5), st.integers(1, 60)),
        st.tuples(st.sampled_from(["answer", "end"]), st.integers(0, 30), st.integers(0, 50)),
        st.tuples(st.sampled_from(["lose", "hear"]), st.integers(0, 3), st.just(0)),
    ),
    max_size=80,
)


@dataclass
class Book:
    """An account kept beside the router, in the plainest way."""

    queued: dict[int, tuple[int, int]] = field(default_factory=dict)
    """rid -> replica and tokens that wait for an answer."""
    alive: set[int] = field(default_factory=lambda: {0, 1, 2, 3})

    def load(self, replica: int) -> int:
        return sum(tokens for where, tokens in self.queued.values() if where == replica)


def play(ops: list[tuple[str, int, int]], factor: float) -> list[Choice | None]:
    """Apply the calls, checking each choice; all answers are received at once."""
    router, book, open_rids = Router(caching(factor), [30] * 4), Book(), list[int]()
    choices: list[Choice | None] = []
    for rid, (what, number, size) in enumerate(ops):
        if what == "send":
            prompt = [number] * size
            choice = router.choose(prompt, 0)
            choices.append(choice)
            assert (choice is None) == (not book.alive)
            if choice is None:
                continue
            assert choice.replica in book.alive
            least = min(book.load(replica) for replica in book.alive)
            saved = (size - 1) // BLOCK * BLOCK if factor and choice.reason is Reason.PREFIX else 0
            assert book.load(choice.replica) <= least + factor * saved
            router.send(rid, choice, size)
            book.queued[rid] = (choice.replica, size)
            open_rids.append(rid)
        elif what in {"answer", "end"} and open_rids:
            chosen = open_rids[number % len(open_rids)]
            assert router.owns(book.queued[chosen][0], chosen)
            book.queued[chosen] = (book.queued[chosen][0], 0)
            if what == "answer":
                router.answered(chosen, 0)
            else:
                router.ended(chosen, 0)
                open_rids.remove(chosen)
        elif what == "lose":
            held = [lease.rid for lease in router.lost(number)]
            assert held == [rid for rid in open_rids if book.queued[rid][0] == number]
            open_rids = [rid for rid in open_rids if rid not in held]
            book.queued = {rid: entry for rid, entry in book.queued.items() if entry[0] != number}
            book.alive.discard(number)
        elif what == "hear":
            assert router.heard(number, 0) == (number not in book.alive)
            book.alive.add(number)
        assert router.living == sorted(book.alive)
    return choices


@given(OPS, st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_choices_are_alive_within_the_bound_and_the_same_again(ops: list[tuple[str, int, int]], factor: float) -> None:
    assert play(ops, factor) == play(ops, factor)


# -- what becomes of those that were handed back -----------------------------------------------------------------------

ROUTER = RouterConfig(max_attempts=3, max_worker_losses=2, on_worker_lost="fail")


@pytest.mark.parametrize(
    ("case", "status", "code"),
    [
        (HandedBack(attempt=2, losses=2), Status.FAILED, "isolated"),
        (HandedBack(attempt=1, losses=1, deadline=100), Status.EXPIRED, "deadline_exceeded"),
        (HandedBack(attempt=3, losses=0), Status.FAILED, "worker_lost"),
        (HandedBack(attempt=1, losses=1, sent_tokens=1), Status.FAILED, "worker_lost"),
    ],
)
def test_some_end_with_their_worker(case: HandedBack, status: Status, code: str) -> None:
    """SPEC A7, C9."""
    end = ending(case, ROUTER, now=100)
    assert end is not None
    assert (end.status, end.code) == (status, code)
    assert len(end.words.encode()) <= 96, "it fits its column"


@pytest.mark.parametrize(
    ("case", "router"),
    [
        (HandedBack(attempt=2, losses=1, deadline=101), ROUTER),
        (HandedBack(attempt=1, losses=1, sent_tokens=9), RouterConfig()),
        (HandedBack(attempt=2, losses=0), ROUTER),
    ],
)
def test_all_others_go_on_elsewhere(case: HandedBack, router: RouterConfig) -> None:
    assert ending(case, router, now=100) is None
