"""The user's own keys: a TOML file that gives actions of the key table other keys."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from platformdirs import user_config_path

from console.keys import KEYS, Key, rivals
from recorder.errors import UserError

ENVIRONMENT: Final = "TAILTRACE_KEYS"
"""Names another file than `keys.toml` in the user's own configuration folder."""

Keymap = Mapping[str, tuple[str, ...]]
"""Id of a key -> what is pressed instead, in Textual's names or as characters."""

_NAMES: Final = {
    ".": "full_stop", ",": "comma", "[": "left_square_bracket", "]": "right_square_bracket", "+": "plus",
    "-": "minus", "/": "slash", "'": "apostrophe", "?": "question_mark", " ": "space", "=": "equals_sign",
}  # fmt: skip
"""Characters that Textual calls by a name, of those that are typed without thinking."""


class KeymapError(UserError):
    """The file of keys can't be used: says which line of it, and what may stand there."""


def keymap_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file of keys is, or would be."""
    named = environment.get(ENVIRONMENT)
    return Path(named) if named else user_config_path("tailtrace") / "keys.toml"


def read_keymap(environment: Mapping[str, str] = os.environ) -> Keymap:
    """The user's keys; none without a file. Raises KeymapError for one that can't be used, or is named and missing."""
    path = keymap_path(environment)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if ENVIRONMENT not in environment:
            return {}
        raise KeymapError(f"{ENVIRONMENT}: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KeymapError(f"{path}: can't read it: {error}") from error
    return parse_keymap(text, str(path))


def parse_keymap(text: str, origin: str) -> Keymap:
    """From TOML: a section a scope, `action = "key"` or a list of keys. Raises KeymapError; `origin` names the text."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KeymapError(f"{origin}: not valid TOML: {error}") from error
    keymap = dict(_entries(data, origin))
    _check_rivals(keymap, origin)
    return keymap


def with_keymap(keymap: Keymap) -> tuple[Key, ...]:
    """The key table as the user has it."""
    return tuple(
        replace(key, keys=",".join(map(_textual, keymap[key.id])), shown=" ".join(keymap[key.id]))
        if key.id in keymap
        else key
        for key in KEYS
    )


def textual_keymap(keymap: Keymap) -> dict[str, str]:
    """As Textual takes it: the id of a binding -> keys."""
    return {name: ",".join(map(_textual, keys)) for name, keys in keymap.items()}


def template(keymap: Keymap) -> Iterator[str]:
    """A file of keys to begin with, line by line: every action, what the user has as it is, the rest as comments."""
    scope = None
    for key in with_keymap(keymap):
        if key.scope != scope:
            scope = key.scope
            yield f"\n[{key.section}]"
        keys = keymap.get(key.id) or tuple(key.keys.split(","))
        value = f'"{keys[0]}"' if len(keys) == 1 else "[" + ", ".join(f'"{name}"' for name in keys) + "]"
        line = f"{key.id.partition('.')[2]} = {value}"
        yield f"{line if key.id in keymap else '# ' + line:<44}  # {key.help or key.title}".rstrip()


def _entries(data: Mapping[str, object], origin: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    sections = list(dict.fromkeys(key.section for key in KEYS))
    known = [key.id for key in KEYS]
    for section, actions in data.items():
        if section not in sections or not isinstance(actions, dict):
            raise KeymapError(f"{origin}: there is no section [{section}]; {_near(section, sections)}")
        for action, keys in actions.items():
            name = f"{section}.{action}"
            if name not in known:
                own = [one.partition(".")[2] for one in known if one.startswith(f"{section}.")]
                raise KeymapError(f"{origin}: [{section}] has no action {action!r}; {_near(action, own)}")
            yield name, _keys(keys, f"{origin}: [{section}] {action}")


def _keys(keys: object, origin: str) -> tuple[str, ...]:
    found = [keys] if isinstance(keys, str) else keys
    if not isinstance(found, list) or not found or not all(isinstance(one, str) and one for one in found):
        raise KeymapError(f'{origin}: give a key, such as "p", "ctrl+n" or "f5", or a list of keys')
    return tuple(found)


def _check_rivals(keymap: Keymap, origin: str) -> None:
    """One key has one meaning wherever it counts."""
    table = with_keymap(keymap)
    for key in table:
        if key.id not in keymap:
            continue
        for other in table:
            both = set(key.keys.split(",")) & set(other.keys.split(","))
            if other.id != key.id and both and rivals(key, other):
                pressed = min(both)
                raise KeymapError(
                    f"{origin}: {key.id} and {other.id} are both on {pressed!r}: give one of them another key"
                )


def _textual(key: str) -> str:
    return _NAMES.get(key, key)


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
