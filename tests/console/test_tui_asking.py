"""Questions in threads: the newest wins, an older one is interrupted, a stale answer never arrives."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from console.asking import Asker, Superseded
from console.commands.open import build
from console.database import QueryError
from console.screens.base import Answered, deliver
from console.screens.overview import OverviewScreen
from console.session import Session
from recorder.attribution import attribute
from recorder.tables import RunTables
from tests.console.screens import screen_text, settle
from tests.console.tui_runs import one_request

ENDLESS = "SELECT count(*) FROM range(100000000) AS a, range(100000000) AS b"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session on a small run."""
    with Session(one_request(tmp_path)) as opened:
        yield opened


def number(session: Session, cursor: duckdb.DuckDBPyConnection) -> int:
    found: int = session.query("SELECT count(*)::BIGINT AS n FROM requests", cursor=cursor).to_pylist()[0]["n"]
    return found


def test_the_newest_question_is_answered(session: Session) -> None:
    asker = Asker()
    assert asker.ask(asker.supersede(), session, number) == 1


def test_an_old_question_is_not_even_begun(session: Session) -> None:
    asker = Asker()
    old = asker.supersede()
    new = asker.supersede()
    with pytest.raises(Superseded):
        asker.ask(old, session, number)
    assert asker.ask(new, session, number) == 1


def test_a_running_question_is_interrupted(session: Session) -> None:
    asker, began, outcome = Asker(), threading.Event(), []

    def endless(session: Session, cursor: duckdb.DuckDBPyConnection) -> object:
        began.set()
        return session.query(ENDLESS, cursor=cursor)

    def work(generation: int) -> None:
        try:
            outcome.append(asker.ask(generation, session, endless))
        except Superseded:
            outcome.append("superseded")

    thread = threading.Thread(target=work, args=(asker.supersede(),), daemon=True)
    thread.start()
    assert began.wait(30)
    while thread.is_alive():  # the interrupt may come before DuckDB has begun: ask again
        asker.supersede()
        thread.join(0.05)
    assert outcome == ["superseded"]
    assert asker.ask(asker.supersede(), session, number) == 1, "the line is free again"


def test_an_answer_that_came_too_late_is_stale(session: Session) -> None:
    asker = Asker()

    def overtaken(session: Session, cursor: duckdb.DuckDBPyConnection) -> int:
        asker.supersede()
        return number(session, cursor)

    with pytest.raises(Superseded):
        asker.ask(asker.supersede(), session, overtaken)


def test_errors_come_through_and_free_the_line(session: Session) -> None:
    asker = Asker()
    with pytest.raises(QueryError):
        asker.ask(asker.supersede(), session, lambda session, cursor: session.query("SELECT nothing", cursor=cursor))
    assert asker.ask(asker.supersede(), session, number) == 1


def test_only_a_newer_answer_on_the_same_line_replaces_one_that_waits() -> None:
    line, other = Asker(), Asker()
    first, second = (Answered(line, generation, lambda: None) for generation in (1, 2))
    assert first.can_replace(second)
    assert not second.can_replace(first)
    assert not first.can_replace(Answered(other, 5, lambda: None))


def test_an_answer_that_comes_when_the_application_has_gone_is_dropped() -> None:
    loop, asker = asyncio.new_event_loop(), Asker()
    loop.close()
    deliver(loop, OverviewScreen(), Answered(asker, asker.supersede(), lambda: None))


async def test_an_answer_that_can_not_be_delivered_otherwise_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("planted")

    loop, asker = asyncio.get_running_loop(), Asker()
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="planted"):
        patched.setattr(loop, "call_soon_threadsafe", refuse)
        deliver(loop, OverviewScreen(), Answered(asker, asker.supersede(), lambda: None))


async def test_the_numbers_are_there_before_the_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attributing, go_on = threading.Event(), threading.Event()

    def slow(tables: RunTables) -> pa.Table:
        attributing.set()
        assert go_on.wait(60)
        return attribute(tables)

    monkeypatch.setattr("recorder.attribution.attribute", slow)
    app = build([one_request(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        while not attributing.is_set():
            await pilot.pause(0.01)
        await pilot.pause()
        seen = screen_text(app)
        assert "1 ok" in seen
        assert "TTFT" in seen
        assert "working out the causes" in seen
        go_on.set()
        await settle(pilot)
        assert "sum = E2E of 1 ok request" in screen_text(app)


async def test_a_screen_drops_stale_answers_and_shows_what_went_wrong(tmp_path: Path) -> None:
    app = build([one_request(tmp_path)])
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, OverviewScreen)
        arrived: list[str] = []
        screen.ask("line", lambda _session, _cursor: "old", arrived.append)
        screen.ask("line", lambda _session, _cursor: "new", arrived.append)
        await settle(pilot)
        assert arrived == ["new"]
        screen.ask("line", lambda session, _cursor: session.query("SELECT [nothing]"), arrived.append)
        await settle(pilot)
        assert arrived == ["new"]
        assert "nothing" in screen_text(app)
