"""What is kept of a large run: the same answers as without it, never trusted when it is of something else."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from console import kept
from console.filter_language import parse_filter
from console.keeping import make
from console.kept import Keeper, KeepError, cache_folder, fingerprint
from console.lanes import Lanes, load_lanes, read_phases, whole_lanes
from console.phases import SomePhases
from console.report import report
from console.session import Session, rows
from recorder.producer import PartProducer
from recorder.schema import TABLES
from recorder.tables import open_tables
from tests.console.tui_runs import mixed_ends, served

FILTERS = [
    *("", "e2e>60ms", "-status:ok", "arrival>=100ms alive:..1s", "phase:decode>30ms", "cause:DECODE>10%"),
    *("cause:QUEUE", "-cause:DECODE>10% phase:decode<=30ms", "phase:preempted<1ms", "culprit:3"),
]


@pytest.fixture(autouse=True)
def small_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WORTH_KEEPING", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_ends(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def run(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "run"))


@pytest.fixture
def ready(run: Path) -> Iterator[Session]:
    """A session on a run of which all is kept."""
    with Session(run) as session:
        make(run, run / "kept.duckdb", fingerprint(session.tables), lambda _part: None)
        session.refresh()
        assert session.is_in_order
        yield session


def test_every_answer_is_the_same(ready: Session, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WORTH_KEEPING", 10**9)
    with Session(plain) as session:
        assert not session.is_in_order
        for text in FILTERS:
            only = parse_filter(text)
            assert report(ready, only) == report(session, only)
            for sql in ("FROM requests", "FROM latency", "FROM spans", "FROM phase_times", "FROM cause_times"):
                found = [
                    sorted(map(repr, rows(each.query(sql, cursor=each.connect(only))))) for each in (ready, session)
                ]
                assert found[0] == found[1], sql
        for sql in ("FROM causes", "FROM attempt_times", "FROM blames"):
            assert sorted(map(repr, rows(ready.query(sql)))) == sorted(map(repr, rows(session.query(sql)))), sql


@pytest.mark.parametrize("few", [0, 10**9], ids=["sorted", "by what is kept in order"])
def test_percentiles_are_the_same_either_way(
    ready: Session, plain: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("console.ranks._FEW", few)
    monkeypatch.setattr(kept, "WORTH_KEEPING", 10**9)
    with Session(plain) as session:
        for text in FILTERS[1:]:
            only = parse_filter(text)
            assert report(ready, only) == report(session, only), text
            assert ready.count(only) == session.count(only) == session.picked(only).num_rows


def test_lanes_in_sight_are_the_same_by_place(ready: Session) -> None:
    lanes = load_lanes(ready, ready.connect())
    for text in FILTERS[1:]:
        only = parse_filter(text)
        expected = lanes.under(ready.picked(only)).in_sight
        assert (lanes.under_filter(ready, only, ready.connect()).in_sight == expected).all(), text


def test_the_lanes_are_the_same(ready: Session, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WORTH_KEEPING", 10**9)
    with Session(plain) as session:
        expected = load_lanes(session, session.connect())
    monkeypatch.setattr("console.lanes.MANY", 1)
    bare = load_lanes(ready, ready.connect(), whole=False)
    assert (bare.is_whole, bare.lane(0).request_id) == (False, "")
    assert bare.find(expected.lane(0).request_id) is None
    assert bare.find(str(expected.lane(0).rid)) == 0
    found = whole_lanes(bare, ready, ready.connect())
    assert isinstance(found.phases, SomePhases)
    assert found.window == expected.window
    assert [found.lane(index) for index in range(len(found))] == [
        expected.lane(index) for index in range(len(expected))
    ]
    assert found.time_in("decode").tolist() == expected.time_in("decode").tolist()
    assert found.marks.tolist() == expected.marks.tolist()
    _learn(found, ready)
    told = [index for index in range(len(found)) if found.lane(index).status == "ok"]
    assert [found.spans(index) for index in told] == [expected.spans(index) for index in told]


def _learn(lanes: Lanes, session: Session) -> None:
    """What the stamps prove is shown first, then what was recorded."""
    for index in range(len(lanes)):
        assert all(start < end for _, start, end in lanes.spans(index))
    wanted = lanes.phases.wanted()
    assert wanted == list(range(len(lanes)))
    lanes.phases.learn(wanted, read_phases(lanes, wanted, session, session.connect()))
    assert lanes.phases.wanted() == []


def test_it_is_made_at_first_need_and_found_afterwards(run: Path) -> None:
    with Session(run) as session:
        assert session.query("SELECT count(*) AS n FROM causes")["n"][0].as_py() > 0
        assert session.is_in_order
        assert session.progress is None
    made = (run / "kept.duckdb").stat().st_mtime_ns
    with Session(run) as session:
        assert session.is_in_order
        session.query("FROM causes")
    assert (run / "kept.duckdb").stat().st_mtime_ns == made
    assert sorted(path.name for path in run.glob("kept*")) == ["kept.duckdb"]


def test_it_is_not_trusted_when_the_run_has_changed(ready: Session, run: Path) -> None:
    before = ready.query("SELECT count(*) AS n FROM requests")["n"][0].as_py()
    producer = PartProducer(run, "later", ["requests"])
    producer.row("requests", rid=999, attempt=1, arrival=5, status="ok")
    producer.close()
    states = sum(row["n"] for row in ready.ask("states").to_pylist())
    ready.refresh()
    assert not ready.is_in_order
    assert ready.query("SELECT count(*) AS n FROM requests")["n"][0].as_py() == before + 1
    assert sum(row["n"] for row in ready.ask("states").to_pylist()) == states + 1


def test_a_fingerprint_is_of_bytes_and_not_of_places(run: Path, tmp_path: Path) -> None:
    before = fingerprint(open_tables(run))
    copy = Path(shutil.copytree(run, tmp_path / "elsewhere"))
    assert fingerprint(open_tables(copy)) == before
    (part,) = (copy / "slices").glob("*.parquet")
    raw = bytearray(part.read_bytes())
    raw[20] ^= 1
    part.write_bytes(raw)
    assert fingerprint(open_tables(copy)) != before


@pytest.mark.parametrize("raw", [b"", b"no database", None])
def test_a_file_that_is_none_of_ours_is_made_anew(run: Path, raw: bytes | None) -> None:
    place = run / "kept.duckdb"
    if raw is None:
        duckdb.connect(str(place)).close()
    else:
        place.write_bytes(raw)
    with Session(run) as session:
        assert not session.is_in_order
        session.query("FROM causes")
        assert session.is_in_order


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_of_a_run_that_cannot_be_written_to_it_lies_in_the_cache(run: Path) -> None:
    run.chmod(0o500)
    try:
        with Session(run) as session:
            session.query("FROM causes")
            assert session.is_in_order
        assert len(list(cache_folder().glob("*.duckdb"))) == 1
    finally:
        run.chmod(0o700)


def test_the_cache_is_looked_at_too(run: Path) -> None:
    wanted = fingerprint(open_tables(run))
    cache_folder().mkdir(parents=True)
    make(run, cache_folder() / f"{wanted}.duckdb", wanted, lambda _part: None)
    with Session(run) as session:
        assert session.is_in_order


def test_a_failure_is_said_with_words(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "fingerprint", lambda _tables: "another")
    with Session(run) as session, pytest.raises(KeepError, match="has changed meanwhile"):
        session.load_causes()


def test_whoever_stops_waits_for_nobody(run: Path) -> None:
    keeper = Keeper(run)
    keeper.stop()
    with pytest.raises(KeepError):
        keeper.keep(open_tables(run))
    assert not (run / "kept.duckdb").exists()


def test_of_a_run_that_is_recorded_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = served(tmp_path / "one")
    monkeypatch.setattr(kept, "run_state", lambda _run: "recording")
    with Session(run) as session:
        session.query("FROM causes")
        assert not session.is_in_order
    assert not (run / "kept.duckdb").exists()


def test_what_is_told_goes_up(run: Path) -> None:
    told: list[float] = []
    make(run, run / "kept.duckdb", fingerprint(open_tables(run)), told.append)
    assert told == sorted(told)
    assert 0 < told[0] <= told[-1] <= 1
    with duckdb.connect(str(run / "kept.duckdb"), read_only=True) as db:
        columns = [row[0] for row in db.execute("DESCRIBE attempts").fetchall()]
    assert columns[: len(TABLES["requests"].columns)] == TABLES["requests"].arrow.names


def test_lanes_that_come_out_of_order_are_found(ready: Session) -> None:
    lanes = load_lanes(ready, ready.connect())
    counts = lanes.columns.counts
    lanes.columns.counts = {**counts, "rid": np.random.default_rng(3).permutation(counts["rid"])}
    assert [lanes.of_rid(int(rid)) for rid in lanes.columns["rid"]] == list(range(len(lanes)))
    assert lanes.of_rid(10**6) is None
