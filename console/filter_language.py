"""The little language of `/` and `--filter`: text to a `Filter` with errors that help, and what may come next. Pure."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, cast

from console.filter import (
    COUNTS,
    SHORT,
    TIMES,
    WORDS,
    Alive,
    Asked,
    Blamed,
    Bound,
    Filter,
    Not,
    Op,
    Part,
    Plain,
    Term,
    Words,
    quoted,
)
from console.theme import CAUSES
from recorder.errors import UserError
from recorder.words import Phase, Status

Names = Mapping[str, Sequence[str]]
"""The words that a run holds for each field, for completion."""

HELP: Final = "status:ok  tier:paid,gold  -model:tiny  e2e>2s  id:chat-*  cause:QUEUE>20%  culprit:812  alive:2s..5s"

_PARTS: Final = ("cause", "phase")
_ASKED: Final = ("sql", "attempts")
_FIELDS: Final = tuple(dict.fromkeys((*WORDS, *TIMES, *COUNTS, "alive", *_PARTS, "culprit", *_ASKED)))
_STATUSES: Final = tuple(status.value for status in Status)
_PHASES: Final = tuple(phase.value for phase in Phase)
_CAUSES: Final = tuple(dict.fromkeys(name for cause in CAUSES for name in (cause.partition("/")[0], cause)))
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_TOKEN: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+', re.DOTALL)
_HEAD: Final = re.compile(r"([a-z0-9_]+)\s*(>=|<=|>|<|:|=)(.*)", re.DOTALL | re.IGNORECASE)
_WORD: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",]*)', re.DOTALL)
_AMOUNT: Final = re.compile(r"([A-Za-z_/]+)\s*(?:(>=|<=|>|<)\s*(.+))?", re.DOTALL)
_NUMBER: Final = r"(\d{1,15}(?:\.\d{0,9})?|\.\d{1,9})"
"""So many digits, so that arithmetic on it stays exact."""
_DURATION: Final = re.compile(f"{_NUMBER}(ns|us|µs|ms|s|m|h)")
_PERCENT: Final = re.compile(f"{_NUMBER}%")
_COUNT: Final = re.compile(r"\d{1,15}")
_DIGITS: Final = re.compile(r"[\d*?]*")


class FilterError(UserError):
    """The text is no filter; the message says which part, and what to write."""


def parse_filter(text: str) -> Filter:
    """The filter that `text` means; the empty text lets everything through."""
    if "\x00" in text:
        raise FilterError("a filter can't hold a zero byte")
    return Filter(tuple(dict.fromkeys(_term(token) for token in list(_tokens(text)))))


def complete(text: str, names: Names) -> list[str]:
    """What the last word of `text` may become, best first; each is the whole text."""
    found = re.search(r"\S*$", text)
    last = found[0] if found else ""
    before, sign = text[: len(text) - len(last)], last[:1] if last[:1] in {"-", "!"} else ""
    return [f"{before}{sign}{ending}" for ending in _endings(last[len(sign) :], names) if ending != last[len(sign) :]]


def _endings(word: str, names: Names) -> Iterator[str]:
    field, colon, value = word.partition(":")
    if not colon:
        heads = (f"{name}{'>' if name in {**TIMES, **COUNTS} else ':'}" for name in _FIELDS)
        yield from (head for head in heads if word and head.startswith(word.lower()))
        return
    known = {"status": _STATUSES, "phase": _PHASES, "cause": _CAUSES, **names}.get(field.lower(), ())
    kept, comma, begun = value.rpartition(",") if field.lower() in WORDS else ("", "", value)
    for name in known:
        if name.lower().startswith(begun.lower()):
            yield f"{field}:{kept}{comma}{quoted(name)}"


def _tokens(text: str) -> Iterator[str]:
    place = 0
    for match in _TOKEN.finditer(text):
        if text[place : match.start()].strip():
            break
        yield match[0]
        place = match.end()
    if text[place:].strip():
        raise FilterError(f"a quote is not closed: {text[place:].strip()}")


def _term(token: str) -> Term:
    if token[:1] in {"-", "!"}:
        return Not(_plain(token[1:], token))
    return _plain(token, token)


def _plain(token: str, whole: str) -> Plain:
    match = _HEAD.fullmatch(token)
    if match is None:
        hint = _meant(token, _FIELDS) or f"for ids write id:*{token}*; other terms: {HELP}"
        raise FilterError(f"{whole!r} is no term of a filter; {hint}")
    field, op, rest = SHORT.get(match[1].lower(), match[1].lower()), match[2], match[3].strip()
    if field in WORDS or (field in COUNTS and op in {":", "="}):
        return _words(field, op, rest)
    if field in {**TIMES, **COUNTS}:
        return _bound(field, op, rest)
    if field in _PARTS:
        return _part(cast("Literal['cause', 'phase']", field), op, rest)
    if field == "alive":
        return _alive(op, rest)
    if field == "culprit":
        return _blamed(op, rest)
    if field in _ASKED:
        return _asked(cast("Literal['sql', 'attempts']", field), op, rest)
    raise FilterError(f"there is no field {field!r}; {_meant(field, _FIELDS) or _listed(_FIELDS)}")


def _words(field: str, op: str, rest: str) -> Words:
    if op not in {":", "="}:
        raise FilterError(f"{field} is a word, not a number: write {field}:{rest or 'WORD'}")
    if not rest:
        raise FilterError(f'{field}: needs a word, such as {field}:{_example(field)} (or {field}:"" for none)')
    patterns = tuple(dict.fromkeys(_split(rest)))
    if field == "status":
        patterns = tuple(_one_of("state", pattern.lower(), _STATUSES) for pattern in patterns)
    if field in COUNTS and not all(_DIGITS.fullmatch(pattern) for pattern in patterns):
        raise FilterError(f"{field} is a number: write {field}>100 or {field}:100; got {rest!r}")
    return Words(field, patterns)


def _blamed(op: str, rest: str) -> Blamed:
    if op not in {":", "="} or not rest:
        raise FilterError(f"culprit{op}{rest}: write who took the time, by number or id: culprit:812, culprit:chat-7")
    return Blamed(tuple(dict.fromkeys(_split(rest))))


def _asked(field: Literal["sql", "attempts"], op: str, rest: str) -> Asked:
    """One question; that its answer has the columns shows when it is asked."""
    from console.database import QueryError, check_reads_only

    words = list(_split(rest))
    if op not in {":", "="} or len(words) != 1 or not words[0].strip():
        columns = "rid" if field == "sql" else "rid, attempt"
        raise FilterError(f'{field}: needs one question in quotes: {field}:"SELECT {columns} FROM latency WHERE ..."')
    question = words[0].strip().rstrip(";")
    try:
        check_reads_only(question)
    except QueryError as error:
        raise FilterError(f"{field}: {error}") from error
    return Asked(question, field)


def _split(rest: str) -> Iterator[str]:
    """The words between the commas; a quoted one may hold commas."""
    place = 0
    while place <= len(rest):
        match = _WORD.match(rest, place)
        if match is None or (match.end() < len(rest) and rest[match.end()] != ","):
            raise FilterError(f"{rest}: quotes go around a whole word")
        yield re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL) if match[1] is not None else match[2]
        place = match.end() + 1


def _bound(field: str, op: str, rest: str) -> Bound:
    if op not in {">", ">=", "<", "<="}:
        raise FilterError(f"{field} is a number: write {field}>{'500ms' if field in TIMES else '100'}")
    return Bound(field, cast("Op", op), parse_duration(field, rest) if field in TIMES else _count(field, rest))


def _part(kind: Literal["cause", "phase"], op: str, rest: str) -> Part:
    match = _AMOUNT.fullmatch(rest)
    example = "cause:QUEUE>20%" if kind == "cause" else "phase:decode>1s"
    if op not in {":", "="} or match is None:
        raise FilterError(f"{kind}{op}{rest}: write the {kind} and how much of it, such as {example}")
    name = _cause(match[1].upper()) if kind == "cause" else _one_of("phase", match[1].lower(), _PHASES)
    if match[2] is None:
        return Part(kind, name)
    share = _PERCENT.fullmatch(match[3])
    amount = Decimal(share[1]) if share else parse_duration(f"{kind}:{name}", match[3])
    return Part(kind, name, cast("Op", match[2]), amount)


def _cause(name: str) -> str:
    """A known cause, or one below a known one: newer runs may have more of those."""
    return name if name.partition("/")[0] in _CAUSES else _one_of("cause", name, _CAUSES)


def _alive(op: str, rest: str) -> Alive:
    start, dots, end = rest.partition("..")
    if op not in {":", "="} or not dots:
        raise FilterError(f"alive{op}{rest}: write a stretch of the run, such as alive:2s..5s or alive:2s..")
    sides = [parse_duration("alive", side.strip()) if side.strip() else None for side in (start, end)]
    if sides[0] is not None and sides[1] is not None and sides[0] > sides[1]:
        raise FilterError(f"alive:{rest} ends before it begins")
    return Alive(sides[0], sides[1])


def parse_duration(field: str, text: str) -> int:
    """A time as it is typed, in ns: `500ms`, `2s`. Raises FilterError, which names the `field`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        unit = f", such as {text}ms or {text}s" if _COUNT.fullmatch(text) else ": 500ms, 2s, 1.5m"
        raise FilterError(f"{field} needs a time with a unit{unit}; got {text!r}")
    return int(Decimal(match[1]) * _UNITS[match[2]])


def _count(field: str, text: str) -> int:
    if _COUNT.fullmatch(text) is None:
        raise FilterError(f"{field} needs a whole number, got {text!r}")
    return int(text)


def _one_of(what: str, name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise FilterError(f"there is no {what} {name!r}; {_meant(name, known) or _listed(known)}")
    return name


def _meant(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word.partition(":")[0], known, 1)
    return f"did you mean {close[0]}?" if close else ""


def _listed(names: Iterable[str]) -> str:
    return f"there are: {', '.join(names)}"


def _example(field: str) -> str:
    return {"status": "ok", "worker": "0", "id": "chat-*"}.get(field, "NAME")
