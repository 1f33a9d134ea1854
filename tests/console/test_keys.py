"""The key table: one source for bindings, footer, help and palette."""

from collections import Counter

import pytest

from console.app import Tailtrace, screen_class
from console.keys import ALONE, KEYS, Key, Scope, footer_keys, keys_of
from console.screens.abreast import AbreastPanel
from console.screens.base import RunScreen
from console.screens.bindings import bindings
from console.screens.export import ExportScreen
from console.screens.marks import MarksScreen
from console.screens.request import RequestPanel
from console.screens.timeline import TimelineScreen
from console.screentable import SCREENS
from console.widgets.answertable import AnswerTable
from console.widgets.askline import AskLine
from console.widgets.browser import Browser
from console.widgets.filterline import FilterInput
from console.widgets.sqleditor import SqlEditor

ACTORS: dict[Scope, type] = {
    **{screen.SCOPE: screen for screen in (screen_class(place) for place in SCREENS)},
    Scope.EVERYWHERE: RunScreen,
    Scope.DETAIL: RequestPanel,
    Scope.ABREAST: AbreastPanel,
    Scope.MARKS: MarksScreen,
    Scope.EXPORT: ExportScreen,
    Scope.EDITOR: SqlEditor,
    Scope.FILTER: FilterInput,
    Scope.ASKED: AskLine,
    Scope.ANSWER: AnswerTable,
    Scope.BROWSER: Browser,
}


@pytest.mark.parametrize("scope", Scope)
def test_no_key_has_two_meanings(scope: Scope) -> None:
    scopes = {scope} if scope in ALONE else {scope, Scope.EVERYWHERE}
    pressed = Counter(name for key in keys_of(*scopes) for name in key.keys.split(","))
    assert [name for name, count in pressed.items() if count > 1] == []


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.scope}-{key.shown}")
def test_every_key_does_something_that_exists(key: Key) -> None:
    actor = Tailtrace if key.action.startswith("app.") else ACTORS[key.scope]
    name = key.action.removeprefix("app.").partition("(")[0]
    assert callable(getattr(actor, f"action_{name}"))


def test_bindings_are_the_table() -> None:
    bound = {(binding.key, binding.action) for binding in bindings(Scope.TIMELINE)}
    assert bound == {(key.keys, key.action) for key in keys_of(Scope.TIMELINE)}
    assert all(binding in TimelineScreen.BINDINGS for binding in bindings(Scope.TIMELINE))
    assert all(binding in RunScreen.BINDINGS for binding in bindings(Scope.EVERYWHERE))


def test_help_and_quit_are_in_every_footer() -> None:
    for scope in Scope:
        assert {"help", "quit"} <= {key.label for key in footer_keys(scope)}


def test_the_words_fit_a_narrow_help() -> None:
    assert [key.title for key in KEYS if len(key.shown) > 9 or len(key.title) > 21 or len(key.help) > 42] == []


def test_the_expected_keys_are_there() -> None:
    shown = {name for key in keys_of(Scope.TIMELINE, Scope.EVERYWHERE) for name in key.shown.split()}
    assert {"space", *"wsad0gnN.,[]+-r?123m'/ye"} <= shown
