"""Runs elsewhere: through `memory://` for what a copy is, and a real S3 server for what a network adds."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from recorder import copies
from recorder.catalogue import catalogue, describe
from recorder.copies import borrowed, local
from recorder.drain import Drain, RecordSettings
from recorder.errors import UserError
from recorder.left_out import LeftOut, Stretch, save_left_out
from recorder.parts import all_parts
from recorder.producer import PartProducer, RingProducer
from recorder.run import RunError, finish, load_info, save_info
from recorder.storage import NothingThereError, Remote, StorageError, is_url
from recorder.tables import open_tables
from tests.recorder.rows import append_slices, new_run, shown
from tests.recorder.s3_server import filesystem, s3_environment, s3_server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the copies, the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tailtrace" / "runs"


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def upload(system: AbstractFileSystem, run: Path, to: str) -> None:
    """What `aws s3 sync` does: every file, and none that is no longer there."""
    if system.exists(to):
        system.rm(to, recursive=True)
    for path in run.rglob("*"):
        if path.is_file():
            system.pipe_file(f"{to}/{path.relative_to(run)}", path.read_bytes())


def sealed(folder: Path, slices: int = 10) -> Path:
    run = new_run(folder)
    producer = PartProducer(run, "worker0", ["slices"])
    append_slices(producer, range(slices))
    producer.close()
    finish(run)
    return run


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ("s3://bucket/run", True),
        ("memory://run", True),
        ("zip::s3://bucket/runs.zip", True),
        ("runs/one", False),
        ("/runs/one", False),
        ("runs/a://b", False),
        ("a:b", False),
    ],
)
def test_urls_are_told_from_paths(where: str, url: bool) -> None:
    assert is_url(where) == url


def test_a_path_and_a_file_url_are_the_folder_itself(tmp_path: Path, cache: Path) -> None:
    run = sealed(tmp_path / "runs")
    assert local(run) == local(str(run)) == local(f"file://{run}") == run
    assert [entry.where for entry in catalogue(f"file://{run.parent}").runs] == [str(run)]
    assert not cache.exists()


def test_a_copy_is_the_run(tmp_path: Path, memory: MemoryFileSystem) -> None:
    run = sealed(tmp_path / "runs")
    upload(memory, run, "/runs/one")
    copy = local("memory://runs/one/")
    assert copy != run
    assert load_info(copy) == load_info(run)
    assert shown(open_tables(copy)) == list(range(10))


class Counting:
    """Which files are fetched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetched: list[str] = []
        fetch = Remote.fetch

        def counted(remote: Remote, names: list[str], to: list[Path]) -> None:
            self.fetched += names
            fetch(remote, names, to)

        monkeypatch.setattr(Remote, "fetch", counted)

    def take(self) -> list[str]:
        taken, self.fetched = self.fetched, []
        return taken


def test_what_was_left_out_travels_with_the_run(tmp_path: Path, memory: MemoryFileSystem) -> None:
    run = new_run(tmp_path)
    upload(memory, run, "/run")
    assert open_tables(local("memory://run")).left_out == LeftOut()
    left_out = LeftOut((Stretch(0, 0, 7, 0, 70),))
    save_left_out(run, left_out)
    upload(memory, run, "/run")
    assert open_tables(local("memory://run")).left_out == left_out


def test_parts_are_fetched_once_and_rings_each_time(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that grows elsewhere, is merged and sealed there: at each look it is read exactly once."""
    counting = Counting(monkeypatch)
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.05)
    append_slices(producer, range(10))
    upload(memory, run, "/run")
    assert shown(open_tables(local("memory://run"))) == list(range(10))
    assert counting.take() == ["rings/worker0.slices.ring"]

    drain = Drain(run, RecordSettings(seal_interval_s=0))
    drain.tick()
    append_slices(producer, range(10, 15))
    upload(memory, run, "/run")
    copy = local("memory://run")
    assert shown(open_tables(copy)) == list(range(15))
    first = f"slices/{all_parts(run, 'slices')[0].path.name}"
    assert first in counting.take()

    upload(memory, run, "/run")
    assert local("memory://run") == copy
    assert first not in counting.take()

    producer.close()
    assert drain.close()
    upload(memory, run, "/run")
    assert shown(open_tables(local("memory://run"))) == list(range(15))
    assert {path.name for path in (copy / "slices").iterdir()} == {path.name for path in (run / "slices").iterdir()}
    assert list((copy / "rings").iterdir()) == []
    assert load_info(copy).state == "sealed"

    counting.take()
    local("memory://run")
    assert counting.take() == []


def test_another_run_at_the_same_url_is_another_copy(tmp_path: Path, memory: MemoryFileSystem) -> None:
    """The parts of both have the same names and sizes."""
    one, other = sealed(tmp_path), sealed(tmp_path)
    upload(memory, one, "/run")
    first = local("memory://run")
    upload(memory, other, "/run")
    second = local("memory://run")
    assert first != second
    assert (load_info(first).run_id, load_info(second).run_id) == (one.name, other.name)


def test_a_part_that_was_cut_short_here_is_fetched_again(tmp_path: Path, memory: MemoryFileSystem) -> None:
    upload(memory, sealed(tmp_path), "/run")
    (part,) = all_parts(local("memory://run"), "slices")
    part.path.write_bytes(part.path.read_bytes()[:100])
    assert shown(open_tables(local("memory://run"))) == list(range(10))


def test_only_names_of_a_run_are_fetched(tmp_path: Path, memory: MemoryFileSystem) -> None:
    upload(memory, sealed(tmp_path), "/run")
    for name in ("slices/readme.txt", "lock", "in-use", "rings/x.nothing.ring", "other/a-1-2.parquet", "slices/a/b"):
        memory.pipe_file(f"/run/{name}", b"x")
    copy = local("memory://run")
    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert files == {"run.json", "in-use", f"slices/{all_parts(copy, 'slices')[0].path.name}"}


def test_a_part_that_is_merged_while_it_is_fetched_is_found_in_the_next_look(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    for first in (0, 10):
        producer = PartProducer(run, "worker0", ["slices"])
        append_slices(producer, range(first, first + 10))
        producer.close()
    upload(memory, run, "/run")
    fetch, pending = Remote.fetch, [True]

    def merged_first(remote: Remote, names: list[str], to: list[Path]) -> None:
        if pending.pop() if pending else False:
            Drain(run, RecordSettings()).close()
            upload(memory, run, "/run")
        fetch(remote, names, to)

    monkeypatch.setattr(Remote, "fetch", merged_first)
    copy = local("memory://run")
    assert not pending
    assert shown(open_tables(copy)) == list(range(20))
    assert len(all_parts(copy, "slices")) == 1


def test_what_is_sealed_and_overwritten_between_two_looks_is_not_lost(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring is listed, then its records are sealed and their slots used again, then the ring is fetched."""
    run = new_run(tmp_path)
    producer = RingProducer(run, "worker0", ["slices"], 0.05)
    drain = Drain(run, RecordSettings(seal_interval_s=0))
    append_slices(producer, range(500))
    upload(memory, run, "/run")
    fetch, pending = Remote.fetch, [True]

    def overwritten_first(remote: Remote, names: list[str], to: list[Path]) -> None:
        if pending.pop() if pending else False:
            drain.tick()
            append_slices(producer, range(500, 1100))
            upload(memory, run, "/run")
        fetch(remote, names, to)

    monkeypatch.setattr(Remote, "fetch", overwritten_first)
    assert shown(open_tables(local("memory://run"))) == list(range(1100))


def test_a_run_that_never_rests_is_given_up(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(memory, sealed(tmp_path), "/run")

    def vanished(remote: Remote, names: list[str], to: list[Path]) -> None:
        raise NothingThereError("gone")

    monkeypatch.setattr(Remote, "fetch", vanished)
    with pytest.raises(StorageError, match="changes faster"):
        local("memory://run")


def test_an_answer_that_is_cut_short_is_no_part(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    upload(memory, sealed(tmp_path), "/run")

    def cut(remote: Remote, names: list[str], to: list[Path]) -> None:
        for path in to:
            path.write_bytes(b"PAR1")

    monkeypatch.setattr(Remote, "fetch", cut)
    with pytest.raises(StorageError, match="cut short"):
        local("memory://run")
    assert list(cache.rglob("*.parquet")) == []
    assert list(cache.rglob("arriving-*")) == []


def test_the_copies_used_least_recently_go_and_those_in_use_stay(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Room for two copies of a few kB."""
    runs = [sealed(tmp_path) for _ in range(4)]
    for run in runs:
        upload(memory, run, f"/runs/{run.name}")
    remotes = [Remote.open(f"memory://runs/{run.name}") for run in runs]

    def there() -> set[str]:
        return {load_info(folder).run_id for folder in cache.iterdir()}

    for remote in remotes[:2]:
        with borrowed(remote):
            pass
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    monkeypatch.setattr(copies, "CACHE_BYTES", size + 10)
    with borrowed(remotes[0]):
        pass
    with borrowed(remotes[2]):
        assert there() == {runs[0].name, runs[2].name}, "the second was opened before the first was opened again"
    with borrowed(remotes[0]), borrowed(remotes[2]), borrowed(remotes[3]):
        assert there() == {runs[0].name, runs[2].name, runs[3].name}, "all are in use"
    with borrowed(remotes[3]):
        assert there() == {runs[2].name, runs[3].name}


def test_a_listing_copies_two_small_tables(tmp_path: Path, memory: MemoryFileSystem, cache: Path) -> None:
    run, open_run = sealed(tmp_path / "runs"), new_run(tmp_path / "runs")
    upload(memory, run, f"/runs/{run.name}")
    upload(memory, open_run, f"/runs/{open_run.name}")
    memory.pipe_file("/runs/foreign/file", b"x")
    memory.pipe_file("/runs/damaged/run.json", b"{")
    found = catalogue("memory://runs")
    assert {entry.name: entry.state for entry in found.runs} == {run.name: "sealed", open_run.name: "unsealed"}
    assert {skipped.name: skipped.foreign for skipped in found.skipped} == {"foreign": True, "damaged": False}
    entry = next(entry for entry in found.runs if entry.name == run.name)
    assert entry.where == f"memory://runs/{run.name}"
    assert entry.size_bytes == describe(run).size_bytes
    assert list(cache.rglob("slices")) == []
    assert shown(open_tables(local(entry.where))) == list(range(10))


def test_a_run_is_no_folder_of_runs(tmp_path: Path, memory: MemoryFileSystem) -> None:
    upload(memory, sealed(tmp_path), "/run")
    with pytest.raises(UserError, match=r"memory://run is a run itself"):
        catalogue("memory://run")


def test_no_run_and_a_newer_one_are_refused_before_anything_is_copied(
    tmp_path: Path, memory: MemoryFileSystem, cache: Path
) -> None:
    with pytest.raises(RunError, match=r"memory://nowhere is no run: there is nothing at memory://nowhere/run.json"):
        local("memory://nowhere")
    run = sealed(tmp_path)
    info = load_info(run)
    info.schema_version = 99
    save_info(run, info)
    upload(memory, run, "/newer")
    with pytest.raises(RunError, match=r"memory://newer was written by schema 99"):
        local("memory://newer")
    memory.pipe_file("/newer/run.json", b"{")
    with pytest.raises(RunError, match=r"memory://newer/run.json is damaged"):
        local("memory://newer")
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(memory, sealed(tmp_path), "/run")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"can't be copied to .*file/tailtrace/runs: Not a directory"):
        local("memory://run")


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(StorageError, match="Protocol not known: nosuch"):
        local("nosuch://bucket/run")


def test_a_missing_dependency_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['s3fs'] = None; from recorder.copies import local; local('s3://bucket/run')"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "s3://bucket/run can't be read: Install s3fs to access S3 (pip install 'tailtrace[s3]')" in process.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> AbstractFileSystem:
    for name, value in s3_environment(server).items():
        monkeypatch.setenv(name, value)
    system = filesystem(server)
    type(system).clear_instance_cache()
    if not system.exists("bucket"):
        system.mkdir("bucket")
    return system


def test_a_run_in_s3_is_the_run(tmp_path: Path, s3: AbstractFileSystem) -> None:
    run = sealed(tmp_path, 5000)
    upload(s3, run, "bucket/runs/one")
    copy = local("s3://bucket/runs/one")
    assert shown(open_tables(copy)) == list(range(5000))
    assert [(entry.name, entry.size_bytes) for entry in catalogue("s3://bucket/runs/").runs] == [
        ("one", describe(run).size_bytes)
    ]


def test_many_parts_are_fetched_together(tmp_path: Path, s3: AbstractFileSystem) -> None:
    run = new_run(tmp_path)
    for number in range(40):
        producer = PartProducer(run, f"worker{number}", ["slices"])
        append_slices(producer, range(number * 3, number * 3 + 3))
        producer.close()
    upload(s3, run, "bucket/parts")
    assert shown(open_tables(local("s3://bucket/parts"))) == list(range(120))


def test_a_bucket_that_is_not_there_is_named(s3: AbstractFileSystem) -> None:
    with pytest.raises(RunError, match=r"s3://no-such-bucket/run is no run: .*bucket does not exist"):
        local("s3://no-such-bucket/run")
    with pytest.raises(StorageError, match=r"nothing at s3://no-such-bucket"):
        catalogue("s3://no-such-bucket/")
    with pytest.raises(StorageError, match=r"nothing at s3://bucket/no/such/folder"):
        catalogue("s3://bucket/no/such/folder")


def test_credentials_that_are_missing_are_asked_for(s3: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match=r"Unable to locate credentials .*AWS_PROFILE"):
        local("s3://bucket/run")


def test_an_address_that_does_not_answer_is_named(s3: AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(StorageError, match=rf"Could not connect.*127.0.0.1:{port}.*AWS_ENDPOINT_URL"):
        local("s3://bucket/run")
