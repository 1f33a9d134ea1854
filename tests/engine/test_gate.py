"""Who is refused at the door because others are there, and when it should come again (SPEC A3, A6, B1, C7, C8)."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import SchedulerConfig
from engine.core import Admission, Request
from engine.messages import Finished, Outlook, Refused, Starting, StepOutput
from engine.scheduling.admission import Room
from engine.scheduling.gate import Gate
from engine.scheduling.rate import RateLimits
from engine.simulate.cost import KnownCost, fixed_time
from recorder.words import Reason

MS = 1_000_000


class Door:
    """A gate with one worker (or several), whose requests are numbered as they come. Times in ms."""

    def __init__(self, workers: int = 1, *, step_ms: int | None = 100, token_bytes: int = 0, **scheduler: Any) -> None:  # noqa: ANN401
        self.gate = Gate(SchedulerConfig(**scheduler))
        self._rids = count(1)
        for worker in range(workers):
            known = None if step_ms is None else KnownCost(fixed_time(step_ms * MS))
            self.gate.joins(worker, Room(1000, 16, 10_000, token_bytes), known)

    def ask(
        self,
        prompt: int = 1,
        most: int = 1,
        *,
        at: float = 0,
        due: float | None = None,
        worker: int = 0,
        tier: str = "",
        tenant: str = "",
    ) -> Admission:
        deadline = None if due is None else round(due * MS)
        request = Request(next(self._rids), prompt, most, round(at * MS), tier=tier, tenant=tenant, deadline=deadline)
        return self.gate.judge(request, worker, round(at * MS))

    def starts(self, *rids: int, at: float = 0, worker: int = 0, begun_tokens: int = 0, token_ns: float = 0.0) -> None:
        outlook = Outlook(begun_tokens, token_ns, 0)
        self.gate.told(Starting(worker, round(at * MS), list(rids), outlook), round(at * MS))

    def steps(
        self,
        tokens: Sequence[int] = (),
        finished: Sequence[Finished] = (),
        *,
        at: float = 0,
        worker: int = 0,
        token_ns: float = 0.0,
        refused: Sequence[int] = (),
    ) -> None:
        pairs, never = [(rid, 1) for rid in tokens], [Refused(rid, "never") for rid in refused]
        outlook, t = Outlook(0, token_ns, 0), round(at * MS)
        self.gate.told(StepOutput(worker, 0, t, pairs, list(finished), never, 0, 0, 0, 0, outlook), t)


def ended(rid: int, output: int, first_scheduled: int | None = 0) -> Finished:
    return Finished(rid, "stop", 0, first_scheduled, 0, 0, output, 0, 0, 0, 0, 0)


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_who_cannot_meet_its_deadline_is_refused_as_it_arrives_and_told_by_how_much() -> None:
    """SPEC A3: batches of 4, the worker busy from 0 to 100; E at 1, due at 150, would be finished at 200."""
    door = Door(policy="dynamic", max_batch_size=4, deadline_admission=True)
    assert all(door.ask().accepted for _ in range(4))
    door.starts(1, 2, 3, 4, begun_tokens=4)
    refused = door.ask(at=1, due=150)
    assert (refused.accepted, refused.status, refused.why) == (False, 429, Reason.DEADLINE)
    assert refused.reason == "it would be finished 50.0 ms after its deadline"
    assert refused.retry_after_ms == 50
    assert door.ask(at=51, due=200).accepted, "one like it, when it was told to come"


def test_who_would_be_late_even_alone_is_not_told_to_come_again() -> None:
    door = Door(deadline_admission=True)
    refused = door.ask(due=99)
    assert refused.retry_after_ms is None
    assert refused.reason.endswith("even if nobody else were here")


def test_a_static_batch_that_is_not_full_is_held_until_its_timer() -> None:
    """SPEC A3's A alone: it leaves at 10 and is finished at 110; with a batch that it fills, at 107."""
    door = Door(policy="static", max_batch_size=2, max_queue_delay_ms=10, deadline_admission=True)
    assert not door.ask(due=109).accepted
    assert door.ask(due=110).accepted
    assert not door.ask(at=7, due=106).accepted
    assert door.ask(at=7, due=107).accepted


def test_all_of_a_batch_are_waited_for() -> None:
    """The batch ahead runs as long as its longest: 1 pass of prompts, 9 of decodes. Behind it come 1 and 0 more."""
    door = Door(policy="static", max_batch_size=2, max_queue_delay_ms=0, deadline_admission=True)
    assert door.ask(most=2).accepted
    assert door.ask(most=10).accepted
    assert not door.ask(due=1099).accepted
    assert door.ask(due=1100).accepted


def test_a_place_that_frees_early_is_counted_on() -> None:
    """Continuous: of 2 places one is free after 2 passes; there the next one's prompt and its one decode follow."""
    door = Door(max_num_seqs=2, deadline_admission=True)
    assert door.ask(most=2).accepted
    assert door.ask(most=10).accepted
    door.starts(1, 2, begun_tokens=2)
    door.steps([1, 2], at=100)
    assert not door.ask(most=2, at=110, due=399).accepted
    assert door.ask(most=2, at=110, due=400).accepted


def test_a_pass_in_flight_is_waited_for_where_there_is_a_free_place_too() -> None:
    door = Door(max_num_seqs=2, deadline_admission=True)
    assert door.ask(most=5).accepted
    door.starts(1, begun_tokens=1)
    assert not door.ask(at=50, due=199).accepted
    assert door.ask(at=50, due=200).accepted


def test_a_pass_that_takes_longer_than_foreseen_ends_now_at_the_earliest() -> None:
    door = Door(policy="immediate", deadline_admission=True)
    assert door.ask().accepted
    door.starts(1, begun_tokens=1)
    assert not door.ask(at=150, due=249).accepted
    assert door.ask(at=150, due=250).accepted


def test_a_long_prompt_takes_its_turns() -> None:
    """With at most 10 tokens of one prompt a pass, 25 tokens take 3 passes."""
    door = Door(long_prefill_token_threshold=10, deadline_admission=True)
    assert not door.ask(25, due=299).accepted
    assert door.ask(25, due=300).accepted


def test_what_is_not_known_yet_refuses_nobody() -> None:
    door = Door(step_ms=None, deadline_admission=True, max_estimated_wait_ms=1)
    assert door.ask(5000, due=0.001).accepted


def test_what_the_messages_take_is_counted_both_ways() -> None:
    door = Door(deadline_admission=True)
    door.gate.told(StepOutput(0, 0, 0, [], [], [], 0, 0, 0, 0, Outlook(0, 0.0, 0)), 2 * MS)
    assert not door.ask(at=10, due=113).accepted
    assert door.ask(at=10, due=114).accepted


# -- bounds of the queue -----------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_by_count_and_says_when_there_is_room() -> None:
    """SPEC A6. One runs for 5 passes, so the first of those that wait starts at 500; a moment later there is room."""
    door = Door(max_num_seqs=1, max_queue_size=2)
    assert door.ask(most=5).accepted
    door.starts(1, begun_tokens=1)
    assert door.ask(at=20).accepted
    assert door.ask(at=20).accepted
    refused = door.ask(at=20)
    assert (refused.status, refused.why, refused.retry_after_ms) == (529, Reason.QUEUE_FULL, 481)
    assert refused.reason == "2 requests are waiting; try again later"


def test_a_full_queue_refuses_by_tokens_of_prompts() -> None:
    """SPEC A6: a request alone always passes; then no more than 20 tokens wait. Two have to start before 15 more."""
    door = Door(max_num_seqs=1, max_queue_tokens=20)
    assert door.ask(99).accepted
    assert not door.ask(1).accepted
    door.starts(1, begun_tokens=99)
    assert [door.ask(tokens).accepted for tokens in (4, 12)] == [True, True]
    refused = door.ask(15)
    assert refused.reason == "16 prompt tokens are waiting; try again later"
    assert refused.retry_after_ms == 201, "the first runs for one pass, the one that waits for another"


def test_a_full_queue_refuses_by_the_memory_that_it_would_need() -> None:
    """SPEC A6: 16 blocks of 16 tokens of 4 KiB are 1 MiB; a prompt takes whole blocks."""
    door = Door(max_queue_memory_mb=1, token_bytes=4096)
    assert [door.ask(tokens).accepted for tokens in (100, 129, 17, 16)] == [True, True, False, False]
    assert door.ask(9_000).reason == "those that wait need 1.0 MiB of the KV cache; try again later"
    unknown = Door(max_queue_memory_mb=1)
    assert all(unknown.ask(9_000).accepted for _ in range(9)), "what a token takes is not known"


def test_of_several_objections_the_one_that_stands_longest_is_told() -> None:
    """So that whoever comes when it was told to finds none of them."""
    door = Door(max_num_seqs=1, max_queue_size=1, tenant_tokens_per_s=10, tenant_burst_tokens=20)
    assert door.ask(9, 9, tenant="ada").accepted
    first = door.ask(1, 1, tenant="ada")
    assert (first.why, first.retry_after_ms) == (Reason.QUEUE_FULL, 1), "two of its tokens are left"
    second = door.ask(2, 2, tenant="ada")
    assert (second.why, second.retry_after_ms) == (Reason.RATE_LIMIT, 201)


def test_the_first_level_has_what_is_reserved_for_it() -> None:
    """SPEC C7: free first."""
    door = Door(max_num_seqs=1, max_queue_size=4, reserved_share=0.5, tiers=("paid", "free"))
    tiers = ["free", "free", "free", "paid", "paid", "paid"]
    assert [door.ask(tier=tier).accepted for tier in tiers] == [True, True, False, True, True, False]


def test_who_has_begun_waits_no_more_and_who_was_never_taken_does_not_either() -> None:
    door = Door(max_queue_size=1)
    assert door.ask().accepted
    assert not door.ask().accepted
    door.steps(refused=[1])
    assert door.ask().accepted
    door.steps(tokens=[3])
    assert door.ask().accepted


def test_each_worker_has_a_queue_of_its_own_and_one_that_is_gone_has_none() -> None:
    door = Door(workers=2, max_queue_size=1)
    assert door.ask(worker=0).accepted
    assert not door.ask(worker=0).accepted
    assert door.ask(worker=1).accepted
    door.gate.leaves(0)
    door.gate.leaves(0)
    door.gate.joins(0, Room(1000, 16, 10_000))
    assert door.ask(worker=0).accepted


# -- the wait to expect ------------------------------------------------------------------------------------------------


def test_beyond_the_wait_to_expect_nobody_is_taken_the_free_first() -> None:
    """SPEC C7: 2 s of prompts wait, at 1 ms a token; of 3 s, half is reserved. 500 tokens too many: half a prompt."""
    door = Door(max_num_seqs=1, max_estimated_wait_ms=3_000, reserved_share=0.5, tiers=("paid", "free"), step_ms=1000)
    door.steps(token_ns=MS)
    for _ in range(2):
        assert door.ask(1000, tier="paid").accepted
    assert door.ask(5, tier="paid").accepted
    refused = door.ask(5, tier="free")
    assert (refused.status, refused.why) == (529, Reason.OVERLOADED)
    assert refused.reason == "requests that come now would wait about 2.0 s"
    assert refused.retry_after_ms == 4000, "the first prompt takes 4 passes of 256 tokens"


# -- token rates -------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 200),
    st.sampled_from([1e-9, 1e-6, 0.013]),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 300), st.integers(0, 300)), max_size=40),
)
def test_no_tenant_uses_more_than_its_rate_and_the_wait_told_is_enough(
    burst: int, rate: float, script: list[tuple[int, int, int]]
) -> None:
    """SPEC C8: whatever is asked, used tokens stay within burst, rate x time, and the one charge beyond the burst."""
    limits, now, used = RateLimits(burst), 0, 0
    for gap, tokens, unused in script:
        now += gap
        now += limits.wait("ada", tokens, now, rate)
        assert limits.wait("ada", tokens, now, rate) == 0
        limits.charge("ada", tokens, now, rate)
        used += tokens - min(unused, tokens)
        limits.refund("ada", min(unused, tokens))
        assert used <= burst + rate * now + max(tokens, burst) + 1
    assert limits.wait("cy", burst, now, rate) == 0, "each tenant has an account of its own"


def test_a_tenant_has_one_account_whichever_worker_serves_it_and_what_it_did_not_use_is_given_back() -> None:
    """SPEC C8: 8 + 90 are charged and 8 + 2 used, so there is room for another of the same, and not for a third."""
    door = Door(workers=2, tenant_tokens_per_s=0.001, tenant_burst_tokens=110)
    assert door.ask(8, 90, tenant="ada", worker=0).accepted
    refused = door.ask(8, 90, tenant="ada", worker=1)
    assert (refused.status, refused.why) == (429, Reason.RATE_LIMIT)
    assert "98 tokens" in refused.reason
    assert door.ask(8, 90, tenant="bob", worker=1).accepted
    door.steps(finished=[ended(1, output=2)])
    assert door.ask(8, 90, tenant="ada", worker=1).accepted
    door.steps(finished=[ended(4, output=90)], worker=1)
    assert not door.ask(8, 90, tenant="ada").accepted


def test_who_can_never_be_served_is_left_to_its_worker() -> None:
    """SPEC C2: it is told so with 400, and not to come again."""
    door = Door(max_queue_size=1, tenant_tokens_per_s=1, tenant_burst_tokens=10)
    assert door.ask(9, 1).accepted
    assert door.ask(9_999, 2).accepted
    door.steps(refused=[2])
    assert not door.ask(1, 1).accepted


@pytest.mark.parametrize(("begun", "left"), [(False, 100), (True, 91)])
def test_a_worker_that_is_lost_costs_its_tenants_what_they_used(begun: bool, left: int) -> None:
    door = Door(tenant_tokens_per_s=1e-9, tenant_burst_tokens=100)
    assert door.ask(8, 90, tenant="ada").accepted
    if begun:
        door.starts(1)
        door.steps(tokens=[1])
    door.gate.leaves(0)
    door.gate.joins(0, Room(1000, 16, 10_000))
    assert door.ask(left - 1, 1, tenant="ada").accepted
    assert not door.ask(tenant="ada").accepted


def test_a_rate_may_be_a_share_of_what_all_workers_together_can_do() -> None:
    """SPEC C8: half of 2 x 1 token a ms, while the third is not measured 3 x 1. Of 20 tokens 11 are left to earn."""
    door = Door(workers=3, tenant_capacity_share=0.5, tenant_burst_tokens=20)
    assert door.ask(10, 9, tenant="ada").accepted, "nothing is measured, so nothing is charged"
    for worker in (0, 1):
        door.steps(worker=worker, token_ns=MS)
    assert door.ask(10, 9, at=1, tenant="ada").accepted
    refused = door.ask(10, 2, at=1, tenant="ada")
    assert refused.retry_after_ms == 8, "11 tokens at 1.5 a ms"
    door.gate.leaves(2)
    assert door.ask(10, 2, at=1, tenant="ada").retry_after_ms == 12
