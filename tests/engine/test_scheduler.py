"""The scheduler's mechanics and each policy's rule, one situation at a time."""

import pytest

from engine.config import Config, KvConfig, SchedulerConfig
from engine.core import Head, StepResult
from engine.scheduling.scheduler import split
from recorder.schema import TABLES
from recorder.words import EventKind, Phase, Reason, Role
from tests.engine.driving import EXEC_NS, PLAN_NS, Driver, kinds


def driver(num_blocks: int = 100, block_size: int = 16, max_model_len: int = 10_000, **scheduler: object) -> Driver:
    config = Config(
        scheduler=SchedulerConfig(**scheduler),  # type: ignore[arg-type]
        kv=KvConfig(block_size=block_size, watermark=0.0),
    )
    return Driver(config, num_blocks, max_model_len=max_model_len)


def shape(plan_slices: object) -> list[tuple[int, Role, int, int]]:
    return [(part.rid, part.role, part.tokens, part.computed_before) for part in plan_slices]  # type: ignore[attr-defined]


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "words"),
    [
        (0, 5, "needs a prompt"),
        (5, 0, "max_tokens 0"),
        (90, 11, "more than the 100 tokens of the model's context"),
        (60, 38, "more than the 96 tokens that the KV cache holds"),
    ],
)
def test_what_can_never_finish_is_refused_with_words(prompt: int, max_tokens: int, words: str) -> None:
    drive = driver(num_blocks=6, max_model_len=100)
    assert not drive.add(1, prompt, max_tokens)
    assert words in drive.refused[1]
    assert drive.scheduler.occupancy().waiting == 0


def test_such_words_are_recorded_whole() -> None:
    """What is cut off of a reason is the number that would help; a million tokens of context have seven digits."""
    room = next(column for column in TABLES["requests"].columns if column.name == "reason").kind
    assert isinstance(room, int)
    drive = driver(num_blocks=60_000, max_model_len=9_999_999)
    assert not drive.add(1, 9_999_998, 1)
    assert len(drive.refused[1]) <= room


def test_what_just_fits_is_taken_and_finishes() -> None:
    drive = driver(num_blocks=6, max_model_len=100)
    assert drive.add(1, 60, 37), "the last token needs no room in the cache"
    drive.run()
    assert drive.ends[1].reason == "length"
    assert drive.ends[1].progress.output_tokens == 37


def test_without_chunked_prefill_a_prompt_must_fit_a_step() -> None:
    drive = driver(enable_chunked_prefill=False, max_num_batched_tokens=64)
    assert not drive.add(1, 65, 1)
    assert "longer than the 64 tokens that one step computes" in drive.refused[1]
    assert drive.add(2, 64, 1)


def test_a_rid_is_taken_once() -> None:
    drive = driver()
    drive.add(1, 5, 5)
    with pytest.raises(ValueError, match="request 1 is already here"):
        drive.add(1, 5, 5)


# -- continuous --------------------------------------------------------------------------------------------------------


def test_decodes_come_first_then_begun_prompts_then_new_ones() -> None:
    drive = driver(max_num_batched_tokens=32)
    drive.add(1, 8, 20)
    drive.tick()
    drive.add(2, 60, 5)
    drive.add(3, 8, 5)
    assert shape(drive.tick().slices) == [(1, Role.DECODE, 1, 8), (2, Role.PREFILL, 31, 0)]
    plan = drive.tick()
    assert shape(plan.slices) == [(1, Role.DECODE, 1, 9), (2, Role.PREFILL, 29, 31), (3, Role.PREFILL, 2, 0)]
    assert [part.samples for part in plan.slices] == [True, True, False]
    assert plan.head is None


def test_a_long_prompt_leaves_room_for_others_below_its_threshold() -> None:
    drive = driver(max_num_batched_tokens=32, long_prefill_token_threshold=20)
    drive.add(1, 100, 5)
    drive.add(2, 8, 5)
    assert shape(drive.tick().slices) == [(1, Role.PREFILL, 20, 0), (2, Role.PREFILL, 8, 0)]


def test_the_head_says_that_the_token_budget_is_used_up() -> None:
    drive = driver(max_num_batched_tokens=32)
    drive.add(1, 40, 5)
    drive.add(2, 8, 5)
    assert drive.tick().head == Head(2, Reason.TOKEN_BUDGET)


def test_without_chunked_prefill_the_head_waits_for_a_step_with_room() -> None:
    drive = driver(max_num_batched_tokens=32, enable_chunked_prefill=False)
    drive.add(1, 8, 3)
    drive.tick()
    drive.add(2, 32, 5)
    drive.add(3, 1, 5)
    plan = drive.tick()
    assert plan.head == Head(2, Reason.TOKEN_BUDGET)
    assert shape(plan.slices) == [(1, Role.DECODE, 1, 8)], "nobody overtakes the head"
    drive.run()
    assert drive.happened(EventKind.SCHEDULED) == [1, 2, 3]


def test_the_head_says_that_all_slots_are_taken() -> None:
    drive = driver(max_num_seqs=2)
    for rid in (1, 2, 3):
        drive.add(rid, 8, 5)
    assert drive.tick().head == Head(3, Reason.SEQ_SLOTS)


def test_the_head_says_that_blocks_are_missing_and_starts_when_they_come_back() -> None:
    drive = driver(num_blocks=4)
    drive.add(1, 33, 4)
    drive.add(2, 33, 4)
    assert drive.tick().head == Head(2, Reason.KV_BLOCKS)
    drive.run()
    assert kinds(drive.events) == [
        (1, EventKind.SCHEDULED),
        (1, EventKind.FIRST_TOKEN),
        (1, EventKind.FINISHED),
        (2, EventKind.SCHEDULED),
        (2, EventKind.FIRST_TOKEN),
        (2, EventKind.FINISHED),
    ]


def test_the_watermark_keeps_room_for_growth_beside_others_only() -> None:
    config = Config(kv=KvConfig(watermark=0.5))
    drive = Driver(config, 4)
    drive.add(1, 33, 4)
    drive.add(2, 8, 4)
    plan = drive.tick()
    assert shape(plan.slices) == [(1, Role.PREFILL, 33, 0)], "alone it may take more than half"
    assert plan.head == Head(2, Reason.KV_BLOCKS)


# -- preemption --------------------------------------------------------------------------------------------------------


def preempting() -> Driver:
    """Two requests whose prompts fill the pool of 4 blocks, so that the first to grow pushes the other out."""
    drive = driver(num_blocks=4)
    drive.add(1, 32, 6)
    drive.add(2, 31, 6)
    drive.tick()
    return drive


def test_the_newest_gives_its_blocks_to_the_oldest() -> None:
    drive = preempting()
    plan = drive.tick()
    assert shape(plan.slices) == [(1, Role.DECODE, 1, 32)]
    (event,) = plan.events
    assert (event.rid, event.kind, event.other_rid) == (2, EventKind.PREEMPTED, 1)
    assert (event.reason, event.lost_tokens, event.freed_blocks) == (Reason.KV_BLOCKS, 31, 2)
    assert plan.head == Head(2, Reason.PREEMPTION)
    assert plan.occupancy.waiting_tokens == 32


def test_who_runs_out_as_the_newest_names_the_largest_holder() -> None:
    drive = driver(num_blocks=5)
    drive.add(1, 30, 10)
    drive.add(2, 47, 10)
    drive.tick()
    drive.tick()
    (event,) = drive.tick().events
    assert (event.rid, event.kind, event.other_rid) == (2, EventKind.PREEMPTED, 1)


def test_a_preempted_request_comes_back_before_new_ones_and_repeats_its_work() -> None:
    drive = preempting()
    drive.add(3, 16, 1)
    drive.run()
    assert [(rid, kind) for rid, kind in kinds(drive.events) if kind in (EventKind.RESUMED, EventKind.SCHEDULED)] == [
        (1, EventKind.SCHEDULED),
        (2, EventKind.SCHEDULED),
        (2, EventKind.RESUMED),
        (3, EventKind.SCHEDULED),
    ]
    roles = [part.role for plan in drive.plans for part in plan.slices if part.rid == 2]
    assert roles == [Role.PREFILL, Role.RECOMPUTE, *[Role.DECODE] * 4]
    assert drive.ends[2].progress.recomputed_tokens == 31
    assert drive.ends[2].progress.preemptions == 1


def test_recompute_in_chunks_ends_where_the_lost_work_ended() -> None:
    drive = driver(num_blocks=5, max_num_batched_tokens=16, max_num_seqs=2)
    drive.add(1, 32, 16)
    drive.add(2, 31, 6)
    drive.run()
    parts = [(part.role, part.tokens) for plan in drive.plans for part in plan.slices if part.rid == 2]
    again = parts[parts.index((Role.RECOMPUTE, 16)) :]
    assert again[:2] == [(Role.RECOMPUTE, 16), (Role.RECOMPUTE, 16)]
    assert {role for role, _ in again[2:]} == {Role.DECODE}


def test_without_chunked_prefill_what_outgrew_a_step_is_recomputed_in_parts() -> None:
    drive = driver(num_blocks=6, enable_chunked_prefill=False, max_num_batched_tokens=32, max_num_seqs=2)
    drive.add(1, 32, 40)
    drive.add(2, 31, 40)
    drive.run()
    assert drive.ends[2].progress.preemptions == 1
    recomputed = [part.tokens for plan in drive.plans for part in plan.slices if part.role is Role.RECOMPUTE]
    assert recomputed[0] == 32
    assert len(recomputed) > 1


def test_the_stretch_after_a_preemption_is_named_by_what_came_out_before() -> None:
    drive = preempting()
    drive.run()
    phases = [span.phase for span in drive.ends[2].spans]
    assert phases == [Phase.QUEUE, Phase.PREFILL, Phase.DECODE, Phase.PREEMPTED, Phase.DECODE]
    evicted = next(plan.step for plan in drive.plans if plan.events and plan.events[0].kind is EventKind.PREEMPTED)
    preempted = drive.ends[2].spans[3]
    assert preempted.first_step == evicted
    assert preempted.start == evicted * (PLAN_NS + EXEC_NS) + PLAN_NS, "from when the evicting plan began to run"


# -- immediate and static ----------------------------------------------------------------------------------------------


def test_immediate_runs_one_at_a_time() -> None:
    drive = driver(policy="immediate")
    drive.add(1, 8, 3)
    drive.add(2, 8, 3)
    plan = drive.tick()
    assert shape(plan.slices) == [(1, Role.PREFILL, 8, 0)]
    assert plan.head == Head(2, Reason.WORKER_BUSY)
    drive.run()
    assert kinds(drive.events)[2:4] == [(1, EventKind.FINISHED), (2, EventKind.SCHEDULED)]


def test_static_waits_for_its_timer_from_the_oldest_arrival() -> None:
    """SPEC A2: the timer runs from the oldest request's arrival and is not restarted by the next."""
    drive = driver(policy="static", max_batch_size=4, max_queue_delay_ms=0.001)
    drive.now = 50
    drive.add(1, 8, 3, arrival=40)
    plan = drive.tick()
    assert not plan.slices
    assert plan.head == Head(1, Reason.BATCH_TIMER)
    assert plan.wake_at == 1040
    drive.now = 700
    drive.add(2, 8, 3)
    assert drive.tick().wake_at == 1040
    assert [part.rid for part in drive.tick().slices] == [1, 2]


def test_a_full_static_batch_leaves_at_once_and_the_rest_waits_for_the_worker() -> None:
    drive = driver(policy="static", max_batch_size=2, max_queue_delay_ms=1000.0)
    for rid in (1, 2, 3):
        drive.add(rid, 8, 3)
    plan = drive.tick()
    assert [part.rid for part in plan.slices] == [1, 2]
    assert plan.head == Head(3, Reason.WORKER_BUSY)
    assert plan.wake_at is None


def test_a_static_batch_that_waited_enough_leaves_when_the_worker_frees() -> None:
    """SPEC A2, second half."""
    drive = driver(policy="static", max_batch_size=2, max_queue_delay_ms=0.0001)
    for rid in (1, 2, 3):
        drive.add(rid, 8, 3)
    for _ in range(3):
        drive.tick()
    assert sorted(drive.ends) == [1, 2]
    assert [part.rid for part in drive.tick().slices] == [3]


def test_a_static_batch_larger_than_a_step_starts_over_several() -> None:
    drive = driver(policy="static", max_batch_size=3, max_num_batched_tokens=32)
    for rid in (1, 2, 3, 4):
        drive.add(rid, 30, 5)
    first = drive.tick()
    assert first.head == Head(3, Reason.TOKEN_BUDGET)
    drive.tick()
    third = drive.tick()
    assert {part.rid for part in third.slices} == {1, 2, 3}
    assert third.head == Head(4, Reason.WORKER_BUSY)


def test_memory_cuts_a_static_batch_short() -> None:
    drive = driver(policy="static", max_batch_size=3, num_blocks=5)
    for rid in (1, 2, 3):
        drive.add(rid, 30, 3)
    assert [part.rid for part in drive.tick().slices] == [1, 2]
    assert drive.tick().head == Head(3, Reason.WORKER_BUSY)


def test_cancelling_out_of_a_batch_lets_nobody_else_in() -> None:
    drive = driver(policy="static", max_batch_size=3, max_num_batched_tokens=32)
    for rid in (1, 2, 3, 4):
        drive.add(rid, 30, 5)
    drive.tick()
    drive.cancel(3)
    plan = drive.tick()
    assert {part.rid for part in plan.slices} == {1, 2}
    assert plan.head == Head(4, Reason.WORKER_BUSY)


def test_the_batch_wait_begins_with_the_unbroken_stretch_that_waits_for_the_timer() -> None:
    drive = driver(policy="static", max_batch_size=2, max_queue_delay_ms=0.001)
    drive.add(1, 8, 3)
    drive.add(2, 8, 3)
    drive.tick()
    drive.add(3, 8, 3)
    drive.run()
    freed = 3 * (PLAN_NS + EXEC_NS)
    end = drive.ends[3]
    assert end.progress.batch_wait_from == freed
    assert [(span.phase, span.start) for span in end.spans][:3] == [
        (Phase.QUEUE, PLAN_NS + EXEC_NS),
        (Phase.BATCH_WAIT, freed),
        (Phase.PREFILL, PLAN_NS + EXEC_NS + 1000 + PLAN_NS),
    ]
    assert drive.ends[1].progress.batch_wait_from is None


def test_the_batch_wait_is_not_shortened_by_passes_within_it() -> None:
    drive = driver(policy="static", max_batch_size=3, max_queue_delay_ms=0.001)
    drive.add(1, 8, 1)
    drive.tick()
    drive.now = 500
    drive.add(2, 8, 1)
    drive.run()
    assert drive.ends[1].progress.batch_wait_from == 0
    assert drive.ends[2].progress.batch_wait_from == 500


# -- ends --------------------------------------------------------------------------------------------------------------


def test_cancelling_frees_a_running_request_and_ends_it() -> None:
    drive = driver()
    drive.add(1, 40, 10)
    drive.tick()
    commit = drive.cancel(1)
    (event,) = commit.events
    assert (event.kind, event.freed_blocks, event.t) == (EventKind.CANCELLED, 3, drive.now)
    assert commit.finished[1].reason == "cancelled"
    assert commit.finished[1].progress.output_tokens == 1
    assert drive.scheduler.occupancy().kv_free == 100


def test_cancelling_someone_unknown_is_nothing() -> None:
    commit = driver().cancel(7)
    assert (commit.events, dict(commit.finished)) == ((), {})


def test_events_of_a_plan_happen_when_it_begins_to_run() -> None:
    drive = driver()
    drive.add(1, 8, 1)
    drive.tick()
    progress = drive.ends[1].progress
    assert (progress.queued, progress.first_scheduled) == (0, PLAN_NS)
    assert progress.first_token == progress.last_token == PLAN_NS + EXEC_NS
    assert [event.t for event in drive.events] == [PLAN_NS, PLAN_NS + EXEC_NS, PLAN_NS + EXEC_NS]


def test_an_execution_that_owes_a_token_is_an_error() -> None:
    drive = driver()
    drive.add(1, 8, 1)
    plan = drive.scheduler.plan(0)
    with pytest.raises(ValueError, match=r"step 0 has to sample for requests \[1\]"):
        drive.scheduler.commit(plan, StepResult(), 1, 2)


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [(10, [1, 1, 1], [3, 3, 4]), (7, [1, 6], [1, 6]), (0, [3, 2], [0, 0]), (5, [1], [5]), (2, [1, 1, 1], [0, 1, 1])],
)
def test_device_time_is_split_by_tokens_and_sums_exactly(total: int, weights: list[int], parts: list[int]) -> None:
    """SPEC B9."""
    assert split(total, weights) == parts
