"""From a file to a run: find the format by content, read all of it, then write; a run that fails leaves nothing."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recorder.importing import vllm_bench
from recorder.importing.recording import ImportingError, Recording, spans
from recorder.producer import PartProducer
from recorder.run import RunInfo, create_run, finish

TABLES: Final = ("requests", "spans")
"""What an imported run holds: it has no steps."""


@dataclass(frozen=True)
class Format:
    """`recognises` looks at the first JSON object of a file; `read` makes a recording of its lines."""

    name: str
    recognises: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Path, Sequence[str]], Recording]


FORMATS: Final = (Format(vllm_bench.NAME, vllm_bench.recognises, vllm_bench.read),)


def import_file(path: Path, out: Path) -> Recording:
    """Write the recording in `path` as the new run `out`.

    ImportingError for a file that no importer knows or that is faulty; RunError where the run can't be made.
    """
    lines = _lines(path)
    recording = _format(path, lines).read(path, lines)
    _write(recording, out)
    return recording


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except OSError as error:
        raise ImportingError(f"{path} can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ImportingError(f"{path} is not UTF-8 text (byte {error.start}): {_known_formats()}") from error


def _format(path: Path, lines: Sequence[str]) -> Format:
    first = next((line for line in lines if line.strip()), "")
    if not first:
        raise ImportingError(f"{path} is empty: {_known_formats()}")
    try:
        told = json.loads(first)
    except json.JSONDecodeError:
        told = None
    for known in FORMATS:
        if isinstance(told, dict) and known.recognises(told):
            return known
    raise ImportingError(f"{path} is no recording that can be imported: {_known_formats()}")


def _known_formats() -> str:
    keys = ", ".join(vllm_bench.KEYS)
    return f"known are {', '.join(known.name for known in FORMATS)} with {keys}"


def _write(recording: Recording, out: Path) -> None:
    out = out.absolute()
    run = create_run(out.parent, _info(recording, out.name))
    try:
        producer = PartProducer(run, "import", TABLES)
        for request in recording.requests:
            producer.row("requests", **request)
            for span in spans(request):
                producer.row("spans", **span)
        producer.close()
        finish(run)
    except BaseException:
        shutil.rmtree(run, ignore_errors=True)
        raise


def _info(recording: Recording, name: str) -> RunInfo:
    return RunInfo(
        run_id=name,
        created=recording.created,
        clock=recording.clock,
        config=dict(recording.config),
        model=dict(recording.model),
        devices=recording.devices,
        software=dict(recording.software),
        workload={
            "source": dict(recording.source),
            "notes": list(recording.notes),
            "arrivals": len(recording.requests),
        },
        recorded_tables=list(TABLES),
    )
