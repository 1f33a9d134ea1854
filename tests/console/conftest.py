"""What several tests of the console start from: the golden run and a session on it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual._context import active_app

from console.session import Session
from tests.console.runs import fixed_causes, golden_rows, write_run
from tests.console.screens import handled


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the console remembers goes into a folder of the test's own, and its keys are those of the table."""
    monkeypatch.setenv("TAILTRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TAILTRACE_KEYS", os.devnull)
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def nothing_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pilot waits until the messages are handled: Textual takes a process for idle that used no CPU for 20 ms."""

    async def wait(*_seconds: float) -> None:
        await handled(active_app.get())

    for place in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{place}.wait_for_idle", wait)


@pytest.fixture
def golden_run(tmp_path: Path) -> Path:
    """The folder of the golden run."""
    return write_run(tmp_path, golden_rows())


@pytest.fixture
def golden(golden_run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session on the golden run, with causes of fixed numbers."""
    monkeypatch.setattr("recorder.attribution.attribute", lambda tables: fixed_causes())
    with Session(golden_run) as session:
        yield session
