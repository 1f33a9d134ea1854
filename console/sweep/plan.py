"""What a sweep is to do: which one variable, and the levels it takes, checked before anything runs (SPEC D7)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from console.decimals import exact
from engine.config import Config, decides_in_virtual_time, find_key, from_dict, to_dict, typed_value
from recorder.errors import UserError

LOAD: Final = "load"
WORKERS: Final = "workers"
MOST_WORKERS: Final = 1024
_MOST_LEVELS: Final = 200
_BETWEEN_LEVELS: Final = re.compile(r",(?![^\[\]]*\])")
"""Commas inside a list separate no levels."""


class SweepError(UserError):
    """A sweep that can't be made: says what was given and what it takes."""


@dataclass(frozen=True)
class Level:
    """One level: the same requests come `load` times as fast to `workers` workers of this configuration."""

    label: str
    config: Config
    load: Fraction = Fraction(1)
    workers: int = 1


@dataclass(frozen=True)
class Plan:
    """The variable (`load`, `workers` or `section.key`) and its levels; those of the load ascend."""

    variable: str
    levels: tuple[Level, ...]


def make_plan(config: Config, vary: Sequence[str], load: Sequence[str], workers: int = 1) -> Plan:
    """From what was typed for --vary and --load. Raises SweepError, or ConfigError for values that can't be."""
    given = [*(f"--vary {text}" for text in vary), *(f"--load {text}" for text in load)]
    if len(given) != 1:
        what = " and ".join(given) if given else "none is given: write --vary KEY=VALUE,VALUE or --load 0.5,1,2"
        raise SweepError(f"a sweep changes one variable: {what}")
    return _loads(config, load[0], workers) if load else _varied(config, vary[0], workers)


def _loads(config: Config, text: str, workers: int) -> Plan:
    factors = {label: exact(label, f"--load {text}", 0, 10**6) for label in _labels(text, f"--load {text}")}
    for label, factor in factors.items():
        if not factor:
            raise SweepError(f"--load {text}: at a load of {label} no request ever comes; give numbers above 0")
    if len(set(factors.values())) < len(factors):
        raise SweepError(f"--load {text}: two levels are the same load; keep one")
    levels = [Level(label, config, factor, workers) for label, factor in factors.items()]
    return Plan(LOAD, tuple(sorted(levels, key=lambda level: level.load)))


def _varied(config: Config, text: str, workers: int) -> Plan:
    name, equals, values = text.partition("=")
    if not equals:
        raise SweepError(f"--vary {text}: write KEY=VALUE,VALUE, for example max_num_seqs=8,16,32")
    labels = _labels(values, f"--vary {text}")
    if name.strip() == WORKERS:
        return Plan(WORKERS, tuple(Level(label, config, workers=_worker_count(label, text)) for label in labels))
    section, key = _resolved(name.strip())
    levels = (Level(label, _with(config, section, key, label), workers=workers) for label in labels)
    return Plan(f"{section}.{key}", tuple(levels))


def _labels(text: str, given: str) -> list[str]:
    labels = [part.strip() for part in _BETWEEN_LEVELS.split(text)]
    if not all(labels):
        raise SweepError(f"{given}: a level is empty; write the levels apart by commas, as in 1,2,4")
    if len(labels) > _MOST_LEVELS:
        raise SweepError(f"{given[:60]}...: {len(labels)} levels; {_MOST_LEVELS} are the most")
    for label in labels:
        if labels.count(label) > 1:
            raise SweepError(f"{given}: {label} is given twice; keep one")
    return labels


def _worker_count(label: str, text: str) -> int:
    workers = exact(label, f"--vary {text}", 1, MOST_WORKERS)
    if workers.denominator != 1:
        raise SweepError(f"--vary {text}: {label} is not a whole number of workers")
    return workers.numerator


def _resolved(name: str) -> tuple[str, str]:
    section, key = find_key(name, "--vary", [WORKERS])
    if not decides_in_virtual_time(section, key):
        raise SweepError(f"--vary {name}: {section}.{key} decides nothing that virtual time can show")
    return section, key


def _with(config: Config, section: str, key: str, label: str) -> Config:
    changed = to_dict(config)
    changed[section] = {**changed[section], key: typed_value(label)}
    return from_dict(changed, f"--vary {section}.{key}={label}")
