"""What several tests of the console start from: the golden run and a session on it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual._context import active_app
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.types import CSSLocation

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


@pytest.fixture(autouse=True, scope="session")
def style_sheets_parsed_once() -> Iterator[None]:
    """Each app, and each screen of it, parses all style sheets again: a fifth of what starting one costs."""
    parsed: dict[object, list[RuleSet]] = {}

    def parse_once(scope: str, css: str, read_from: CSSLocation, **more: Any) -> list[RuleSet]:  # noqa: ANN401
        variables = tuple((name, *(token.value for token in value)) for name, value in more["variable_tokens"].items())
        key = (scope, css, read_from, more["is_default_rules"], more["tie_breaker"], variables)
        if key not in parsed:
            parsed[key] = list(parse(scope, css, read_from, **more))
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.css.stylesheet.parse", parse_once)
        yield


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
