"""The flight recorder: what is kept is whole, what is left out is said, and no kill changes either."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory
from zlib import crc32

import msgspec
import pytest

from engine.config import Config, SchedulerConfig, from_dict, to_dict
from engine.simulate.cost import LinearCost
from engine.simulate.front import Arrival
from engine.simulate.stepped import simulate
from recorder import drain as drain_module
from recorder.attribution import attribute
from recorder.check import check
from recorder.drain import Drain, RecordSettings
from recorder.left_out import LEDGER, LeftOutError, left_out_path, load_left_out
from recorder.producer import RingProducer
from recorder.run import RunInfo, create_run, load_info, run_state, size_of
from recorder.schema import TABLES
from recorder.tables import RunTables, open_tables
from recorder.thinning import rule_of
from recorder.windows import Ended, KeepRule, kept_windows
from recorder.words import Status
from tests.recorder.killing import killed_at, lines_of
from tests.recorder.ledgers import Row
from tests.recorder.processes import new_name

MS = 10**6
SLO_MS = 2500.0
TAIL = RecordSettings(seal_interval_s=0, keep="tail", slo_ms=SLO_MS, keep_slowest=0, keep_margin_s=0.01)
KILLS = 40
RULE = KeepRule(slo_ns=round(SLO_MS * MS), margin_ns=10 * MS)
_TOLD_LAST = ("slices", "events", "spans", "deliveries", "stalls", "samples", "steps", "requests")


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: hundreds of recorders sync thousands of times."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def arrivals(bursts: int, quiet: int) -> list[Arrival]:
    """Quiet stretches in which nobody is slow, and bursts of long prompts in which some are."""
    random, t, found = Random(3), 0, []
    for _ in range(bursts):
        for _ in range(quiet):
            t += random.randint(300, 500) * MS
            found.append(Arrival(arrival=t, prompt_tokens=20, max_tokens=8))
        for _ in range(6):
            t += random.randint(1, 40) * MS
            found.append(Arrival(arrival=t, prompt_tokens=random.choice([40, 400]), max_tokens=20))
        t += 6000 * MS
    return found


def whole_run(folder: Path, bursts: int = 3, quiet: int = 12) -> RunTables:
    config = Config(scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=128))
    simulate(config, arrivals(bursts, quiet), LinearCost(), num_blocks=60, max_model_len=512, run=folder / "whole")
    return open_tables(folder / "whole")


@dataclass(frozen=True)
class Recording:
    """A run as its engine packed it: producer and row, in the order of time."""

    rows: list[tuple[str, str, Row]]
    info: RunInfo

    @classmethod
    def of(cls, whole: RunTables) -> "Recording":
        found = [(_when(name, row, whole), name, row) for name in _TOLD_LAST for row in whole.table(name).to_pylist()]
        found += [(row["arrival"], "requests", _open(row)) for row in whole.table("requests").to_pylist()]
        ordered = sorted(found, key=lambda each: (each[0], _TOLD_LAST.index(each[1])))
        return cls([(_producer(name), name, row) for _, name, row in ordered], whole.info)

    def pack(self, run: Path, settings: RecordSettings, ticks: int) -> Drain:
        """Pack it through rings, with `ticks` looks of a recorder on the way."""
        tables = {"worker0": ["steps", "slices", "events", "spans"], "frontend": ["requests", "deliveries"]}
        producers = {name: RingProducer(run, name, tables[name], 1) for name in tables}
        drain = Drain(run, settings)
        every = len(self.rows) // (ticks + 1) + 1
        for number, (producer, table, row) in enumerate(self.rows):
            assert producers[producer].row(table, **_words(table, row))
            if number % every == every - 1:
                drain.tick()
        for each in producers.values():
            each.close()
        return drain


def _open(row: Row) -> Row:
    return {name: row[name] for name in ("rid", "attempt", "worker", "arrival")} | {"status": Status.OPEN.value}


def _when(table: str, row: Row, whole: RunTables) -> int:
    if table == "slices":
        return int(whole.table("steps")["t_end"][row["step"]].as_py())
    last = {"steps": "t_end", "spans": "end", "events": "t", "deliveries": "t_written", "requests": "returned"}
    return int(row[last[table]])


def _producer(table: str) -> str:
    return "frontend" if table in {"requests", "deliveries"} else "worker0"


def _words(table: str, row: Row) -> Row:
    kinds = {column.name: column.kind for column in TABLES[table].columns}
    return {name: _word(kinds[name], value) for name, value in row.items()}


def _word(kind: object, value: object) -> object:
    return kind(value) if isinstance(kind, type) and isinstance(value, str) else value


def new_run(folder: Path) -> Path:
    return create_run(folder, RunInfo(run_id=new_name(), config={"record": {"keep": "tail"}}))


def causes(tables: RunTables) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in attribute(tables).to_pylist():
        found.setdefault(row["rid"], []).append(row)
    return found


def slow_ones(tables: RunTables) -> set[int]:
    requests = tables.table("requests").to_pylist()
    return {row["rid"] for row in requests if row["returned"] - row["arrival"] > SLO_MS * MS}


def failing(tables: RunTables) -> list[str]:
    return [f"{found.name}: {found.detail} {found.rows[:2]}" for found in check(tables) if not found.ok]


def rows_of(tables: RunTables, *names: str) -> dict[str, list[Row]]:
    """All rows in an order of their own: rows of one instant may be told in any."""
    return {name: sorted(tables.table(name).to_pylist(), key=repr) for name in names}


def digest_of(tables: RunTables) -> dict[str, str]:
    """Of each table a word that only the same rows have: shorter to compare, and to look at when it fails."""
    found = rows_of(tables, *_TOLD_LAST)
    return {name: f"{len(rows)} rows, {crc32(repr(rows).encode()):08x}" for name, rows in found.items()}


@pytest.fixture
def whole(tmp_path: Path) -> RunTables:
    return whole_run(tmp_path)


@pytest.mark.parametrize("ticks", [0, 5, 100])
def test_slow_requests_have_the_causes_of_the_whole_run(whole: RunTables, tmp_path: Path, ticks: int) -> None:
    run = new_run(tmp_path)
    assert Recording.of(whole).pack(run, TAIL, ticks).close()
    thinned = open_tables(run)
    assert failing(whole) == failing(thinned) == []
    assert run_state(run) == "sealed"
    before, after, slow = causes(whole), causes(thinned), slow_ones(whole)
    kept = {rid for rid in after if "NOT_KEPT" not in {row["cause"] for row in after[rid]}}
    assert slow
    assert slow <= kept
    assert {rid: after[rid] for rid in kept} == {rid: before[rid] for rid in kept}
    for rid in after.keys() - kept:
        assert {row["cause"] for row in after[rid]} <= {"INGRESS", "RETURN", "NOT_KEPT"}
        assert sum(row["ns"] for row in after[rid]) == sum(row["ns"] for row in before[rid])
    assert len(kept) < len(after)


def test_what_is_kept_is_what_the_windows_hold(whole: RunTables, tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert Recording.of(whole).pack(run, TAIL, 3).close()
    thinned = open_tables(run)
    ended = sorted(whole.table("requests").to_pylist(), key=lambda row: row["returned"])
    windows = kept_windows([Ended(Status(row["status"]), row["arrival"], row["returned"]) for row in ended], RULE)
    steps = {
        row["step"]
        for row in whole.table("steps").to_pylist()
        if any(row["t_end"] >= begin and row["t_sched"] <= end for begin, end in windows)
    }
    assert 0 < len(steps) < whole.table("steps").num_rows / 2
    for name in LEDGER:
        expected = [row for row in rows_of(whole, name)[name] if row["step"] in steps]
        assert rows_of(thinned, name)[name] == expected
    assert thinned.left_out.passes == whole.table("steps").num_rows - len(steps)
    assert rows_of(thinned, "requests", "spans") == rows_of(whole, "requests", "spans")


def test_a_thinned_run_is_smaller_and_its_checks_say_what_is_missing(tmp_path: Path) -> None:
    recording, sizes = Recording.of(whole_run(tmp_path, bursts=1, quiet=1500)), []
    for settings in (RecordSettings(seal_interval_s=0), TAIL):
        run = new_run(tmp_path)
        assert recording.pack(run, settings, 3).close()
        sizes.append(sum(size_of(run / name) for name in LEDGER))
    assert sizes[1] < sizes[0] / 2
    told = {found.name: found.detail for found in check(open_tables(run))}
    assert f"{open_tables(run).left_out.passes:,} between them left out on purpose" in told["passes tile"]
    assert "NOT_KEPT" in told["causes sum"]
    assert "whose passes were not all kept" in told["tokens add up"]


def test_parts_are_thinned_while_the_run_goes_on(
    whole: RunTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "_GRACE_NS", 0)
    run = new_run(tmp_path)
    drain = Recording.of(whole).pack(run, TAIL, 100)
    tables = open_tables(run)
    assert load_info(run).state == "recording"
    assert tables.columns("slices", "step").num_rows < whole.table("slices").num_rows
    assert failing(tables) == []
    assert drain.close()


def test_kept_requests_that_never_ended_are_whole(whole: RunTables, tmp_path: Path) -> None:
    """The engine was killed: who was open then is what one wants to see."""
    recording = Recording.of(whole)
    last = max(slow_ones(whole))
    cut = next(at for at, (_, name, row) in enumerate(recording.rows) if name == "requests" and row["rid"] == last)
    run = new_run(tmp_path)
    assert Recording(recording.rows[: cut + 80], whole.info).pack(run, TAIL, 3).close()
    tables = open_tables(run)
    still_open = {row["rid"] for row in tables.table("requests").to_pylist() if row["status"] == Status.OPEN}
    assert still_open
    assert all(row["cause"] != "NOT_KEPT" for rid, rows in causes(tables).items() if rid in still_open for row in rows)
    assert tables.left_out


# Killed while it thins.


def thin_and_close(run: Path) -> None:
    """A recorder that finds many small parts and the last rows in rings: it judges, merges, closes."""
    drain = Drain(run, TAIL)
    drain.tick()
    assert drain.close()


def test_killed_at_any_line_it_keeps_what_it_should(whole: RunTables, tmp_path: Path) -> None:
    """Whatever line it was: readers see the slow requests whole at once, and the next recorder ends the same."""
    packed, done = new_run(tmp_path), tmp_path / "done"
    many_parts(Recording.of(whole), packed)
    copytree(packed, done)
    thin_and_close(done)
    expected, slow = open_tables(done), slow_ones(whole)
    digest = digest_of(expected)
    wanted = {rid: rows for rid, rows in causes(whole).items() if rid in slow}
    lines = lines_of(tmp_path, thin_and_close, copytree(packed, tmp_path / "counted"))
    kills = 0
    for line in range(0, lines, lines // KILLS):
        run = copytree(packed, tmp_path / f"killed-{line}")
        kills += killed_at(line, thin_and_close, run)
        seen = open_tables(run)
        assert failing(seen) == []
        found = causes(seen)
        assert {rid: found[rid] for rid in slow} == wanted
        if load_info(run).state == "recording":
            assert Drain(run, TAIL).close()
        assert not list(run.rglob("*.tmp"))
        closed = open_tables(run)
        assert closed.left_out == expected.left_out
        assert digest_of(closed) == digest
        rmtree(run)
    assert kills >= KILLS


def many_parts(recording: Recording, run: Path) -> None:
    """Forty parts of each table, none of them thinned yet, and the last rows in the rings."""
    drain = recording.pack(run, RecordSettings(seal_interval_s=0), 25)
    drain.own.close()


def test_a_recorder_that_takes_over_comes_to_the_same(whole: RunTables, tmp_path: Path) -> None:
    packed = new_run(tmp_path)
    many_parts(Recording.of(whole), packed)
    first, second = copytree(packed, tmp_path / "first"), copytree(packed, tmp_path / "second")
    thin_and_close(first)
    drain = Drain(second, TAIL)
    drain.tick()
    drain.own.close()
    thin_and_close(second)
    assert open_tables(first).left_out == open_tables(second).left_out


def test_the_configuration_of_an_engine_is_what_the_recorder_reads() -> None:
    config = from_dict({"record": {"keep": "tail", "slo_ms": 500, "keep_slowest": 0.05, "keep_margin_s": 2}}, "test")
    settings = msgspec.convert(to_dict(config)["record"], RecordSettings)
    assert settings.keep == "tail"
    assert rule_of(settings) == KeepRule(slo_ns=500 * MS, slowest=0.05, among=1000, margin_ns=2000 * MS)
    assert msgspec.convert(to_dict(Config())["record"], RecordSettings) == RecordSettings()


# Damage.


def test_every_cut_and_flip_of_what_was_left_out_is_detected_or_harmless(whole: RunTables, tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert Recording.of(whole).pack(run, TAIL, 0).close()
    path, sound = left_out_path(run), load_left_out(run)
    raw = path.read_bytes()
    flips = [raw[: at // 8] + bytes([raw[at // 8] ^ 1 << at % 8]) + raw[at // 8 + 1 :] for at in range(8 * len(raw))]
    for damaged in [*flips, *(raw[:end] for end in range(len(raw)))]:
        path.write_bytes(damaged)
        try:
            assert load_left_out(run) == sound
        except LeftOutError as error:
            assert "on purpose" in str(error)
    assert [damage.file for damage in open_tables(run).damages] == ["left_out.json"]


def test_a_damaged_verdict_ends_the_thinning(
    whole: RunTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = new_run(tmp_path)
    many_parts(Recording.of(whole), run)
    left_out_path(run).write_bytes(b"{}")
    thin_and_close(run)
    assert "kept whole" in capsys.readouterr().err
    assert rows_of(open_tables(run), *LEDGER) == rows_of(whole, *LEDGER)
