"""The engine's numbers against sums by hand, its ledgers on planted rows, and the command on runs of every kind."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.cli import main
from console.engine_view.answer import About, EngineView, engine
from console.engine_view.bins import binned
from console.engine_view.kv import held_between
from console.engine_view.look import Asking, Look, stretch, whole
from console.engine_view.utilisation import spent_between
from console.filter import EVERYTHING, Filter
from console.filter_language import FilterError, parse_filter
from console.session import Session
from console.text.engine import engine_lines
from console.text.engine_strips import parts_for, strip_lines
from console.timeline import Window
from console.widgets.ink import width_of
from recorder.words import EventKind, Reason, Source, StallKind, Status, StepKind
from tests.console.runs import request, step, write_run
from tests.console.tui_runs import all_rejected, damaged, empty, mixed_ends, no_duration, one_request, served

MS = 1_000_000
CONFIG: dict[str, Any] = {
    "scheduler": {"policy": "continuous", "max_num_seqs": 4, "max_num_batched_tokens": 20},
    "kv": {"enable_prefix_caching": False},
}


def look_at(
    session: Session, window: Window | None = None, worker: int | None = None, bins: int = 10, only: Filter = EVERYTHING
) -> EngineView:
    with session.connect() as cursor:
        return engine(session, only, Look(window or whole(session), worker, bins), cursor)


def view_of(folder: Path, rows: dict[str, Any], only: str = "", config: dict[str, Any] | None = None) -> EngineView:
    with Session(write_run(folder, rows, config=CONFIG if config is None else config)) as session:
        return look_at(session, only=parse_filter(only))


def about_of(view: EngineView) -> About:
    assert view.about is not None
    return view.about


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A run of a whole workload by one worker."""
    with Session(served(tmp_path_factory.mktemp("runs"))) as opened:
        yield opened


def passes_in(session: Session, window: Window) -> list[dict[str, Any]]:
    """The passes of a stretch, with the ns that each has in it."""
    found: list[dict[str, Any]] = session.query("SELECT * FROM steps ORDER BY t_sched").to_pylist()
    return [{**row, "inside": min(row["t_end"], window.end) - max(row["t_sched"], window.start)} for row in found]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=12)
@given(st.floats(0, 0.9), st.floats(0.01, 1), st.integers(1, 97))
def test_the_parts_of_a_stretch_sum_to_the_stretch(session: Session, start: float, size: float, bins: int) -> None:
    run = whole(session)
    low = run.low + int(run.span * start)
    window = Window(run.low, run.high, low, min(low + max(int(run.span * size), 1), run.high))
    with session.connect() as cursor:
        found = binned(Asking(session, cursor, Look(window, None, bins)).ask("engine_bins"), bins)
    inside = [row for row in passes_in(session, window) if row["inside"] > 0]
    for kind in StepKind:
        assert found.kinds[kind.value].sum() == sum(row["inside"] for row in inside if row["kind"] == kind)
    assert found.all_ns.sum() == sum(row["inside"] for row in inside)
    np.testing.assert_allclose(found.busy_ns + found.idle_ns, np.where(found.all_ns > 0, found.all_ns, np.nan))
    np.testing.assert_allclose(found.exec_ns + found.host_ns, found.busy_ns)
    edges = np.diff(window.edges(bins))
    assert (found.all_ns <= edges).all()


def test_kinds_batch_and_time_are_those_of_the_passes(session: Session) -> None:
    report = look_at(session).report
    passes = passes_in(session, whole(session))
    for row in report["kinds"]:
        lengths = sorted(p["t_end"] - p["t_sched"] for p in passes if p["kind"] == row["kind"] and p["inside"] >= 0)
        assert row["passes"] == len(lengths)
        assert row["p99_ns"] == lengths[-(-len(lengths) * 99 // 100) - 1]
        assert row["mean_ns"] == pytest.approx(sum(lengths) / len(lengths))
    busy = [p for p in passes if p["kind"] != "idle"]
    weighed = sum((p["num_prefill_requests"] + p["num_decode_requests"]) * p["inside"] for p in busy)
    assert report["batch"]["mean"] == pytest.approx(weighed / sum(p["inside"] for p in busy))
    assert report["time"]["execution_ns"] == pytest.approx(sum(p["t_done"] - p["t_exec"] for p in busy), rel=1e-3)
    assert sum(row["share"] for row in report["kinds"]) == pytest.approx(1)


def test_the_head_waits_for_what_the_passes_say(session: Session) -> None:
    reasons = look_at(session).report["reasons"]
    passes = [p for p in passes_in(session, whole(session)) if p["inside"] > 0 and p["head_reason"] != "NONE"]
    assert set(reasons) == {p["head_reason"] for p in passes}
    for reason, row in reasons.items():
        assert row["ns"] == sum(p["inside"] for p in passes if p["head_reason"] == reason)


def test_the_whole_is_what_its_halves_are(session: Session) -> None:
    run = whole(session)
    middle = run.low + run.span // 2
    first, second = (
        look_at(session, Window(run.low, run.high, start, end)).report["time"]
        for start, end in ((run.low, middle), (middle, run.high))
    )
    both = look_at(session).report["time"]
    for name, ns in both.items():
        assert ns == pytest.approx((first[name] or 0) + (second[name] or 0))


def event(t_ms: int, rid: int, kind: EventKind, **more: object) -> dict[str, Any]:
    return {"t": t_ms * MS, "worker": 0, "step": 0, "rid": rid, "kind": kind, "reason": Reason.NONE, **more}


def working(count: int = 10, length_ms: int = 10, **columns: object) -> list[dict[str, Any]]:
    """Passes that decode, each as long."""
    shape = {"num_prefill_requests": 0, "num_decode_requests": 1, "waiting": 0, "running": 1, **columns}
    times = [(i * length_ms, i * length_ms, (i + 1) * length_ms, (i + 1) * length_ms) for i in range(count)]
    return [step(i, stamps, StepKind.DECODE, **shape) for i, stamps in enumerate(times)]


def answered(rid: int, arrival_ms: int = 0, returned_ms: int = 100, **columns: object) -> dict[str, Any]:
    stamps = {"first_scheduled_ms": arrival_ms, "last_token_ms": returned_ms, "returned_ms": returned_ms}
    return request(rid, arrival_ms, **{**stamps, "output_tokens": 1, **columns})  # type: ignore[arg-type]


def test_blocks_held_for_nobody_are_found(tmp_path: Path) -> None:
    """One ran on after its deadline, one after its client had what it wanted; one was in time, and one left unasked."""
    rows = {
        "requests": [
            answered(1, deadline=40 * MS, request_id="late"),
            answered(2, returned_ms=50, request_id="served"),
            answered(3, deadline=200 * MS),
            request(4, 0, Status.CANCELLED, first_scheduled_ms=0),
        ],
        "steps": working(kv_total=16, kv_free=4),
        "events": [
            event(100, 1, EventKind.FINISHED, freed_blocks=3),
            event(70, 2, EventKind.CANCELLED, freed_blocks=2),
            event(100, 3, EventKind.FINISHED, freed_blocks=5),
            event(90, 4, EventKind.CANCELLED, freed_blocks=7),
        ],
    }
    kv = view_of(tmp_path, rows).report["kv"]
    assert [(row["request_id"], row["why"], row["blocks"], row["held_ns"]) for row in kv["dead"]] == [
        ("late", "deadline", 3, 60 * MS),
        ("served", "answered", 2, 20 * MS),
    ]
    assert kv["dead_block_s"] == pytest.approx(3 * 0.060 + 2 * 0.020)
    assert kv["dead_max"] == 5
    assert (kv["blocks"], kv["held_max"], kv["free_min"]) == (16, 12, 4)


def test_what_is_cached_has_an_upper_bound(tmp_path: Path) -> None:
    rows = {
        "requests": [answered(1)],
        "steps": working(kv_total=16, kv_free=10),
        "events": [event(35, 1, EventKind.FINISHED, freed_blocks=4), event(75, 1, EventKind.FINISHED, freed_blocks=30)],
    }
    caching = {**CONFIG, "kv": {"enable_prefix_caching": True}}
    with Session(write_run(tmp_path, rows, config=caching)) as opened:
        assert look_at(opened).kv.cached.tolist() == [0, 0, 0, 4, 4, 4, 4, 10, 10, 10]
        half = stretch("50ms..", whole(opened))
        assert look_at(opened, half, bins=5).kv.cached.tolist() == [4, 4, 10, 10, 10]
    assert view_of(tmp_path / "off", rows).kv.cached.tolist() == [0.0] * 10
    assert np.isnan(view_of(tmp_path / "untold", rows, config={"kv": {}}).kv.cached).all()


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 400), st.integers(1, 9)), max_size=12), st.integers(1, 20)
)
def test_the_most_blocks_at_one_instant(lots: list[tuple[int, int, int]], count: int) -> None:
    window = Window.whole(0, 1_000)
    since, lasted, blocks = (np.array([lot[i] for lot in lots], np.int64) for i in range(3))
    found = held_between(since, since + lasted, blocks, window, count)
    held = [sum(n for a, d, n in lots if a <= t < a + d) for t in range(window.high)]
    edges = window.edges(count)
    expected = [max(held[a:b], default=0) for a, b in pairwise(edges)]
    assert found.tolist() == expected


def test_who_evicted_whom_and_the_victims_of_a_filter(tmp_path: Path) -> None:
    lost = {"other_rid": 2, "reason": Reason.KV_BLOCKS, "freed_blocks": 2}
    rows = {
        "requests": [answered(1, request_id="small"), answered(2, request_id="big"), answered(3, request_id="tiny")],
        "steps": working(),
        "events": [
            event(10, 1, EventKind.PREEMPTED, lost_tokens=100, **lost),
            event(20, 1, EventKind.PREEMPTED, lost_tokens=50, **lost),
            event(30, 3, EventKind.PREEMPTED, lost_tokens=7, **lost),
        ],
    }
    found = view_of(tmp_path, rows).report["preemptions"]
    assert (found["n"], found["lost_tokens"], found["freed_blocks"], found["pairs"]) == (3, 157, 6, 2)
    assert [(row["victim_id"], row["culprit_id"], row["times"], row["lost_tokens"]) for row in found["worst"]] == [
        ("small", "big", 2, 150),
        ("tiny", "big", 1, 7),
    ]
    narrowed = view_of(tmp_path / "only", rows, "id:tiny").report["preemptions"]
    assert narrowed["n"] == 3, "what the worker did is never filtered"
    assert [row["victim_id"] for row in narrowed["worst"]] == ["tiny"]


def test_strips_of_a_run_without_passes_claim_no_number(tmp_path: Path) -> None:
    """SPEC F9: another engine's stamps tell of requests; that nobody waited and no block was held is not known."""
    view = view_of(tmp_path, {"requests": [answered(1)]})
    lines = ["".join(text for text, _ in line) for line in strip_lines(view, 80)]
    for name in ("tokens", "batch", "waiting", "KV held"):
        assert next(line for line in lines if line.startswith(f" {name} "))[:18].split()[-1] == "-"


def refused(rid: int, at_ms: int, request_id: str, again_ms: int | None = 20, **columns: object) -> dict[str, Any]:
    told: dict[str, Any] = {"request_id": request_id, "http_status": 429, **columns}
    return {**request(rid, at_ms, Status.REJECTED, returned_ms=at_ms, **told), "retry_after_ms": again_ms}


def test_attempts_of_one_request_are_known_by_its_id_or_by_whom_they_retry(tmp_path: Path) -> None:
    """SPEC B5. `a` came again once and was served, `b` twice in vain, `c` by `retry_of` under other ids, `d` never."""
    rows = {
        "requests": [
            refused(1, 0, "a"),
            answered(2, 30, request_id="a"),
            refused(3, 1, "b"),
            refused(4, 31, "b"),
            refused(5, 61, "b"),
            refused(6, 2, "c1"),
            refused(7, 32, "c2", retry_of=6),
            answered(8, 62, request_id="c3", retry_of=7),
            refused(9, 3, "d", again_ms=None),
            *(answered(rid, 5, request_id=f"ok-{rid}") for rid in range(10, 40)),
        ],
        "steps": working(),
    }
    board = about_of(view_of(tmp_path, rows)).board
    assert board.refused_share == pytest.approx(7 / 39)
    assert board.retries_per_refused == pytest.approx((1 + 2 + 2 + 0) / 4)
    assert board.first_retry_ok == pytest.approx(1 / 3)


def test_without_a_second_attempt_of_anybody_retries_are_not_known(tmp_path: Path) -> None:
    rows = {"requests": [refused(1, 0, "a"), refused(2, 1, ""), refused(3, 2, ""), answered(4)], "steps": working()}
    found = view_of(tmp_path, rows).report["refusals"]
    assert (found["retries_per_refused"], found["first_retry_ok"]) == (None, None)
    assert found["findings"][1]["said"].startswith("not known")


def test_resources_say_what_was_used_waited_for_and_went_wrong(tmp_path: Path) -> None:
    seats: dict[str, Any] = {
        "running": 4,
        "waiting": 2,
        "head_rid": 9,
        "head_reason": Reason.SEQ_SLOTS,
        "device_ns": 5 * MS,
    }
    rows = {
        "requests": [answered(1)],
        "steps": [*working(6, **seats), *working(4)][:6] + working(10)[6:],
        "events": [
            {**event(5, 2, EventKind.REJECTED), "reason": Reason.QUEUE_FULL},
            event(6, 1, EventKind.PREEMPTED, lost_tokens=1),
            {"t": 99 * MS, "worker": 0, "kind": EventKind.WORKER_LOST},
        ],
        "stalls": [{"t_start": 10 * MS, "t_end": 15 * MS, "source": Source.FRONTEND, "kind": StallKind.LOOP}],
        "samples": [
            {"t": t * MS, "source": Source.FRONTEND, "device": 0, "name": "cpu_percent", "value": value}
            for t, value in ((20, 40.0), (60, 80.0))
        ],
    }
    slots, tokens, blocks, device, loop = view_of(tmp_path, rows).report["resources"]
    assert (slots["limit"], slots["peak"], slots["saturation"], slots["errors"]) == (4, 1.0, 0.6, 1)
    assert slots["utilisation"] == pytest.approx((0.6 * 4 + 0.4 * 1) / 4)
    assert (tokens["limit"], tokens["errors"]) == (20, None)
    assert tokens["peak"] == pytest.approx(1 / 20)
    assert (blocks["limit"], blocks["utilisation"], blocks["errors"]) == (8, 0.5, 1)
    assert (device["saturation"], device["errors"]) == (0.6, 1)
    assert device["utilisation"] == pytest.approx(0.3)
    assert [loop["utilisation"], loop["peak"], loop["saturation"]] == pytest.approx([0.6, 0.8, 0.05])
    assert loop["errors"] == 1


def test_a_driver_s_readings_are_the_rhythm_where_there_are_some(tmp_path: Path) -> None:
    reading = {"source": Source.DEVICE, "device": 0}
    rows = {
        "requests": [answered(1, returned_ms=4_000)],
        "steps": working(400),
        "samples": [
            {"t": t * 1_000 * MS, **reading, "name": name, "value": value}
            for t in range(4)
            for name, value in (("utilization_percent", 50.0 + t), ("sm_activity_percent", 90.0))
        ],
    }
    found = about_of(view_of(tmp_path, rows)).rhythm
    assert found.every_ns == 1_000 * MS
    assert [found.mean, found.sm_activity] == pytest.approx([0.515, 0.9])
    del rows["samples"]
    bare = about_of(view_of(tmp_path / "bare", rows)).rhythm
    assert (bare.every_ns, bare.sm_activity) == (50 * MS, None)
    assert bare.mean == pytest.approx(1.0)


def told_in_parts(folder: Path, bins: int) -> dict[str, Any]:
    """Everything but the series of a run with something of each kind, asked for in so many parts."""
    lost = {"other_rid": 2, "reason": Reason.KV_BLOCKS, "freed_blocks": 2, "lost_tokens": 5}
    rows = {
        "requests": [answered(1, deadline=40 * MS), answered(2), refused(3, 5, "x")],
        "steps": [
            {**row, "waiting": i, "running": i % 3, "kv_free": 8 - i % 4, "num_decode_requests": 9 - i}
            for i, row in enumerate(working(9))
        ]
        + [
            {**row, "worker": 1, "waiting": 3, "running": (9 - i) % 4, "kv_free": 2 + i % 5, "num_decode_requests": 2}
            for i, row in enumerate(working(9))
        ],
        "events": [event(30, 2, EventKind.PREEMPTED, **lost), event(88, 1, EventKind.FINISHED, freed_blocks=3)],
    }
    caching = {**CONFIG, "kv": {"enable_prefix_caching": True}}
    with Session(write_run(folder / str(bins), rows, config=caching)) as opened:
        report: dict[str, Any] = {**look_at(opened, bins=bins).report}
    del report["series"]
    return report


def test_the_numbers_do_not_depend_on_how_many_columns_there_are(tmp_path: Path) -> None:
    first = told_in_parts(tmp_path, 3)
    for bins in (30, 174, 900):
        other = told_in_parts(tmp_path, bins)
        for name, told in first.items():
            if name in {"time", "batch"}:
                assert other[name] == pytest.approx(told), name
            elif name != "resources":
                assert other[name] == told, name
        for one, more in zip(first["resources"], other["resources"], strict=True):
            assert more["utilisation"] == (None if one["utilisation"] is None else pytest.approx(one["utilisation"]))
            assert {**more, "utilisation": 0} == {**one, "utilisation": 0}


def test_workers_are_seen_one_by_one_and_together(tmp_path: Path) -> None:
    other = [{**row, "worker": 1, "running": 3, "kv_total": 4, "kv_free": 0} for row in working()]
    run = write_run(tmp_path, {"requests": [answered(1)], "steps": [*working(), *other]}, config=CONFIG)
    with Session(run) as opened:
        both, one = look_at(opened), look_at(opened, worker=1)
    assert both.bins.running.tolist() == [4.0] * 10
    assert one.bins.running.tolist() == [3.0] * 10
    assert (both.kv.total, one.kv.total) == (12, 4)
    assert both.report["resources"][0]["utilisation"] == (3 + 1) / (2 * 4)
    assert both.report["time"]["recorded_ns"] == 2 * (one.report["time"]["recorded_ns"] or 0)


def test_latencies_and_device_time_are_those_of_the_filter(session: Session) -> None:
    long = look_at(session, only=parse_filter("id:long-*"))
    everything = look_at(session)
    assert about_of(long).pulse.n == 3 < about_of(everything).pulse.n
    assert long.report["kinds"] == everything.report["kinds"]


ODD: list[Callable[[Path], Path]] = [empty, one_request, no_duration, all_rejected, mixed_ends, damaged]


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [60, 200])
def test_an_odd_run_is_told_in_lines_that_fit(tmp_path: Path, make: Callable[[Path], Path], width: int) -> None:
    with Session(make(tmp_path)) as opened:
        lines = engine_lines(look_at(opened, bins=parts_for(width)), width)
    assert max(width_of(line) for line in lines) <= width
    assert any("Verdicts" in text for line in lines for text, _ in line)


@pytest.mark.parametrize("make", [served, *ODD], ids=lambda make: make.__name__)
def test_the_command_prints_json_and_words(
    tmp_path: Path, make: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make(tmp_path))
    assert main(["engine", run, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"kinds", "resources", "kv", "preemptions", "refusals", "pulse", "rhythm", "series"} <= set(document)
    assert main(["engine", run]) == 0
    assert "Rejection board" in capsys.readouterr().out


def test_a_stretch_is_typed_as_in_a_filter(session: Session) -> None:
    run = whole(session)
    assert stretch("..", run) == run
    part = stretch("100ms..200ms", run)
    assert (part.start - run.low, part.span) == (100 * MS, 100 * MS)
    assert stretch("100ms..", run).end == run.high
    assert stretch("..9999h", run) == run
    for wrong in ("9999h..", "5s..1s", "3"):
        with pytest.raises(FilterError):
            stretch(wrong, run)


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(served(tmp_path))
    assert main(["engine", run, "--worker", "7"]) == 2
    assert "has no worker 7: its workers are 0" in capsys.readouterr().err
    assert main(["engine", run, "--window", "never"]) == 2
    assert "alive" in capsys.readouterr().err
    assert main(["engine", str(empty(tmp_path)), "--worker", "0"]) == 2
    assert "none made a pass" in capsys.readouterr().err


@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(1, 60)), max_size=12),
    st.integers(1, 9),
    st.integers(1, 30),
    st.integers(0, 2**62),
)
def test_time_spent_between_edges_is_that_of_each_stretch(
    lots: list[tuple[int, int]], parts: int, every: int, later: int
) -> None:
    edges = np.arange(parts + 1) * every
    by_hand = [
        sum(max(min(begun + took, high) - max(begun, low), 0) for begun, took in lots)
        for low, high in pairwise(edges.tolist())
    ]
    begun = np.array([begun for begun, _ in lots], np.int64)
    ended = np.array([begun + took for begun, took in lots], np.int64)
    assert spent_between(begun, ended, edges).tolist() == by_hand
    assert spent_between(begun + later, ended + later, edges + later).tolist() == by_hand, "sums may wrap around"
