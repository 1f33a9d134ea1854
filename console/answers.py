"""Answers that are found again: what was asked before, with the same parameters and filter, of the same look at a run.

Only small ones, the newest of them, and only of questions that are about nothing but the run: not about a table that
somebody made on a cursor. What is told of workers and of the recorder is the same under every filter, and found under
each. What the screens ask first of a large run is answered beforehand and kept with the rest of it (`console.kept`).
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Final

import pyarrow as pa

from console.filter import EVERYTHING, Filter
from console.views import NARROWED, VIEWS

_LARGEST: Final = 2_000_000
_MOST: Final = 24_000_000
"""Bytes of one answer, and of all."""

_COMMENT: Final = re.compile(r"--[^\n]*")
_NAMED: Final = re.compile(r"\b(\w+)(?:\s*\([^()]*\))?\s+AS\s+(?:NOT\s+)?(?:MATERIALIZED\s+)?\(", re.IGNORECASE)
_READ: Final = re.compile(r"\b(?:FROM|JOIN)\s+((?:memory\.main\.)?\w+)\b(?!\s*\()", re.IGNORECASE)
_WHOLE: Final = "memory.main."
"""How a question names a view of the whole run, whatever the filter."""

Asked = tuple[str, tuple[tuple[str, object], ...], Filter]
"""The text of a question, its parameters, and the filter it was asked under."""


class Answers:
    """The answers of one look at a run. Safe to share between threads."""

    def __init__(self, beforehand: Callable[[], Mapping[str, bytes]] = dict) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Asked, pa.Table] = OrderedDict()
        self._bytes = 0
        self._read = beforehand
        self._beforehand: Mapping[str, bytes] | None = None

    def find(self, asked: Asked | None) -> pa.Table | None:
        """The answer, if it is there."""
        if asked is None:
            return None
        with self._lock:
            if asked in self._found:
                self._found.move_to_end(asked)
                return self._found[asked]
            if asked[2]:
                return None
            if self._beforehand is None:
                self._beforehand = self._read()
            told = self._beforehand.get(name_of(asked))
        return None if told is None else pa.ipc.open_stream(told).read_all()

    def keep(self, asked: Asked | None, answer: pa.Table) -> None:
        """Remember an answer, and forget the oldest where there are too many."""
        if asked is None or answer.nbytes > _LARGEST:
            return
        with self._lock:
            before = self._found.pop(asked, None)
            self._found[asked] = answer
            self._bytes += answer.nbytes - (before.nbytes if before is not None else 0)
            while self._bytes > _MOST:
                self._bytes -= self._found.popitem(last=False)[1].nbytes

    def of_everything(self) -> Iterator[tuple[str, bytes]]:
        """Those under no filter, to be kept: the name of what was asked, and the answer as an Arrow stream."""
        with self._lock:
            found = list(self._found.items())
        for asked, answer in found:
            if not asked[2]:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, answer.schema) as stream:
                    stream.write_table(answer)
                yield name_of(asked), sink.getvalue().to_pybytes()


def asked_as(sql: str, params: Mapping[str, object], only: Filter | None) -> Asked | None:
    """What an answer is found by; None where it is not to be found again."""
    tables = read_by(sql)
    if only is None or not {name.removeprefix(_WHOLE) for name in tables} <= VIEWS:
        return None
    under = only if tables & set(NARROWED) else EVERYTHING
    asked = sql, tuple(sorted(params.items())), under
    try:
        hash(asked)
    except TypeError:  # a list of rows somebody looks at: they are many, and never the same twice
        return None
    return asked


def name_of(asked: Asked) -> str:
    """The same in every process, and another one when the text of the question is."""
    return sha256(repr(asked[:2]).encode()).hexdigest()


@cache
def read_by(sql: str) -> frozenset[str]:
    """The tables and views that a question reads, as it writes them, but for those that it names itself."""
    text = _COMMENT.sub("", sql)
    return frozenset(_READ.findall(text)) - frozenset(_NAMED.findall(text))
