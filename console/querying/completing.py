"""What the word at the cursor of some SQL may go on as: tables, columns, functions, keywords, the likeliest first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import duckdb

from console.querying.tables import TableDoc
from console.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST: Final = 50
"""Candidates that are offered; whoever has not found the word among them types one more letter."""

_WORD: Final = re.compile(r"(?:(\w+)\.)?(\w*)\Z")
_NAMED: Final = re.compile(r"(\w+)\s+AS\s*(?:NOT\s+|MATERIALIZED\s*)*\(", re.IGNORECASE)
_WANTS_TABLE: Final = re.compile(r"\b(?:FROM|JOIN|DESCRIBE|SUMMARIZE)\s+\Z|\bFROM\s[\w\s,.]*,\s*\Z", re.IGNORECASE)
_WORTH_AN_INFIX: Final = 3
"""Letters from which on names are found that have them in the middle."""


@dataclass(frozen=True, slots=True)
class Words:
    """What DuckDB knows: name of a function -> what it does, and keywords, those that structure a question first."""

    functions: "Mapping[str, str]"
    keywords: Sequence[str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text` in place of the word; `kind` is table, column, function or keyword, `doc` what there is to say of it."""

    text: str
    kind: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """Candidates for the word from `start` to `end`, in characters of the text; `chosen` is the one to take."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]
    chosen: int = 0

    def moved(self, step: int) -> "Offer":
        """Another candidate, around the ends."""
        return Offer(self.start, self.end, self.candidates, (self.chosen + step) % len(self.candidates))

    @property
    def text(self) -> str:
        """What to put in place of the word."""
        return self.candidates[self.chosen].text


def read_words(session: Session, cursor: duckdb.DuckDBPyConnection) -> Words:
    """Functions and keywords of this DuckDB."""
    functions = session.query(
        "SELECT function_name AS name, coalesce(any_value(description), '') AS doc FROM duckdb_functions()"
        " WHERE function_type IN ('scalar', 'aggregate', 'macro') AND regexp_full_match(function_name, '[a-z]\\w*')"
        " GROUP BY ALL ORDER BY function_name",
        cursor=cursor,
    )
    keywords = session.query(
        "SELECT keyword_name AS name FROM duckdb_keywords()"
        " ORDER BY keyword_category NOT IN ('reserved', 'type_function'), keyword_name",
        cursor=cursor,
    )
    docs = {row["name"]: " ".join(row["doc"].split()) for row in functions.to_pylist()}
    return Words(docs, list(dict.fromkeys(keywords["name"].to_pylist())))


def completions(
    text: str, cursor: int, tables: Sequence[TableDoc], words: Words, *, asked: bool = False
) -> Offer | None:
    """What can stand at `cursor` (in characters); None where nothing can, or nothing more than what is written.

    Unless somebody has `asked` for it, nothing is offered before the first letter of a word.
    """
    before = text[:cursor]
    match = _WORD.search(before)
    if match is None or _is_told(before) or not (match[2] or match[1] or asked) or match[2].isdecimal():
        return None
    word = match[2]
    start = cursor - len(word)
    found = _matching(word, _fitting(text, before[:start], match, tables=tables, words=words))
    if not found or [one.text.lower() for one in found] == [word.lower()]:
        return None
    return Offer(start, cursor, tuple(found[:MOST]))


def _is_told(before: str) -> bool:
    """Whether the cursor is inside a string or a comment: there all words are the person's own."""
    tokens = duckdb.tokenize(before)
    if not tokens:
        return False
    place, kind = tokens[-1][0], tokens[-1][1].name
    token = before.encode()[place:].decode("utf-8", "replace")
    if kind == "comment":
        return not token.rstrip().endswith("*/") and "\n" not in token
    return kind == "string_const" and not token.rstrip()[1:].endswith(("'", "$"))


def _fitting(
    text: str, before: str, match: re.Match[str], *, tables: Sequence[TableDoc], words: Words
) -> Iterator[Candidate]:
    """All that may stand there, whatever it begins with: what the place asks for first."""
    named, (qualifier, word) = _named_tables(text, tables), match.groups()
    if qualifier is not None:
        yield from _columns([named[qualifier.lower()]] if qualifier.lower() in named else [])
        return
    own = [Candidate(name, "table", "named in the question") for name in _NAMED.findall(text)]
    all_tables = [*own, *(Candidate(table.name, "table", f"a row is {table.row}") for table in tables)]
    if _WANTS_TABLE.search(before):
        yield from all_tables
        return
    yield from _columns(list({table.name: table for table in named.values()}.values()) or tables)
    functions = (Candidate(f"{name}(", "function", doc) for name, doc in words.functions.items())
    keywords = (Candidate(_cased(name, word), "keyword") for name in words.keywords)
    yield from (*keywords, *functions, *all_tables)


def _named_tables(text: str, tables: Sequence[TableDoc]) -> dict[str, TableDoc]:
    """Name or alias, in small letters -> table, for those that the question is about."""
    known = {table.name: table for table in tables}
    names = "|".join(map(re.escape, known)) or r"(?!)"
    found: dict[str, TableDoc] = {}
    for match in re.finditer(rf"(?:\b(?:FROM|JOIN)\s+|,\s*)({names})\b(?:\s+(?:AS\s+)?(\w+))?", text, re.IGNORECASE):
        table = known[match[1].lower()]
        found |= {name.lower(): table for name in (match[1], match[2]) if name}
    return found


def _columns(tables: Iterable[TableDoc]) -> Iterator[Candidate]:
    """Each name once, with the first table that has it."""
    seen: set[str] = set()
    for table in tables:
        for column in table.columns:
            if column.name not in seen:
                seen.add(column.name)
                kind = " ".join(filter(None, (column.type.lower(), column.unit)))
                yield Candidate(column.name, "column", f"{kind}  {table.name}  {column.doc}".rstrip())


def _matching(word: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that begin with the word, and names that have it in them; each text once."""
    small = word.lower()
    begin: dict[str, Candidate] = {}
    inside: dict[str, Candidate] = {}
    for one in candidates:
        text = one.text.lower()
        if text.startswith(small):
            begin.setdefault(one.text, one)
        elif len(word) >= _WORTH_AN_INFIX and small in text and one.kind in {"table", "column"}:
            inside.setdefault(one.text, one)
    return [*begin.values(), *inside.values()]


def _cased(keyword: str, word: str) -> str:
    """A keyword as somebody writes them who has begun it so."""
    return keyword if word.islower() else keyword.upper()
