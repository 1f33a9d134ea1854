"""Workload files, told apart by what is in them: ours (JSONL), Mooncake's JSONL, Azure's CSV, and descriptions in TOML.

What traces do not record is what their clients asked for: `max_tokens` is then the longest output of the whole file, so
that it tells nothing about a single request.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

from engine.load.workload import Arrival, WorkloadError, parse_workload
from engine.simulate.lengths import SpecError
from engine.simulate.specs import SPEC, make_workload, parse_spec
from engine.simulate.workload import Ints, Workload

_AZURE: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"
_AZURE_ROW: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?),(-?\d+),(-?\d+)")
_BYTES_A_TOKEN: Final = 4
"""Of a prompt that is given as text: simulation has no tokenizer."""
_FAR: Final = 9_000_000.0
"""Seconds that still fit in virtual time, which counts ps."""


class _Mooncake(msgspec.Struct):
    """A line of https://github.com/kvcache-ai/Mooncake; times in ms, one hash for each 512 tokens of the prompt."""

    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Annotated[int, msgspec.Meta(ge=1)]
    output_length: Annotated[int, msgspec.Meta(ge=0)]
    hash_ids: list[int] = []


def read(source: str, seed: int) -> Workload:
    """The workload in the file `source`, or the one that `source` describes. Raises WorkloadError or SpecError."""
    path = Path(source)
    if SPEC.fullmatch(source) and not path.exists():
        return make_workload(parse_spec(source), seed)
    text = _text(path)
    lines = text.splitlines()
    number, first = next(((number, line) for number, line in enumerate(lines, 1) if line.strip()), (0, ""))
    if not first:
        raise WorkloadError(f"{path}: the workload is empty")
    workload = _reader(path, number, first)(path, lines, seed)
    workload.about.setdefault("file", path.name)
    return workload


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise WorkloadError(f"{path}: can't read the workload: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: the workload is not UTF-8 text (byte {error.start})") from error


def _reader(path: Path, number: int, first: str) -> Callable[[Path, Sequence[str], int], Workload]:
    if first.strip() == _AZURE:
        return _read_azure
    if first.lstrip().startswith("{"):
        try:
            keys = msgspec.json.decode(first)
        except msgspec.DecodeError as error:
            raise WorkloadError(f"{path}:{number}: not a JSON object: {error}") from error
        return _read_mooncake if "timestamp" in keys and "input_length" in keys else _read_ours
    if re.match(r"\s*(#|\[|[A-Za-z_]+\s*=)", first):
        return _read_description
    raise WorkloadError(
        f"{path}:{number}: {first.strip()[:60]!r} begins no workload that is known: JSON lines with arrival_s,"
        f" Mooncake's JSON lines with timestamp and input_length, a CSV with {_AZURE}, or a description in TOML"
    )


def _read_description(path: Path, lines: Sequence[str], seed: int) -> Workload:
    try:
        values = tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise WorkloadError(f"{path}: not valid TOML: {error}") from error
    try:
        return make_workload(values, seed)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error


def _read_ours(path: Path, lines: Sequence[str], seed: int) -> Workload:
    arrivals = parse_workload(list(lines), str(path))
    if arrivals[-1].arrival_s > _FAR:
        raise WorkloadError(f"{path}: arrival_s = {arrivals[-1].arrival_s} is too far; simulation ends at {_FAR:g} s")
    prompts = [_prompt_tokens(arrival) for arrival in arrivals]
    return Workload(
        arrival=np.rint(np.array([arrival.arrival_s for arrival in arrivals]) * 1e9).astype(np.int64),
        prompt_tokens=np.array(prompts, np.int64),
        max_tokens=np.array([arrival.max_tokens for arrival in arrivals], np.int64),
        output_tokens=np.zeros(len(arrivals), np.int64),
        ids=[str(arrival.id) for arrival in arrivals],
        tiers=[arrival.tier for arrival in arrivals],
        tenants=[arrival.tenant for arrival in arrivals],
        priorities=[arrival.priority for arrival in arrivals],
        deadlines_ns=[
            None if arrival.deadline_ms is None else round(arrival.deadline_ms * 1e6) for arrival in arrivals
        ],
        about={"loop": "open loop", "format": "tailtrace", "arrivals": len(arrivals)},
    )


def _prompt_tokens(arrival: Arrival) -> int:
    if arrival.prompt is None:
        return arrival.prompt_tokens or 1
    return max(1, -(-len(arrival.prompt.encode()) // _BYTES_A_TOKEN))


def _read_mooncake(path: Path, lines: Sequence[str], seed: int) -> Workload:
    decoder, rows, numbers = msgspec.json.Decoder(_Mooncake), [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise WorkloadError(f"{path}:{number}: {error}") from error
        numbers.append(number)
    times = np.rint(np.array([row.timestamp for row in rows]) * 1e6).astype(np.int64)
    prefixes = [tuple(row.hash_ids) for row in rows]
    lengths = [(row.input_length, row.output_length) for row in rows]
    return _trace(path, times, numbers, lengths, origin="Mooncake", prefixes=prefixes if any(prefixes) else None)


def _read_azure(path: Path, lines: Sequence[str], seed: int) -> Workload:
    times, lengths, numbers, header = [], [], [], True
    for number, line in enumerate(lines, 1):
        if header or not line.strip():
            header = header and not line.strip()
            continue
        row = _AZURE_ROW.fullmatch(line)
        if row is None:
            raise WorkloadError(f"{path}:{number}: {line[:60]!r} is not {_AZURE}")
        prompt, output = int(row[2]), int(row[3])
        if prompt < 1 or output < 0:
            raise WorkloadError(
                f"{path}:{number}: {prompt} ContextTokens and {output} GeneratedTokens; a request has a prompt of at"
                " least 1 token and no negative length"
            )
        times.append(row[1])
        lengths.append((prompt, output))
        numbers.append(number)
    if not times:
        raise WorkloadError(f"{path}: the workload is empty: there is nothing after its header")
    return _trace(path, _parsed_times(path, times, numbers), numbers, lengths, origin="Azure")


def _parsed_times(path: Path, times: Sequence[str], numbers: Sequence[int]) -> Ints:
    try:
        return np.array(times, "datetime64[ns]").astype(np.int64)
    except ValueError:
        for number, text in zip(numbers, times, strict=True):
            try:
                np.datetime64(text, "ns")
            except ValueError as error:
                raise WorkloadError(f"{path}:{number}: {text!r} is no time: {error}") from error
        raise


def _trace(
    path: Path,
    times: Ints,
    numbers: Sequence[int],
    lengths: Sequence[tuple[int, int]],
    *,
    origin: str,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Workload:
    """A recorded trace: its first request comes at 0."""
    for place in np.flatnonzero(np.diff(times) < 0).tolist():
        before, after = numbers[place], numbers[place + 1]
        raise WorkloadError(f"{path}:{after}: comes earlier than the request of line {before}; sort the lines by time")
    if (times[-1] - times[0]) / 1e9 > _FAR:
        raise WorkloadError(f"{path}:{numbers[-1]}: is too far from the first; simulation ends at {_FAR:g} s")
    prompt, output = (np.array(column, np.int64) for column in zip(*lengths, strict=True))
    return Workload(
        arrival=times - times[0],
        prompt_tokens=prompt,
        max_tokens=np.full(len(prompt), max(int(output.max()), 1)),
        output_tokens=np.maximum(output, 1),
        open_ended=True,
        prefixes=prefixes,
        about={"loop": "open loop", "format": origin, "arrivals": len(prompt)},
    )
