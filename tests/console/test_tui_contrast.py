"""The screen Contrast: what a row leads to, by keys (SPEC F3)."""

from pathlib import Path

import pytest

from console.app import Tailtrace
from console.commands.open import build
from console.contrast.answer import Contrast
from console.contrast.narrowing import narrowing
from console.filter_language import parse_filter
from console.screens.contrast import ContrastScreen
from tests.console.screens import press, settle
from tests.console.tui_runs import served


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long prompts among chats."""
    return served(tmp_path_factory.mktemp("runs"), "long-among-chats", count=160)


async def test_a_row_leads_to_fewer_requests_or_says_why_it_does_not(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a filter, one row of each kind: what is applied is one more chip, under which fewer are left."""
    said: list[str] = []
    monkeypatch.setattr(ContrastScreen, "notify", lambda _, message, **how: said.append(message))
    only = parse_filter("id:long-*")
    app = build([run], "contrast", only=only)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        found, rows = _found(app), _screen(app)._rows()
        led = [narrowing(row, found.sides, whole=False) for row in rows]
        why = next(one for one in led if isinstance(one, str) and "of all requests that are selected" in one)
        _screen(app)._select(led.index(why))
        await press(pilot, "enter")
        assert app.only == only
        assert said == [why]
        _screen(app)._select(next(place for place, one in enumerate(led) if not isinstance(one, str)))
        await press(pilot, "enter")
        assert app.only.terms[:-1] == only.terms
        assert 0 < _found(app).sides.inside < found.sides.inside == 20
        assert said == [why]


def _screen(app: Tailtrace) -> ContrastScreen:
    assert isinstance(app.screen, ContrastScreen)
    return app.screen


def _found(app: Tailtrace) -> Contrast:
    found = _screen(app)._found
    assert found is not None
    return found
