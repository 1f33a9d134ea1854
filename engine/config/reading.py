"""A configuration as a file, as plain data and as TOML: read, checked against the declarations, and printed.

`tailtrace config --explain` prints the declarations; the run stores the result whole (`to_dict`).
"""

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec

from engine.config.declared import Config, Section
from recorder.errors import UserError


class ConfigError(UserError):
    """A configuration that can't be used: says the file, the section, the key, and what is allowed there."""


@dataclass(frozen=True)
class Key:
    """One key as declared: what the reference prints and what an error explains."""

    section: str
    name: str
    default: object
    kind: Any
    """The annotated type that a value is checked against."""
    unit: str
    doc: str
    allowed: str

    @property
    def allowed_in_unit(self) -> str:
        """The allowed values with their unit."""
        return f"{self.allowed} ({self.unit})" if self.unit else self.allowed


def sections() -> Iterator[tuple[str, type[Section]]]:
    """Name and declaration of every section, in order."""
    for field in msgspec.structs.fields(Config):
        yield field.name, cast("type[Section]", field.type)


def keys(section: str) -> dict[str, Key]:
    """The keys of a section by name, in declared order."""
    fields = msgspec.structs.fields(dict(sections())[section])
    return {field.name: _declared(section, field) for field in fields}


def load_config(path: Path | None) -> Config:
    """Read a TOML file over the defaults; without a path, the defaults.

    Raises ConfigError for a file that can't be read, is no TOML, or holds unknown, mistyped or contradictory values.
    """
    if path is None:
        return Config()
    return from_dict(_read(path), str(path))


def from_dict(data: Mapping[str, object], origin: str) -> Config:
    """Validate plain data (as parsed from TOML, or stored in a run); `origin` is named in errors."""
    for section, values in data.items():
        if section not in dict(sections()):
            raise ConfigError(f"{origin}: {_unknown('section', f'[{section}]', section, dict(sections()))}")
        _check_section(section, values, origin)
    config = msgspec.convert(data, Config)
    _check_contradictions(config, origin)
    return config


def to_dict(config: Config) -> dict[str, dict[str, Any]]:
    """The whole configuration, defaults included, as plain data for `run.json`."""
    return cast("dict[str, dict[str, Any]]", msgspec.json.decode(msgspec.json.encode(config)))


def to_toml(config: Config) -> str:
    """The whole configuration, defaults included, as TOML that `load_config` takes back."""
    parts = []
    for section, values in to_dict(config).items():
        lines = [f"{name} = {toml_value(value)}" for name, value in values.items()]
        parts.append("\n".join([f"[{section}]", *lines, ""]))
    return "\n".join(parts)


def toml_value(value: object) -> str:
    """A string, number, boolean or list as TOML writes it; JSON writes all but nan, inf and DEL the same way."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: can't read the configuration: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the configuration is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def _check_section(section: str, values: object, origin: str) -> None:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{origin}: {section} must be a section: write [{section}] on a line of its own")
    known = keys(section)
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{origin}: [{section}] {_unknown('key', name, name, known)}")
        try:
            msgspec.convert(value, known[name].kind)
        except msgspec.ValidationError as error:
            shown = toml_value(value) if isinstance(value, str | int | float | bool) else f"a {type(value).__name__}"
            raise ConfigError(
                f"{origin}: [{section}] {name} = {shown} is not allowed; it must be {known[name].allowed_in_unit}"
            ) from error


def _unknown(what: str, shown: str, name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known {what}s: {', '.join(known)}"
    return f"unknown {what} {shown}; {hint}"


def _check_contradictions(config: Config, origin: str) -> None:
    scheduler, kv = config.scheduler, config.kv
    if scheduler.default_priority_level > scheduler.priority_levels:
        raise ConfigError(
            f"{origin}: [scheduler] default_priority_level = {scheduler.default_priority_level} is beyond the lowest of"
            f" priority_levels = {scheduler.priority_levels}; lower the one or raise the other"
        )
    if len(scheduler.tiers) > scheduler.priority_levels:
        raise ConfigError(
            f"{origin}: [scheduler] tiers names {len(scheduler.tiers)} classes for priority_levels ="
            f" {scheduler.priority_levels}; each takes a level of its own"
        )
    if scheduler.max_batch_size > scheduler.max_num_seqs:
        raise ConfigError(
            f"{origin}: [scheduler] max_batch_size = {scheduler.max_batch_size} can never fill, since max_num_seqs ="
            f" {scheduler.max_num_seqs} run at most; lower the one or raise the other"
        )
    if scheduler.max_num_batched_tokens < scheduler.max_num_seqs:
        raise ConfigError(
            f"{origin}: [scheduler] max_num_batched_tokens = {scheduler.max_num_batched_tokens} is less than"
            f" max_num_seqs = {scheduler.max_num_seqs}: a step has no room for one token of each; raise the one or"
            " lower the other"
        )
    if scheduler.tpot_slo_ms and not scheduler.enable_chunked_prefill:
        raise ConfigError(
            f"{origin}: [scheduler] tpot_slo_ms = {scheduler.tpot_slo_ms} cuts prompts to what decodes can bear, and"
            " enable_chunked_prefill = false forbids to cut them; drop one of them"
        )
    if kv.num_blocks and kv.memory_mb:
        raise ConfigError(
            f"{origin}: [kv] num_blocks = {kv.num_blocks} and memory_mb = {kv.memory_mb} both set the size of the"
            " pool; keep one"
        )
    router = config.router
    if 0 < router.heartbeat_timeout_ms < 2 * router.heartbeat_ms:
        raise ConfigError(
            f"{origin}: [router] heartbeat_timeout_ms = {router.heartbeat_timeout_ms} leaves a worker that tells of"
            f" itself every heartbeat_ms = {router.heartbeat_ms} no second chance; make it at least twice as long"
        )
    if config.faults.worker_silent and not router.heartbeat_timeout_ms:
        raise ConfigError(
            f"{origin}: [faults] worker_silent would never be noticed with [router] heartbeat_timeout_ms = 0; drop one"
        )
    if config.record.keep == "tail" and not (config.record.slo_ms or config.record.keep_slowest):
        raise ConfigError(
            f'{origin}: [record] keep = "tail" with slo_ms = 0 and keep_slowest = 0 would keep only what failed; set'
            " either"
        )


def _declared(section: str, field: msgspec.structs.FieldInfo) -> Key:
    base, meta = get_args(field.type)
    unit = str((meta.extra or {}).get("unit", ""))
    return Key(section, field.name, field.default, field.type, unit, str(meta.description), _allowed(base, meta))


def _allowed(base: object, meta: msgspec.Meta) -> str:
    if get_origin(base) is Literal:
        return " or ".join(toml_value(word) for word in get_args(base))
    if base is bool:
        return "true or false"
    if get_origin(base) is tuple:
        (item, *_) = get_args(base)
        each, limits = get_args(item) if get_origin(item) is Annotated else (item, meta)
        return f"a list, each {_allowed(each, limits)}"
    if base is str:
        return str((meta.extra or {}).get("form", "a text"))
    noun = "a whole number" if base is int else "a number"
    return f"{noun} from {meta.ge} to {meta.le}"
