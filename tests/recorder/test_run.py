import fcntl
import json
from pathlib import Path

import pytest

from recorder.run import (
    ClockAnchor,
    RunError,
    RunInfo,
    create_run,
    finish,
    hold_lock,
    info_path,
    load_info,
    lock_path,
    new_run_id,
    run_state,
    save_info,
)
from recorder.schema import SCHEMA_VERSION


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, RunInfo(run_id="one", config={"record": {"ring_mb": 4}}, seed=7))


def test_info_comes_back_as_it_was_saved(run: Path) -> None:
    info = load_info(run)
    info.model = {"name": "smollm2-135m", "layers": 30}
    info.devices = [{"index": 0, "name": "cpu"}]
    info.clock = ClockAnchor(kind="virtual", mono_ns=1, wall_ns=2)
    info.parent = "zero"
    save_info(run, info)
    assert load_info(run) == info


def test_anchor_is_one_instant_on_two_clocks(run: Path) -> None:
    clock = load_info(run).clock
    assert clock.kind == "monotonic"
    assert 0 < clock.mono_ns < clock.wall_ns


def test_state_follows_lock_and_closing(run: Path) -> None:
    assert run_state(run) == "killed"
    with hold_lock(lock_path(run), fcntl.LOCK_EX):
        assert run_state(run) == "recording"
    assert run_state(run) == "killed"
    finish(run)
    assert run_state(run) == "sealed"


def test_state_without_lock_file_is_killed(run: Path) -> None:
    lock_path(run).unlink()
    assert run_state(run) == "killed"


def test_ids_sort_by_time_and_can_name_a_run(tmp_path: Path) -> None:
    assert create_run(tmp_path, RunInfo(run_id=new_run_id("serve"))).name.startswith("serve-2")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a b", "x" * 101])
def test_names_that_are_no_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="can't name a run"):
        create_run(tmp_path, RunInfo(run_id=name))


def test_a_run_is_never_overwritten(run: Path) -> None:
    with pytest.raises(RunError, match="exists already"):
        create_run(run.parent, RunInfo(run_id="one"))


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="can't be created"):
        create_run(tmp_path / "file", RunInfo(run_id="one"))


def test_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is no run: it has no run\.json; give a folder written by `tailtrace serve`"):
        load_info(tmp_path)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no run: there is no such folder"):
        load_info(tmp_path / "nothing")


def test_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is no run"):
        load_info(tmp_path / "file")


def test_newer_schema(run: Path) -> None:
    raw = json.loads(info_path(run).read_text())
    raw["schema_version"] = SCHEMA_VERSION + 6
    raw["clock"] = "a shape of the future"
    info_path(run).write_text(json.dumps(raw))
    words = (
        f"was written by schema {SCHEMA_VERSION + 6}, this tailtrace reads up to {SCHEMA_VERSION}: upgrade tailtrace"
    )
    with pytest.raises(RunError, match=words):
        load_info(run)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[]", b'{"schema_version": "one"}', b'{"schema_version": 1}'])
def test_damaged_info(run: Path, raw: bytes) -> None:
    info_path(run).write_bytes(raw)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        load_info(run)


def test_unreadable_info(run: Path) -> None:
    info_path(run).unlink()
    info_path(run).mkdir()
    with pytest.raises(RunError, match="can't be read"):
        load_info(run)


def test_unknown_keys_of_a_later_minor_version_are_passed_over(run: Path) -> None:
    raw = json.loads(info_path(run).read_text())
    raw["colour"] = "blue"
    info_path(run).write_text(json.dumps(raw))
    assert load_info(run).seed == 7
