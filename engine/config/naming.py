"""Keys as people type them on a command line: with or without their section, with values that need no quotes."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Final

from engine.config.reading import ConfigError, keys, sections

_INERT: Final = ("record", "server")
_LIVE_ENGINE_KEYS: Final = ("max_model_len",)


def find_key(name: str, option: str, others: Sequence[str] = ()) -> tuple[str, str]:
    """Section and key of what was typed for `option`. ConfigError where there is none, or more than one.

    `others` are words that the option takes beside keys: hints may name them.
    """
    known = {f"{section}.{key}": (section, key) for section, _ in sections() for key in keys(section)}
    found = [full for full in known if name in {full, full.partition(".")[2]}]
    if len(found) > 1:
        raise ConfigError(f"{option} {name}: there are {' and '.join(found)}; write which")
    if not found:
        spellings = [*known, *(key for _, key in known.values()), *others]
        near = difflib.get_close_matches(name, spellings, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "tailtrace config --explain lists the keys"
        raise ConfigError(f"{option} {name}: there is no such key; {hint}")
    return known[found[0]]


def decides_in_virtual_time(section: str, key: str) -> bool:
    """Whether a simulation can show what the key decides."""
    return section not in _INERT and (section != "engine" or key in _LIVE_ENGINE_KEYS)


def typed_value(text: str) -> object:
    """As TOML has it, but words need no quotes."""
    try:
        parsed: Mapping[str, object] = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"]
