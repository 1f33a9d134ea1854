"""A sound run passes every check, and each kind of damage is found by the check whose business it is (DESIGN 5)."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.check import MOST_ROWS, Check, check
from recorder.losses import Damage
from recorder.run import RunInfo
from recorder.tables import open_tables
from recorder.words import Status
from tests.recorder.ledgers import Ledger, Row
from tests.recorder.simulated import simulate

runs = st.builds(
    simulate,
    st.integers(0, 2**32).map(Random),
    requests=st.integers(1, 12),
    workers=st.integers(1, 2),
    passes=st.sampled_from([10_000, 10_000, 8, 30]),
)


def sound() -> Ledger:
    """A run with preemptions, cancellations and two workers, in which every row below exists."""
    return simulate(Random(5), requests=16, workers=2)


def failing(ledger: Ledger) -> dict[str, Check]:
    return {found.name: found for found in check(ledger) if not found.ok}


@given(runs)
@settings(max_examples=40, deadline=None)
def test_legal_runs_pass(ledger: Ledger) -> None:
    assert failing(ledger) == {}


def answered(ledger: Ledger) -> Row:
    return next(row for row in ledger.rows["requests"] if row["status"] == Status.OK and row["output_tokens"] > 2)


def slices_of(ledger: Ledger, request: Row) -> list[Row]:
    return [row for row in ledger.rows["slices"] if row["rid"] == request["rid"]]


def busy_step(ledger: Ledger) -> Row:
    return [row for row in ledger.rows["steps"] if row["kind"] != "idle"][3]


def lose_step(ledger: Ledger) -> None:
    ledger.rows["steps"].remove(busy_step(ledger))


def lose_first_step(ledger: Ledger) -> None:
    del ledger.rows["steps"][0]


def repeat_step(ledger: Ledger) -> None:
    ledger.rows["steps"].append(dict(busy_step(ledger)))


def lengthen_step(ledger: Ledger) -> None:
    busy_step(ledger)["t_end"] += 1


def swap_stamps_of_step(ledger: Ledger) -> None:
    row = busy_step(ledger)
    row["t_exec"], row["t_done"] = row["t_done"], row["t_exec"]


def lose_slice(ledger: Ledger) -> None:
    ledger.rows["slices"].remove(slices_of(ledger, answered(ledger))[1])


def lose_last_slice(ledger: Ledger) -> None:
    ledger.rows["slices"].remove(slices_of(ledger, answered(ledger))[-1])


def more_tokens_in_slice(ledger: Ledger) -> None:
    part = next(row for row in ledger.rows["slices"] if row["role"] == "prefill")
    part["tokens"] += 1


def more_cached_in_slice(ledger: Ledger) -> None:
    next(row for row in ledger.rows["slices"] if row["role"] == "decode")["computed_before"] += 1


def free_block_from_nowhere(ledger: Ledger) -> None:
    busy_step(ledger)["kv_free"] += 1


def block_given_twice(ledger: Ledger) -> None:
    slices_of(ledger, answered(ledger))[0]["new_blocks"] += 1


def lose_release(ledger: Ledger) -> None:
    ledger.rows["events"].remove(next(row for row in ledger.rows["events"] if row["freed_blocks"]))


def lose_request(ledger: Ledger) -> None:
    ledger.rows["requests"].remove(answered(ledger))


def blame_nobody(ledger: Ledger) -> None:
    next(row for row in ledger.rows["events"] if row["other_rid"] is not None)["other_rid"] = 999


def tokenise_for_nobody(ledger: Ledger) -> None:
    ledger.add("stalls", t_start=5, t_end=9, kind="tokenise", source="frontend", device=0, rid=999)


def stall_that_ends_before_it_begins(ledger: Ledger) -> None:
    ledger.add("stalls", t_start=9, t_end=5, kind="gc", source="worker", device=0)


def delivery_of_a_lost_step(ledger: Ledger) -> None:
    ledger.rows["deliveries"][0]["step"] = -5


def late_admission(ledger: Ledger) -> None:
    answered(ledger)["admitted"] = answered(ledger)["returned"]


def early_delivery(ledger: Ledger) -> None:
    ledger.rows["deliveries"][2]["t_sent"] -= 500


def early_read(ledger: Ledger) -> None:
    ledger.rows["deliveries"][2]["t_received"] -= 1


def event_outside_its_step(ledger: Ledger) -> None:
    ledger.rows["events"][4]["t"] += 1000


def stamp_between_steps(ledger: Ledger) -> None:
    row = answered(ledger)
    row["first_token"] += 1 if row["first_token"] < row["last_token"] else -1


def wrong_output(ledger: Ledger) -> None:
    answered(ledger)["output_tokens"] += 1


def lose_span(ledger: Ledger) -> None:
    spans = [row for row in ledger.rows["spans"] if row["name"] == "decode"]
    ledger.rows["spans"].remove(spans[0])


def lose_outer_span(ledger: Ledger) -> None:
    ledger.rows["spans"].remove(next(row for row in ledger.rows["spans"] if row["name"] == "return"))


def lengthen_span(ledger: Ledger) -> None:
    ledger.rows["spans"][1]["end"] += 1


def end_twice(ledger: Ledger) -> None:
    ledger.rows["requests"].append(dict(answered(ledger)))


def ok_without_return(ledger: Ledger) -> None:
    answered(ledger)["returned"] = None


def drop_records(ledger: Ledger) -> None:
    ledger.drops = {("worker0", "slices"): 3, ("worker0", "steps"): 0}


def damage_a_file(ledger: Ledger) -> None:
    ledger.damages.append(Damage("steps/worker0-0-9.parquet", "a page has the wrong checksum"))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lose_step, {"passes tile", "ids resolve"}),
        (lose_first_step, {"passes tile"}),
        (repeat_step, {"passes tile"}),
        (lengthen_step, {"passes tile"}),
        (swap_stamps_of_step, {"stamps in order"}),
        (lose_slice, {"slices match steps", "tokens add up"}),
        (lose_last_slice, {"slices match steps", "tokens add up", "stamps match steps"}),
        (more_tokens_in_slice, {"slices match steps"}),
        (more_cached_in_slice, {"slices match steps"}),
        (free_block_from_nowhere, {"kv ledger"}),
        (block_given_twice, {"kv ledger"}),
        (lose_release, {"kv ledger"}),
        (lose_request, {"ids resolve"}),
        (blame_nobody, {"ids resolve"}),
        (tokenise_for_nobody, {"ids resolve"}),
        (stall_that_ends_before_it_begins, {"stamps in order"}),
        (delivery_of_a_lost_step, {"ids resolve"}),
        (late_admission, {"stamps in order", "causes sum"}),
        (early_delivery, {"stamps in order"}),
        (early_read, {"stamps in order"}),
        (event_outside_its_step, {"stamps in order"}),
        (stamp_between_steps, {"stamps match steps"}),
        (wrong_output, {"tokens add up"}),
        (lose_span, {"spans tile"}),
        (lose_outer_span, {"spans tile"}),
        (lengthen_span, {"spans tile"}),
        (end_twice, {"attempts end once"}),
        (ok_without_return, {"attempts end once"}),
        (drop_records, {"nothing dropped"}),
        (damage_a_file, {"files intact"}),
    ],
)
def test_damage_is_found(damage: Callable[[Ledger], None], expected: set[str]) -> None:
    ledger = sound()
    damage(ledger)
    found = failing(ledger)
    assert expected <= found.keys()
    assert all(each.rows and len(each.rows) <= MOST_ROWS for each in found.values())


@given(runs, st.sampled_from(["steps", "slices", "requests"]), st.data())
@settings(max_examples=60, deadline=None)
def test_no_row_can_be_lost_unnoticed(ledger: Ledger, table: str, data: st.DataObject) -> None:
    rows = ledger.rows[table]
    if not rows:
        return
    lost = rows.pop(data.draw(st.integers(0, len(rows) - 1)))
    if table == "steps" and not any(row["worker"] == lost["worker"] and row["step"] > lost["step"] for row in rows):
        return  # the last pass of a worker: what it did is what a pass that was cut off would have done
    if table == "requests" and not any(
        row["rid"] == lost["rid"] for row in ledger.rows["slices"] + ledger.rows["events"]
    ):
        return  # nobody ever saw that request
    assert failing(ledger)


def test_lost_delivery_is_unnamed_time() -> None:
    """Nothing requires a delivery, but its time has no other cause."""
    ledger = sound()
    named = next(found for found in check(ledger) if found.name == "causes sum").detail
    request = answered(ledger)
    last = slices_of(ledger, request)[-1]
    ledger.rows["deliveries"] = [
        row for row in ledger.rows["deliveries"] if (row["worker"], row["step"]) != (last["worker"], last["step"])
    ]
    assert next(found for found in check(ledger) if found.name == "causes sum").detail != named


def test_only_the_step_where_the_kv_account_breaks_is_shown() -> None:
    ledger = sound()
    slices_of(ledger, answered(ledger))[0]["new_blocks"] += 1
    broken = failing(ledger)["kv ledger"]
    assert [row["missing"] for row in broken.rows] == [-1]
    assert broken.rows[0]["step"] == slices_of(ledger, answered(ledger))[0]["step"]


def test_detail_counts_what_the_rows_do_not_show() -> None:
    ledger = sound()
    for row in ledger.rows["spans"]:
        row["end"] += 1
    broken = failing(ledger)["spans tile"]
    assert len(broken.rows) == MOST_ROWS
    assert int(broken.detail.split()[0]) > MOST_ROWS


def test_drops_are_told_per_ring() -> None:
    ledger = sound()
    drop_records(ledger)
    broken = failing(ledger)["nothing dropped"]
    assert broken.detail == "3 records dropped: 3 of worker0.slices"


def test_open_requests_are_told() -> None:
    ledger = simulate(Random(1), requests=8, passes=6)
    opened = sum(row["status"] == Status.OPEN for row in ledger.rows["requests"])
    assert opened
    found = next(found for found in check(ledger) if found.name == "attempts end once")
    assert found.ok
    assert f"{opened} open" in found.detail


def test_answer_whose_step_was_cut_off() -> None:
    """Killed between handing out its last tokens and writing the step's row; in a sealed run that is a fault."""
    ledger = simulate(Random(5), requests=3)
    last = ledger.rows["steps"].pop()
    for table in ("slices", "events", "deliveries"):
        ledger.rows[table] = [row for row in ledger.rows[table] if table == "deliveries" or row["step"] < last["step"]]
    assert failing(ledger)
    ledger.info = RunInfo(run_id="made", state="recording")
    assert failing(ledger) == {}


def test_run_on_disk(tmp_path: Path) -> None:
    assert [found.name for found in check(open_tables(sound().write(tmp_path))) if not found.ok] == []


@pytest.mark.parametrize("damage", [None, lose_step, lose_first_step])
def test_what_is_read_some_at_a_time_is_found_as_in_memory(
    tmp_path: Path, damage: Callable[[Ledger], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.check._AT_ONCE", 7)
    monkeypatch.setattr("recorder.parts.ROW_GROUP", 11)
    ledger = sound()
    if damage is not None:
        damage(ledger)
    tables = open_tables(ledger.write(tmp_path))
    assert len(list(tables.some_at_a_time("slices"))) > 3
    assert check(tables)[2:] == check(ledger)[2:]


def test_run_without_anything() -> None:
    assert failing(Ledger()) == {}
