"""A run that is recorded, followed by what comes: at each look the answers are those of a run read anew (SPEC F8)."""

import fcntl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from console import growing, kept
from console.asking import Asker, Superseded, busy, wait_until_quiet
from console.filter import EVERYTHING, Filter
from console.filter_language import parse_filter
from console.keeping import make_history
from console.kept import Keeper, KeepError, cache_folder
from console.lanes import load_lanes
from console.session import Session, rows
from console.views import KEPT, NARROWED
from recorder.attribution import attribute
from recorder.drain import Drain, RecordSettings
from recorder.left_out import LeftOut, Stretch, save_left_out
from recorder.producer import RingProducer
from recorder.run import ClockAnchor, RunInfo, create_run, hold_lock, lock_path, run_state
from recorder.tables import open_tables
from recorder.words import Status
from tests.console.tui_runs import TABLES, Sim, workload

ONLY = parse_filter("e2e>80ms")


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "WORTH_GROWING", 1)


class Engine:
    """A run that is recorded while the test looks on, and sealed now and then."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        info = RunInfo(run_id=f"live-{seed}", clock=ClockAnchor(kind="virtual"), model={"name": "toy"})
        self.run = create_run(folder, info)
        self.producer = RingProducer(self.run, "worker0", TABLES, 1)
        self.sim = Sim(self.producer, workload(60, seed))
        self._drain = Drain(self.run, RecordSettings(seal_interval_s=0))
        self._told: set[int] = set()

    def passes(self, count: int) -> None:
        """Requests are told of when they arrive, too, as a front end does."""
        for _ in range(count):
            if self.sim.coming or self.sim.waiting or self.sim.running:
                self.sim.one_pass()
            for job in (*self.sim.waiting, *self.sim.running):
                if job.rid not in self._told:
                    self._told.add(job.rid)
                    stamps = {"admitted": job.arrival + 100_000, "arrival": job.arrival}
                    self.producer.row("requests", rid=job.rid, request_id=job.name, attempt=1, tier="free", worker=0,
                                      prompt_tokens=job.prompt, status=Status.OPEN, **stamps)  # fmt: skip

    def seal(self) -> None:
        self._drain.tick()

    def close(self) -> None:
        self.producer.close()
        assert self._drain.close()


@contextmanager
def recorded(folder: Path, seed: int = 7) -> Iterator[Engine]:
    engine = Engine(folder, seed)
    with hold_lock(lock_path(engine.run), fcntl.LOCK_SH):
        yield engine


@pytest.fixture
def long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is so large that what there is of it is worked out in a process; in this one, to be fast."""
    work_in_this_process(monkeypatch)


def work_in_this_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(growing, "WORTH_KEEPING", 1)

    def work(_keeper: Keeper, option: str, run: str, folder: str) -> None:
        assert option == "--history"
        make_history(Path(run), Path(folder), lambda _part: None)

    patch.setattr(Keeper, "_work", work)


def everything(session: Session, view: str, only: Filter = EVERYTHING) -> list[str]:
    return sorted(map(repr, rows(session.query(f"FROM {view}", cursor=session.connect(only)))))


def lanes_of(session: Session) -> list[dict[str, object]]:
    lanes = load_lanes(session, session.connect())
    found: list[dict[str, object]] = lanes.rows(np.arange(len(lanes))).to_pylist()
    return found


def agrees(session: Session, run: Path) -> None:
    """With a session that has just been opened, and follows nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "WORTH_GROWING", 10**9)
        patch.setattr(growing, "WORTH_KEEPING", 10**9)
        with Session(run) as fresh:
            for only, view in product((EVERYTHING, ONLY), NARROWED):
                assert everything(session, view, only) == everything(fresh, view, only), (view, str(only))
            assert lanes_of(session) == lanes_of(fresh)
    expected = sorted(map(repr, attribute(open_tables(run)).to_pylist()))
    assert everything(session, "causes") == expected


@example(bites=[(1, False, False), (1, False, True), (1, False, False)], seed=0, sure=0, history=False)
@example(bites=[(20, True, True), (20, False, True), (20, True, True)], seed=1, sure=10**7, history=True)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bites=st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.booleans()), min_size=2, max_size=6),
       seed=st.integers(0, 10**6), sure=st.sampled_from([0, 10**7, 3 * 10**9]), history=st.booleans())  # fmt: skip
def test_every_look_is_as_if_the_run_had_been_read_anew(
    tmp_path_factory: pytest.TempPathFactory, bites: list[tuple[int, bool, bool]], seed: int, sure: int, history: bool
) -> None:
    """Whatever is in rings or sealed by then, whether causes were asked for at each look or not, and whether what was
    there at the first look was worked out beside it.

    Causes of open attempts may be a little old, on purpose; here they must not.
    """
    with recorded(tmp_path_factory.mktemp("live"), seed) as engine, pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_SURE_NS", sure)
        patch.setattr(growing, "_OLDER", 10**6)
        if history:
            work_in_this_process(patch)
        engine.passes(5)
        with Session(engine.run) as session:
            for passes, seals, asks in bites:
                engine.passes(passes)
                if seals:
                    engine.seal()
                session.refresh()
                if asks:
                    session.load_causes()
            agrees(session, engine.run)
            engine.close()


def test_the_switch_to_a_run_at_rest_is_safe(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    with hold_lock(lock_path(engine.run), fcntl.LOCK_SH):
        engine.passes(40)
        session = Session(engine.run)
        session.load_causes()
        engine.passes(2_000)
        engine.close()
    assert run_state(engine.run) == "sealed"
    session.refresh()
    agrees(session, engine.run)
    assert len(load_lanes(session, session.connect())) == 60
    session.refresh()
    agrees(session, engine.run)
    session.close()


def test_only_what_came_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_SURE_NS", 0)
    with recorded(tmp_path) as engine:
        engine.passes(400)
        engine.seal()
        with Session(engine.run) as session:
            for _ in range(2):  # once more after the end of an attempt has been seen
                session.load_causes()
                session.refresh()
            taken: list[tuple[int, int]] = []
            attributed: list[int] = []
            whole_take, whole_tell = growing._take, growing._tell

            def take(cursor, requests, spans):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
                taken.append((requests.num_rows, spans.num_rows))
                whole_take(cursor, requests, spans)

            def tell(cursor, found, causes, horizon):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
                attributed.append(len(set(causes["rid"].to_pylist())))
                whole_tell(cursor, found, causes, horizon)

            monkeypatch.setattr(growing, "_take", take)
            monkeypatch.setattr(growing, "_tell", tell)
            session.refresh()
            assert taken == []
            before = session.query("FROM requests").num_rows
            engine.passes(20)
            session.refresh()
            session.load_causes()
            assert 0 < sum(count for count, _ in taken) < before / 2
            assert 0 < sum(attributed) < before
            agrees(session, engine.run)
        engine.close()


def spoil(part: Path) -> None:
    raw = bytearray(part.read_bytes())
    raw[40:80] = bytes(40)
    part.write_bytes(raw)


def test_damage_that_comes_about_makes_it_begin_anew(tmp_path: Path) -> None:
    with recorded(tmp_path) as engine:
        engine.passes(60)
        engine.seal()
        with Session(engine.run) as session:
            session.load_causes()
            spoil(next((engine.run / "spans").glob("*.parquet")))
            session.refresh()
            assert session.damages
            agrees(session, engine.run)


def test_a_long_history_is_worked_out_beside_it_and_the_numbers_are_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process of its own, which leaves nothing behind."""
    monkeypatch.setattr(growing, "WORTH_KEEPING", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with recorded(tmp_path) as engine:
        engine.passes(60)
        engine.seal()
        with Session(engine.run) as session:
            before = session.query("FROM requests").num_rows
            assert before
            assert not session.has_causes
            session.load_causes()
            assert list(cache_folder().iterdir()) == []
            agrees(session, engine.run)
            engine.passes(200)
            engine.seal()
            session.refresh()
            assert session.query("FROM requests").num_rows > before
            agrees(session, engine.run)
            engine.close()


def test_who_waits_for_a_history_holds_up_no_look_and_leaves_when_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "WORTH_KEEPING", 1)
    begun, may_end = threading.Event(), threading.Event()

    def work(keeper: Keeper, _option: str, run: str, folder: str) -> None:
        keeper.progress = 0.5
        begun.set()
        assert may_end.wait(60)
        make_history(Path(run), Path(folder), lambda _part: None)
        keeper.progress = None

    monkeypatch.setattr(Keeper, "_work", work)
    first, second, outcomes = Asker(), Asker(), []

    def ask(asker: Asker, generation: int) -> None:
        try:
            outcomes.append(asker.ask(generation, session, lambda it, cursor: it.query("FROM causes", cursor=cursor)))
        except Superseded:
            outcomes.append(None)

    with recorded(tmp_path) as engine:
        engine.passes(60)
        with Session(engine.run) as session:
            first.in_thread(partial(ask, first, first.supersede()), "first")
            assert begun.wait(60)
            second.in_thread(partial(ask, second, second.supersede()), "second")
            while len(session.waiting) < 2:
                pass
            assert busy()
            assert not busy(session.waiting)
            session.refresh()
            second.supersede()
            while len(session.waiting) > 1:
                pass
            may_end.set()
            assert wait_until_quiet(60)
            assert [outcome is None for outcome in outcomes] == [True, False]
            assert session.has_causes
            agrees(session, engine.run)


@pytest.mark.usefixtures("long_history")
def test_a_run_that_is_damaged_begins_anew_when_it_has_rested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it is followed as it was: a disk that fails more and more must not cost more and more."""
    monkeypatch.setattr(growing, "RESTS", 10**6)
    with recorded(tmp_path) as engine:
        engine.passes(60)
        engine.seal()
        with Session(engine.run) as session:
            session.load_causes()
            spoil(next((engine.run / "spans").glob("*.parquet")))
            engine.passes(20)
            session.refresh()
            assert session.damages
            told = session.query("FROM requests").num_rows
            assert session.has_causes is False
            session.load_causes()
            with Session(engine.run) as fresh:
                assert fresh.query("FROM requests").num_rows == told
            monkeypatch.setattr(growing, "RESTS", 0)
            session.refresh()
            agrees(session, engine.run)
            session.refresh()
            agrees(session, engine.run)


def test_a_history_that_could_not_be_worked_out_is_not_tried_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "WORTH_KEEPING", 1)
    tries = []

    def fail(_keeper: Keeper, *args: str) -> None:
        tries.append(args)
        raise KeepError("the disk is full")

    monkeypatch.setattr(Keeper, "_work", fail)
    monkeypatch.setattr(kept, "RESTS", 10**9)
    with recorded(tmp_path) as engine, Session(engine.run) as session:
        engine.passes(20)
        for _ in range(3):
            session.refresh()
            assert session.query("FROM requests").num_rows
            with pytest.raises(KeepError, match="the disk is full"):
                session.load_causes()
        assert len(tries) == 1


@pytest.mark.parametrize("history", [True, False])
def test_what_is_left_out_meanwhile_changes_the_causes_of_those_that_lived_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: bool
) -> None:
    monkeypatch.setattr(growing, "_SURE_NS", 0)
    if history:
        work_in_this_process(monkeypatch)
    with recorded(tmp_path) as engine:
        engine.passes(300)
        engine.seal()
        with Session(engine.run) as session:
            session.load_causes()
            steps = session.query("SELECT worker, step, t_sched, t_end FROM steps ORDER BY step").to_pylist()
            left_out = LeftOut()
            for low, high in ((10, 30), (40, 60), (30, 40), (100, 140)):
                first, last = steps[low], steps[high - 1]
                stretch = Stretch(first["worker"], first["step"], last["step"] + 1, first["t_sched"], last["t_end"])
                left_out = left_out.and_also([stretch])
                save_left_out(engine.run, left_out)
                engine.passes(3)
                session.refresh()
                told = sum(row["told"] is not None for row in rows(session.query(f"FROM {KEPT}.attempts")))
                assert told, "others stay as they were"
                agrees(session, engine.run)
            assert session.query("FROM causes WHERE cause = 'NOT_KEPT'").num_rows
            engine.close()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 5)), max_size=12), st.integers(0, 12))
def test_what_has_been_left_out_since_is_what_was_not_before(stretches: list[tuple[int, int, int]], early: int) -> None:
    def after(some: list[tuple[int, int, int]]) -> LeftOut:
        passes = {(worker, first + place) for worker, first, length in some for place in range(length)}
        return LeftOut().and_also(Stretch(worker, step, step + 1, step, step + 1) for worker, step in sorted(passes))

    def passes(found: Iterable[Stretch]) -> list[tuple[int, int]]:
        return [(each.worker, step) for each in found for step in range(each.first, each.stop)]

    before, now = after(stretches[:early]).stretches, after(stretches).stretches
    found = list(growing._left_out_since(now, before))
    assert all((each.first, each.stop) == (each.t_sched, each.t_end) for each in found)
    assert sorted(passes(found)) == sorted(set(passes(now)) - set(passes(before)))
