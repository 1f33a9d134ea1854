"""The header of a GGUF file: metadata and where each tensor lies. No torch here.

Own code because the `gguf` package's reader makes a numpy view of every string: 2.4 s for a vocabulary of 49 k, paid by
front end and worker alike, against 0.06 s here. Its quantisation code is what `weights.py` uses.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.model.errors import ModelError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor's bytes begin in the file, and their form; `shape` is row-major, as numpy has it."""

    shape: tuple[int, ...]
    ggml_type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """Everything of a GGUF file but the weights."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]


def read_gguf_header(path: Path) -> GGUFHeader:
    """Read a little-endian GGUF of version 2 or 3. Raises `ModelError` for anything else and for a cut file."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is no GGUF file (it does not begin with GGUF)")
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(path, _Cursor(data))
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
            raise ModelError(f"{path} is damaged or cut short ({error}); fetch it again") from error


class _Cursor:
    """A place in the bytes, at first after the magic; each method takes what it returns."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = len(b"GGUF")

    def scalar(self, code: str) -> Any:  # noqa: ANN401 - an int, float or bool, by the code
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        size = self.scalar("Q")
        self.at += size
        if self.at > len(self.data):
            raise IndexError("a string goes past the end")
        return self.data[self.at - size : self.at].decode()

    def value(self, kind: int) -> Any:  # noqa: ANN401 - metadata values are of any type
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(self.scalar("I"), self.scalar("Q"))
        return self.scalar(_SCALARS[kind])

    def array(self, kind: int, count: int) -> list[Any]:
        if kind not in _SCALARS:
            return [self.value(kind) for _ in range(count)]
        form = f"<{count}{_SCALARS[kind]}"
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return list(values)


def _parse(path: Path, cursor: _Cursor) -> GGUFHeader:
    version = cursor.scalar("I")
    if version not in _VERSIONS:
        raise ModelError(f"{path}: GGUF version {version} is not supported; supported are 2 and 3, little-endian")
    tensor_count, metadata_count = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = {}
    for _ in range(metadata_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("I"))
    infos = list(_tensor_infos(cursor, tensor_count))
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    tensors = {name: TensorInfo(shape, kind, start + offset) for name, shape, kind, offset in infos}
    return GGUFHeader(path, metadata, tensors)


def _tensor_infos(cursor: _Cursor, count: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
    for _ in range(count):
        name = cursor.string()
        # The file lists the fastest dimension first.
        shape = tuple(reversed([cursor.scalar("Q") for _ in range(cursor.scalar("I"))]))
        yield name, shape, cursor.scalar("I"), cursor.scalar("Q")
