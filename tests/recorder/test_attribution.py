"""Hand-made ledgers with the exact nanoseconds of every cause (SPEC F1, F2)."""

import pytest

from recorder.attribution import CAUSES, SCHEMA, attribute
from recorder.words import EventKind, Reason, Role, Status
from tests.recorder.ledgers import Ledger, Part, Row

PREFILL, DECODE, RECOMPUTE = Role.PREFILL, Role.DECODE, Role.RECOMPUTE


def rows(ledger: Ledger, rid: int, attempt: int = 1) -> list[Row]:
    found: list[Row] = attribute(ledger).to_pylist()
    return [row for row in found if (row["rid"], row["attempt"]) == (rid, attempt)]


def causes(ledger: Ledger, rid: int, attempt: int = 1) -> dict[str, int]:
    """Ns by cause; each cause of these small ledgers has one root and one culprit."""
    found = rows(ledger, rid, attempt)
    by_cause = {row["cause"]: row["ns"] for row in found}
    assert len(by_cause) == len(found), found
    return by_cause


def blame(ledger: Ledger, rid: int) -> dict[tuple[str, str, int | None], int]:
    return {(row["cause"], row["root"], row["culprit"]): row["ns"] for row in rows(ledger, rid)}


def one_request() -> Ledger:
    """Request 1 arrives during step 0 of somebody else, is prefilled in step 1 and decoded in step 2."""
    ledger = Ledger()
    ledger.request(9, 0, admitted=0, queued=0, first_scheduled=10, last_token=90, returned=100)
    ledger.step(0, (0, 10, 90, 100), [Part(9, PREFILL, 4)], sent=95)
    ledger.request(1, 30, admitted=37, queued=103, first_scheduled=110, first_token=150, last_token=180, returned=200)
    ledger.step(1, (100, 110, 150, 160), [Part(1, PREFILL, 6)], sent=155)
    ledger.step(2, (160, 162, 180, 190), [Part(1, DECODE, 1, 6)], sent=187)
    return ledger


def test_life_of_one_request() -> None:
    assert causes(one_request(), 1) == {
        "INGRESS": 7,
        "STEP_IN_FLIGHT": 66,  # [37, 103): steps 0 and 1 were running
        "HOST_SCHED": 7 + 2,
        "PREFILL": 40,
        "DECODE": 18,
        "HOST_POST": 10 + 7,  # all of step 1, but only until the tokens of the last step left
        "RETURN": 13,
    }


def test_layout_and_order() -> None:
    table = attribute(one_request())
    assert table.schema == SCHEMA
    order = [(row["rid"], CAUSES.index(row["cause"])) for row in rows(one_request(), 1)]
    assert order == sorted(order)


def test_idle_worker_explains_no_flight() -> None:
    ledger = Ledger()
    ledger.request(1, 0, admitted=5, queued=55, first_scheduled=60, last_token=70, returned=80)
    ledger.step(0, (0, 2, 48, 50))  # idle: it waits for a message
    ledger.step(1, (50, 60, 70, 80), [Part(1, PREFILL, 3)], sent=75)
    assert causes(ledger, 1) == {
        "INGRESS": 5,
        "STEP_IN_FLIGHT": 5,  # step 1 alone: taking messages in is part of the pass
        "HOST_SCHED": 5,
        "PREFILL": 10,
        "HOST_POST": 5,
        "RETURN": 5,
        "UNNAMED": 45,  # on the link, while nothing kept the worker
    }


def waiting(reason: Reason, *, tier: str = "", other_tier: str = "") -> Ledger:
    """Requests 1 and 2 are queued in step 0; 1 is the head and starts in step 2, 2 then is and starts in step 3."""
    ledger = Ledger()
    for rid, start, done, its_tier in ((1, 60, 70, other_tier), (2, 83, 90, tier)):
        ledger.request(
            rid, 5, admitted=5, queued=5, first_scheduled=start, last_token=done, returned=done + 10, tier=its_tier
        )
    ledger.step(0, (0, 10, 20, 25), [Part(9, DECODE)], head=(1, reason))
    ledger.step(1, (25, 30, 40, 55), [Part(9, DECODE)], head=(1, reason))
    ledger.step(2, (55, 60, 70, 80), [Part(1, PREFILL, 4)], head=(2, reason), sent=80)
    ledger.step(3, (80, 83, 90, 100), [Part(2, PREFILL, 4)], sent=100)
    ledger.request(9, 0, admitted=0, queued=0, first_scheduled=0, status=Status.OPEN)
    return ledger


@pytest.mark.parametrize(
    ("reason", "largest"),
    [(Reason.KV_BLOCKS, True), (Reason.TOKEN_BUDGET, True), (Reason.SEQ_SLOTS, False), (Reason.PREEMPTION, False)],
)
def test_head_waits_for_its_reason_and_the_next_behind_it(reason: Reason, largest: bool) -> None:
    """Of those who run, the largest keeps the head out, where size is what matters."""
    ledger = waiting(reason)
    own, cause = [9, 1] if largest else [None, None], f"QUEUE/{reason}"
    assert blame(ledger, 1)[cause, reason, own[0]] == 50  # [5, 55); then it is being planned
    assert causes(ledger, 1)["HOST_SCHED"] == 5
    queued = {key: ns for key, ns in blame(ledger, 2).items() if key[0].startswith("QUEUE")}
    assert queued == {("QUEUE/BEHIND_FIFO", reason, 1): 50, (cause, reason, own[1]): 25}


def test_largest_in_cache_holds_the_blocks_and_largest_in_step_the_budget() -> None:
    for reason, culprit in ((Reason.KV_BLOCKS, 8), (Reason.TOKEN_BUDGET, 9)):
        ledger = waiting(reason)
        ledger.request(8, 0, status=Status.OPEN)
        ledger.rows["slices"].clear()
        for step in (0, 1):
            row = ledger.rows["steps"].pop(0)
            stamps = (row["t_sched"], row["t_exec"], row["t_done"], row["t_end"])
            ledger.step(step, stamps, [Part(9, PREFILL, 6), Part(8, DECODE, 1, 40)], head=(1, reason))
        assert blame(ledger, 1)[f"QUEUE/{reason}", reason, culprit] == 50


def test_behind_another_tier() -> None:
    ledger = waiting(Reason.KV_BLOCKS, tier="free", other_tier="paid")
    assert blame(ledger, 2)["QUEUE/BEHIND_TIER", "KV_BLOCKS", 1] == 50
    assert "QUEUE/BEHIND_FIFO" not in causes(ledger, 2)


def test_the_batch_timer_holds_all_back_and_is_nobodys_fault() -> None:
    ledger = waiting(Reason.BATCH_TIMER)
    assert blame(ledger, 1)["QUEUE/BATCH_TIMER", "BATCH_TIMER", None] == 50
    assert blame(ledger, 2)["QUEUE/BATCH_TIMER", "BATCH_TIMER", None] == 75


def test_a_busy_worker_holds_all_back_for_the_one_it_is_busy_with() -> None:
    ledger = waiting(Reason.WORKER_BUSY)
    assert blame(ledger, 1)["QUEUE/WORKER_BUSY", "WORKER_BUSY", 9] == 50
    assert blame(ledger, 2)["QUEUE/WORKER_BUSY", "WORKER_BUSY", 9] == 50
    assert blame(ledger, 2)["QUEUE/WORKER_BUSY", "WORKER_BUSY", 1] == 25


def test_waiting_without_a_recorded_head_is_unnamed() -> None:
    ledger = waiting(Reason.KV_BLOCKS)
    ledger.rows["steps"][1].update(head_rid=None, head_reason="NONE")
    assert causes(ledger, 1)["QUEUE/KV_BLOCKS"] == 20
    assert causes(ledger, 1)["UNNAMED"] == 30


def mixed(decode_only_ns: int | None) -> Ledger:
    """Request 1 decodes in step 1 beside the prefills of 2 (5 tokens) and 3 (8 tokens)."""
    ledger = Ledger()
    ledger.request(1, 0, admitted=0, queued=0, first_scheduled=5, last_token=60, returned=70)
    ledger.request(2, 15, admitted=15, queued=20, first_scheduled=25, last_token=60, returned=70)
    ledger.request(3, 15, admitted=15, queued=20, first_scheduled=25, last_token=60, returned=70)
    ledger.step(0, (0, 5, 15, 20), [Part(1, PREFILL, 4)], sent=15)
    parts = [Part(1, DECODE), Part(2, PREFILL, 5), Part(3, PREFILL, 8)]
    ledger.step(1, (20, 25, 60, 70), parts, sent=66, decode_only_ns=decode_only_ns)
    return ledger


def test_decode_stalled_by_the_largest_prefill() -> None:
    found = blame(mixed(12), 1)
    assert found["DECODE", "DECODE", None] == 12
    assert found["STALLED_BY_PREFILL", "STALLED_BY_PREFILL", 3] == 23
    assert {row["cause"]: row["measured"] for row in rows(mixed(12), 1)}["STALLED_BY_PREFILL"] is False
    assert all(row["measured"] for row in rows(mixed(12), 1) if row["cause"] != "STALLED_BY_PREFILL")
    assert causes(mixed(12), 3)["PREFILL"] == 35


@pytest.mark.parametrize("unusable", [None, 0, -4, 35, 99])
def test_no_stall_without_a_usable_prediction(unusable: int | None) -> None:
    assert causes(mixed(unusable), 1)["DECODE"] == 35
    assert "STALLED_BY_PREFILL" not in causes(mixed(unusable), 1)


def test_recompute_stalls_too_and_the_lowest_rid_is_blamed_when_even() -> None:
    ledger = mixed(12)
    ledger.rows["slices"][2].update(tokens=8, role="recompute")
    assert blame(ledger, 1)["STALLED_BY_PREFILL", "STALLED_BY_PREFILL", 2] == 23
    assert causes(ledger, 2)["RECOMPUTE"] == 35


def test_each_culprit_of_a_stall_has_its_row() -> None:
    ledger = mixed(12)
    ledger.request(4, 60, admitted=60, queued=70, first_scheduled=75, last_token=95, returned=99)
    ledger.rows["requests"][0].update(last_token=95, returned=99)
    ledger.step(2, (70, 75, 95, 99), [Part(1, DECODE), Part(4, PREFILL, 2)], sent=99, decode_only_ns=15)
    found = blame(ledger, 1)
    assert {key[2]: ns for key, ns in found.items() if key[0] == "STALLED_BY_PREFILL"} == {3: 23, 4: 5}
    assert found["DECODE", "DECODE", None] == 12 + 15


def preempted() -> Ledger:
    """Request 1 is left out of step 1, loses its blocks to 2 in step 2, and computes again in step 4."""
    ledger = Ledger()
    ledger.request(1, 0, admitted=0, queued=0, first_scheduled=5, last_token=90, returned=100)
    ledger.request(2, 0, admitted=0, queued=0, first_scheduled=5, last_token=60, returned=70)
    ledger.step(0, (0, 5, 15, 20), [Part(1, PREFILL, 4), Part(2, PREFILL, 4)], sent=20)
    ledger.step(1, (20, 22, 30, 33), [Part(2, DECODE)], sent=33)
    ledger.event(36, 2, 1, EventKind.PREEMPTED, other_rid=2, reason="KV_BLOCKS", lost_tokens=4, freed_blocks=1)
    ledger.step(2, (33, 36, 40, 45), [Part(2, DECODE)], sent=45, head=(1, Reason.PREEMPTION))
    ledger.step(3, (45, 46, 60, 64), [Part(2, DECODE)], sent=64, head=(1, Reason.KV_BLOCKS))
    ledger.step(4, (64, 70, 80, 84), [Part(1, RECOMPUTE, 4)], sent=84)
    ledger.step(5, (84, 85, 90, 92), [Part(1, DECODE)], sent=91)
    return ledger


def test_skipped_preempted_recomputed() -> None:
    assert causes(preempted(), 1) == {
        "HOST_SCHED": 5 + 6 + 1,
        "PREFILL": 10,
        "SKIPPED": 13,
        "PREEMPTED/KV_BLOCKS": 31,  # the pass that evicted it, and the next
        "RECOMPUTE": 10,
        "DECODE": 5,
        "HOST_POST": 5 + 4 + 1,
        "RETURN": 9,
    }
    assert blame(preempted(), 1)["PREEMPTED/KV_BLOCKS", "PREEMPTED/KV_BLOCKS", 2] == 31


def test_preempted_again_before_it_ran() -> None:
    """Resumed and evicted in one plan leaves no slice: the second culprit takes over where the first ends."""
    ledger = preempted()
    ledger.event(46, 3, 1, EventKind.PREEMPTED, other_rid=7, reason="PREEMPTION")
    found = blame(ledger, 1)
    assert found["PREEMPTED/KV_BLOCKS", "PREEMPTED/KV_BLOCKS", 2] == 12
    assert found["PREEMPTED/PREEMPTION", "PREEMPTED/PREEMPTION", 7] == 19


def test_preempted_in_a_pass_that_it_took_part_in() -> None:
    ledger = preempted()
    ledger.rows["events"][0].update(step=0, t=15)
    assert causes(ledger, 1)["PREEMPTED/KV_BLOCKS"] == 13 + 31
    assert "SKIPPED" not in causes(ledger, 1)


def test_lost_delivery_leaves_the_way_out_unnamed() -> None:
    ledger = one_request()
    del ledger.rows["deliveries"][2]
    found = causes(ledger, 1)
    assert (found["HOST_POST"], found["UNNAMED"], "RETURN" in found) == (10, 20, False)


def test_lost_step_leaves_its_time_unnamed() -> None:
    ledger = preempted()
    del ledger.rows["steps"][3]
    found = causes(ledger, 1)
    assert (found["PREEMPTED/KV_BLOCKS"], found["UNNAMED"]) == (12, 19)
    ledger = one_request()
    ledger.step(3, (190, 191, 195, 199))
    del ledger.rows["steps"][2]
    found = causes(ledger, 1)
    assert (found["UNNAMED"], found["RETURN"], "DECODE" in found) == (27, 13, False)


def test_lost_slice_is_not_taken_for_being_left_out() -> None:
    ledger = preempted()
    ledger.rows["slices"] = [row for row in ledger.rows["slices"] if (row["step"], row["rid"]) != (4, 1)]
    ledger.rows["slices"] = [row for row in ledger.rows["slices"] if (row["step"], row["rid"]) != (1, 2)]
    found = causes(ledger, 1)
    assert found["UNNAMED"] == 13 + 20  # step 1 can't tell that 1 was skipped, and step 4 that it was not
    assert found["PREEMPTED/KV_BLOCKS"] == 31
    assert "SKIPPED" not in found


def test_lost_preemption_is_not_taken_for_being_skipped() -> None:
    """The slice that follows does not go on where the one before ended, or a resumption says it."""
    ledger = preempted()
    ledger.rows["events"].clear()
    assert causes(ledger, 1)["UNNAMED"] == 13 + 31
    ledger.rows["slices"][-2]["computed_before"] = 4
    assert causes(ledger, 1)["SKIPPED"] == 13 + 31
    ledger.event(70, 4, 1, EventKind.RESUMED)
    assert causes(ledger, 1)["UNNAMED"] == 13 + 31


def test_lost_slice_does_not_prolong_a_preemption() -> None:
    ledger = preempted()
    ledger.event(46, 3, 1, EventKind.RESUMED)
    found = causes(ledger, 1)
    assert (found["PREEMPTED/KV_BLOCKS"], found["UNNAMED"], found["SKIPPED"]) == (12, 19, 13)


def test_lost_last_slice_is_not_mistaken_for_the_way_out() -> None:
    ledger = one_request()
    del ledger.rows["slices"][-1]
    found = causes(ledger, 1)
    assert (found["HOST_POST"], found["UNNAMED"]) == (10, 40)
    assert "RETURN" not in found


def test_lost_first_slice_does_not_lengthen_the_wait() -> None:
    ledger = waiting(Reason.KV_BLOCKS)
    ledger.rows["slices"] = [row for row in ledger.rows["slices"] if row["rid"] != 1]
    found = causes(ledger, 1)
    assert (found["QUEUE/KV_BLOCKS"], found["UNNAMED"]) == (50, 25)


def test_overlapping_stamps_show_as_negative_and_the_sum_stays_exact() -> None:
    ledger = one_request()
    ledger.rows["requests"][1]["admitted"] = 150
    found = causes(ledger, 1)
    assert found["UNNAMED"] < 0
    assert sum(found.values()) == 170


def test_open_request_in_the_queue_is_explained_up_to_the_last_pass() -> None:
    ledger = waiting(Reason.SEQ_SLOTS)
    ledger.request(3, 60, admitted=61, status=Status.OPEN)
    ledger.event(80, 3, 3, EventKind.QUEUED)
    ledger.rows["steps"][3].update(head_rid=3, head_reason="SEQ_SLOTS")
    assert causes(ledger, 3) == {"INGRESS": 1, "STEP_IN_FLIGHT": 19, "QUEUE/SEQ_SLOTS": 20}


def test_open_request_that_runs() -> None:
    """Nothing but its arrival is in its row: the worker's part is found by its slices and events."""
    ledger = preempted()
    ledger.rows["requests"][0] = ledger.request(1, 0, status=Status.OPEN, worker=None)
    del ledger.rows["requests"][-1], ledger.rows["steps"][4:]
    assert causes(ledger, 1) == {
        "HOST_SCHED": 5,
        "PREFILL": 10,
        "SKIPPED": 13,
        "PREEMPTED/KV_BLOCKS": 31,
        "HOST_POST": 5,
    }


def test_slices_of_a_step_that_was_cut_off_do_not_count() -> None:
    ledger = preempted()
    ledger.rows["requests"][0] = ledger.request(1, 0, status=Status.OPEN)
    del ledger.rows["requests"][-1], ledger.rows["steps"][5:]
    before = causes(ledger, 1)
    del ledger.rows["slices"][-1]
    assert causes(ledger, 1) == before


def test_finished_on_the_worker_but_not_returned() -> None:
    ledger = one_request()
    ledger.rows["requests"][1].update(status="open", returned=None)
    ledger.event(180, 2, 1, EventKind.FINISHED)
    ledger.step(3, (190, 191, 195, 199), [Part(9, DECODE)])
    found = causes(ledger, 1)
    assert (found["HOST_POST"], found["RETURN"], "SKIPPED" in found) == (17, 12, False)


def test_cancelled_while_running() -> None:
    """Its client left at 58; the worker learned of it at 47 + 100, which is no longer its time."""
    ledger = preempted()
    ledger.rows["requests"][0] = ledger.request(1, 0, admitted=0, status=Status.CANCELLED, returned=58)
    del ledger.rows["requests"][-1]
    ledger.event(0, 0, 1, EventKind.QUEUED)
    ledger.event(147, 6, 1, EventKind.CANCELLED)
    assert causes(ledger, 1) == {
        "HOST_SCHED": 5,
        "PREFILL": 10,
        "SKIPPED": 13,
        "PREEMPTED/KV_BLOCKS": 25,
        "HOST_POST": 5,
    }


def test_cancelled_on_the_worker_first() -> None:
    ledger = waiting(Reason.KV_BLOCKS)
    ledger.request(4, 5, admitted=5, status=Status.CANCELLED, returned=90)
    ledger.event(6, 0, 4, EventKind.QUEUED)
    ledger.event(27, 1, 4, EventKind.CANCELLED)
    assert causes(ledger, 4) == {"STEP_IN_FLIGHT": 1, "QUEUE/BEHIND_FIFO": 21, "UNNAMED": 63}


def test_rejected_at_the_door() -> None:
    ledger = one_request()
    ledger.request(5, 40, status=Status.REJECTED, returned=48, worker=None)
    assert causes(ledger, 5) == {"UNNAMED": 8}


def test_ended_without_return_is_explained_to_the_last_instant_known() -> None:
    ledger = one_request()
    ledger.request(5, 40, status=Status.FAILED, admitted=44)
    assert causes(ledger, 5) == {"INGRESS": 4}


def test_workers_are_apart() -> None:
    ledger = one_request()
    ledger.request(2, 0, admitted=0, queued=0, first_scheduled=7, last_token=50, returned=60, worker=1)
    ledger.step(0, (0, 7, 50, 60), [Part(2, PREFILL, 3)], worker=1, sent=55)
    assert causes(ledger, 2) == {"HOST_SCHED": 7, "PREFILL": 43, "HOST_POST": 5, "RETURN": 5}
    assert causes(ledger, 1) == causes(one_request(), 1)


def test_attempts_of_one_request_are_apart() -> None:
    """The first attempt failed; the second ran later on the same worker."""
    ledger = one_request()
    ledger.request(9, 150, attempt=2, admitted=155, queued=165, first_scheduled=199, last_token=220, returned=230)
    ledger.step(3, (190, 199, 220, 230), [Part(9, PREFILL, 4)], sent=225)
    ledger.rows["steps"][2].update(head_rid=9, head_reason="WORKER_BUSY")
    assert causes(ledger, 9) == {"HOST_SCHED": 10, "PREFILL": 80, "HOST_POST": 5, "RETURN": 5}
    assert causes(ledger, 9, attempt=2) == {
        "INGRESS": 5,
        "STEP_IN_FLIGHT": 10,
        "QUEUE/WORKER_BUSY": 25,
        "HOST_SCHED": 9,
        "PREFILL": 21,
        "HOST_POST": 5,
        "RETURN": 5,
    }


def test_long_wait_names_only_large_culprits_and_loses_nothing() -> None:
    """200 heads of 1 ns and one of 100 ns: only the large one holds 1/64 of the wait of the last in line."""
    ledger = Ledger()
    t = 0
    for rid in range(201):
        length = 100 if rid == 120 else 1
        ledger.step(rid, (t, t, t, t + length), head=(rid, Reason.SEQ_SLOTS))
        ledger.request(rid, 0, admitted=0, queued=0, first_scheduled=t + length, status=Status.OPEN)
        t += length
    ledger.request(999, 0, admitted=0, queued=0, first_scheduled=t, status=Status.OPEN)
    ledger.step(201, (t, t, t + 5, t + 5), [Part(999, PREFILL, 1)])
    found = blame(ledger, 999)
    assert found["QUEUE/BEHIND_FIFO", "SEQ_SLOTS", 120] == 100
    assert found["QUEUE/BEHIND_FIFO", "SEQ_SLOTS", None] == 200
    expected: dict[tuple[str, str, int | None], int] = {("QUEUE/BEHIND_FIFO", "SEQ_SLOTS", rid): 1 for rid in range(50)}
    expected["QUEUE/SEQ_SLOTS", "SEQ_SLOTS", None] = 1
    expected["UNNAMED", "UNNAMED", None] = t + 5 - 51  # nobody recorded that it ran
    assert blame(ledger, 50) == expected


def test_a_run_without_anything() -> None:
    assert attribute(Ledger()).num_rows == 0
    ledger = Ledger()
    ledger.request(1, 10, status=Status.OPEN, admitted=12)
    assert causes(ledger, 1) == {"INGRESS": 2}


def test_time_in_the_hands_of_a_worker_that_was_lost_is_told_by_the_attempt_that_went_on() -> None:
    """SPEC A7, F1: counted from the arrival of the first attempt; a client that sends again arrives anew."""
    ledger = Ledger()
    ledger.request(1, arrival=10, worker=1, admitted=12, status=Status.FAILED)
    ledger.request(2, arrival=10, attempt=2, retry_of=1, admitted=50, returned=70)
    ledger.request(3, arrival=40, attempt=2, retry_of=1, admitted=43, returned=70)
    assert causes(ledger, 2, attempt=2)["EARLIER_ATTEMPT"] == 40
    assert "INGRESS" not in causes(ledger, 2, attempt=2)
    assert causes(ledger, 3, attempt=2)["INGRESS"] == 3
    assert "EARLIER_ATTEMPT" not in causes(ledger, 3, attempt=2)


def stamps_alone(**stamps: object) -> Ledger:
    """A recording of requests that never had steps."""
    ledger = Ledger()
    ledger.info.recorded_tables = ["requests", "spans"]
    ledger.request(1, 5).update(stamps)
    return ledger


def test_stamps_alone_name_the_phases_and_nothing_in_them() -> None:
    """SPEC F1: the closure stays exact, and a phase is not taken for what steps would tell of it."""
    stamps = {"queued": 7, "first_scheduled": 10, "first_token": 30, "last_token": 90, "returned": 96}
    found = rows(stamps_alone(**stamps), 1)
    assert {row["cause"]: row["ns"] for row in found} == {
        "INGRESS/PHASE": 2,
        "QUEUE/PHASE": 3,
        "PREFILL/PHASE": 20,
        "DECODE/PHASE": 60,
        "RETURN/PHASE": 6,
    }
    assert all(row["measured"] and row["culprit"] is None for row in found)


def test_what_no_stamp_ends_stays_unnamed() -> None:
    assert causes(stamps_alone(admitted=6, queued=7, last_token=90, returned=96), 1) == {
        "INGRESS": 1,
        "INGRESS/PHASE": 1,
        "RETURN/PHASE": 6,
        "UNNAMED": 83,
    }


def test_phases_are_no_causes_where_steps_were_recorded_and_lost() -> None:
    ledger = stamps_alone(queued=7, first_scheduled=10, first_token=30, last_token=90, returned=96)
    ledger.info.recorded_tables = []
    assert causes(ledger, 1) == {"UNNAMED": 91}
