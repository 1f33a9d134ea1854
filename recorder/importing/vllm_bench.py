"""vLLM benchmark recordings: one JSON object a line with a request's stamps, and the meta.json beside it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from recorder.importing.recording import ImportingError, Recording, Row
from recorder.run import ClockAnchor
from recorder.words import Status

NAME: Final = "vLLM benchmark requests (JSON lines)"
_COUNTS: Final = ("input_toks", "output_toks")
_STAMPS: Final = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
KEYS: Final = ("request_id", *_COUNTS, "arrival_time", *_STAMPS)
_MOST: Final = 2**62


def recognises(first: Mapping[str, Any]) -> bool:
    """Whether the first object of a file is a line of this format."""
    return {"arrival_time", "queued_ts", "first_token_ts", "last_token_ts"} <= first.keys()


def read(path: Path, lines: Iterable[str]) -> Recording:
    """The recording; ImportingError for a line that lacks a key, holds a wrong value or has its stamps out of order."""
    told = [_request(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not told:
        raise ImportingError(f"{path}: no requests in it")
    _refuse_twins(path, told)
    told.sort(key=lambda one: (one["wall"], one["queued_ts"]))
    offset = min(one["queued_ts"] - one["wall"] for one in told)
    meta_path = _meta_path(path)
    meta = _meta(meta_path) if meta_path else {}
    first = told[0]
    return Recording(
        requests=[_row(rid, one, offset, str(meta.get("model", ""))) for rid, one in enumerate(told, 1)],
        clock=ClockAnchor(mono_ns=first["wall"] + offset, wall_ns=first["wall"]),
        created=datetime.fromtimestamp(first["wall"] / 1e9, UTC).isoformat(timespec="milliseconds"),
        config=_config(meta),
        model=_model(meta),
        devices=_devices(meta),
        software={"vllm": str(meta["vllm_version"])} if "vllm_version" in meta else {},
        source={**_source(path, meta_path, told, offset), "plans_ahead": _plans_ahead(meta)},
        notes=(*_notes(meta_path, told, offset), *_engine_notes(meta)),
    )


# -- lines ---------------------------------------------------------------------------------------------------------


def _request(path: Path, number: int, line: str) -> Row:
    try:
        told = json.loads(line, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise ImportingError.at(path, number, f"no JSON: {error.msg} at character {error.pos}") from error
    if not isinstance(told, dict):
        raise ImportingError.at(path, number, "expected a JSON object with the stamps of one request")
    if missing := [key for key in KEYS if key not in told]:
        raise ImportingError.at(path, number, f"{missing[0]} is missing")
    one: Row = {"line": number, "request_id": str(told["request_id"])}
    one |= {key: _count(path, number, key, told[key]) for key in _COUNTS}
    one |= {key: _ns(path, number, key, told[key]) for key in _STAMPS}
    one["wall"] = _ns(path, number, "arrival_time", told["arrival_time"])
    _refuse_disorder(path, one)
    return one


def _count(path: Path, number: int, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MOST:
        raise ImportingError.at(path, number, f"{key} must be a whole number of at least 1, not {_shown(value)}")
    return value


def _ns(path: Path, number: int, key: str, value: object) -> int:
    """Seconds as they are written, in whole ns: no float in between costs a digit."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < _MOST // 10**9:
        raise ImportingError.at(path, number, f"{key} must be seconds from 0 up, not {_shown(value)}")
    return round(value * 10**9)


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)[:40]


def _refuse_disorder(path: Path, one: Row) -> None:
    for before, after in pairwise(_STAMPS):
        if one[after] < one[before]:
            raise ImportingError.at(path, one["line"], f"{after} is {one[before] - one[after]} ns before {before}")


def _refuse_twins(path: Path, told: Sequence[Row]) -> None:
    seen: dict[str, int] = {}
    for one in told:
        if one["request_id"] in seen:
            before = seen[one["request_id"]]
            raise ImportingError.at(path, one["line"], f"request_id {one['request_id']!r} was in line {before} already")
        seen[one["request_id"]] = one["line"]


def _row(rid: int, one: Row, offset: int, model: str) -> Row:
    return {
        "rid": rid,
        "request_id": one["request_id"],
        "attempt": 1,
        "model": model,
        "worker": 0,
        "arrival": one["wall"] + offset,
        "queued": one["queued_ts"],
        "first_scheduled": one["scheduled_ts"],
        "first_token": one["first_token_ts"],
        "last_token": one["last_token_ts"],
        "returned": one["last_token_ts"],
        "prompt_tokens": one["input_toks"],
        "output_tokens": one["output_toks"],
        "status": Status.OK,
    }


# -- the clocks ------------------------------------------------------------------------------------------------------


def _lags(told: Sequence[Row], offset: int) -> list[int]:
    """How much later than the fastest each request came from its client to the queue, in ns."""
    return [one["queued_ts"] - one["wall"] - offset for one in told]


def _drift(told: Sequence[Row]) -> int:
    """How far the smallest gap between the clocks moved from the first half of the requests to the second, in ns."""
    half = max(len(told) // 2, 1)
    first, second = told[:half], told[half:] or told
    return min(_lags(second, 0)) - min(_lags(first, 0))


def _source(path: Path, meta_path: Path | None, told: Sequence[Row], offset: int) -> Row:
    return {
        "format": NAME,
        "file": path.name,
        "meta": meta_path.name if meta_path else None,
        "clock_offset_ns": offset,
        "clock_drift_ns": _drift(told),
        "ingress_ns_median_over_fastest": sorted(_lags(told, offset))[len(told) // 2],
    }


def _notes(meta_path: Path | None, told: Sequence[Row], offset: int) -> Iterable[str]:
    median = sorted(_lags(told, offset))[len(told) // 2]
    yield (
        f"arrival_time is wall time, all other stamps are monotonic. Their offset is taken as the smallest queued_ts - "
        f"arrival_time of {len(told)} requests, as if the fastest had taken no time to its queue: every ingress is too "
        f"short by what that one took. Beyond it the median request took {median / 1e6:.3f} ms; from the first half of "
        f"the requests to the second the smallest difference moved by {_drift(told) / 1e6:+.3f} ms"
    )
    yield "the answer's way to the client is not recorded: returned is last_token"
    yield "steps, preemptions and cache hits are not recorded: time preempted shows as prefill or decode"
    if not meta_path:
        yield "no meta.json beside it: the engine's configuration is not known"


# -- meta.json -------------------------------------------------------------------------------------------------------


def _meta_path(path: Path) -> Path | None:
    """`NAME.meta.json` beside `NAME.requests.jsonl`, or `meta.json` in its folder."""
    beside = path.with_name(path.name.removesuffix(".jsonl").removesuffix("requests") + "meta.json")
    return next((found for found in (beside, path.with_name("meta.json")) if found.is_file()), None)


def _meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ImportingError(
            f"{path} can't be read: {error}; repair it, or move it away to import without it"
        ) from error
    if not isinstance(meta, dict):
        raise ImportingError(f"{path}: expected a JSON object; repair it, or move it away to import without it")
    return meta


def _section(meta: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A nested object; empty where it, or one around it, is missing."""
    for name in names:
        inner = meta.get(name)
        meta = inner if isinstance(inner, dict) else {}
    return dict(meta)


def _config(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's knobs in the sections of our own configuration: what was resolved goes before what was asked for."""
    if not meta:
        return {}
    asked = _section(meta, "engine_kwargs")
    scheduler = asked | _known(_section(meta, "resolved_config", "scheduler_config"))
    cache = _known(_section(meta, "resolved_config", "cache_config")) | _known(_section(meta, "kv_cache"))
    model = asked | _known(_section(meta, "resolved_config", "model_config"))
    return {
        "scheduler": {"policy": "continuous"}
        | _taken(scheduler, "max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold", of=_whole)
        | _taken(scheduler, "enable_chunked_prefill", of=_flag),
        "kv": {"watermark": 0.0}
        | _taken(cache, "block_size", of=_whole)
        | ({"num_blocks": cache["num_gpu_blocks"]} if _whole(cache.get("num_gpu_blocks")) else {}),
        "engine": _taken(model, "max_model_len", of=_whole),
    }


def _engine_notes(meta: Mapping[str, Any]) -> Iterable[str]:
    """What of the engine has no place in our configuration, and yet shows in the stamps."""
    if _section(meta, "resolved_config", "scheduler_config").get("async_scheduling"):
        yield (
            "the engine planned one step ahead (async_scheduling), and stamps a start when it is planned: a prefill "
            "lasts about one step longer than where plans are made step by step; a re-run plans ahead as well"
        )
    if _section(meta, "kv_cache").get("enable_prefix_caching"):
        yield "its prefix cache was on, but neither hits nor shared prompts are recorded: a re-run computes all of them"


def _plans_ahead(meta: Mapping[str, Any]) -> bool | None:
    """Whether each pass was planned while the one before it ran; None: its version may do so, and it is not told."""
    told = _section(meta, "resolved_config", "scheduler_config").get("async_scheduling")
    return told if _flag(told) else None


def _known(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if value is not None}


def _taken(section: Mapping[str, Any], *names: str, of: Callable[[object], bool]) -> dict[str, Any]:
    return {name: section[name] for name in names if of(section.get(name))}


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _model(meta: Mapping[str, Any]) -> dict[str, Any]:
    blocks = _section(meta, "kv_cache").get("num_gpu_blocks")
    length = _section(meta, "engine_kwargs").get("max_model_len")
    told = {"name": meta.get("model"), "kv_blocks": blocks, "max_model_len": length}
    return _known(told | {"dtype": _section(meta, "engine_kwargs").get("dtype")})


def _devices(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    hardware = _section(meta, "hardware")
    name, memory = hardware.get("device_name"), hardware.get("device_total_memory_bytes")
    return [_known({"device": name, "memory_bytes": memory})] if name else []
