"""What is on a screen as a file: a table, a document or a picture, under a name that nobody has yet."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from console.jsonout import finite, leaves
from console.text.answer import write_answer
from recorder.errors import UserError

FORMATS: Final = ("csv", "json", "parquet", "svg")
_ODD: Final = re.compile(r"[^A-Za-z0-9.+-]+")
_TRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Shown:
    """What a screen shows: `name` for the file, rows for a table, and the numbers of the headless twin's JSON."""

    name: str
    table: Callable[[], pa.Table]
    document: Callable[[], object]


def save(shown: Shown, form: str, picture: str, folder: Path) -> Path:
    """Write it into `folder`, beside all that is there, and say where. Raises `UserError` where that can't be.

    `picture` is the screen as SVG.
    """
    if form in {"csv", "parquet"}:
        table = shown.table()
        file = new_file(folder, f"tailtrace-{shown.name}", form)
        write_answer(table, form, file)
        return file
    text = picture if form == "svg" else _json(shown.document())
    file = new_file(folder, f"tailtrace-{shown.name}", form)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {file}: {error.strerror}") from error
    return file


def new_file(folder: Path, stem: str, suffix: str) -> Path:
    """An empty file that was not there before, so that no other is ever overwritten."""
    stem = _ODD.sub("-", stem)[:120]
    for name in _names(stem, suffix):
        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"can't write into {folder}: {error.strerror}") from error
        return (folder / name).absolute()
    raise UserError(f"can't write into {folder}: it holds {_TRIES:,} files {stem}-*.{suffix} already")


def flattened(document: object) -> pa.Table:
    """A document as rows `key, value`; keys are dotted, as in `requests.total`."""
    keys, values = [], []
    for key, value in leaves(document):
        if value is not None:
            keys.append(key)
            values.append(str(value))
    return pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})


def _json(document: object) -> str:
    return json.dumps(finite(document), indent=2, allow_nan=False, default=str) + "\n"


def _names(stem: str, suffix: str) -> Iterator[str]:
    yield f"{stem}.{suffix}"
    yield from (f"{stem}-{number}.{suffix}" for number in range(2, _TRIES + 1))
