"""What a load is: an arrival pattern read from JSONL, one request a line, checked whole before anything is sent."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from recorder.errors import UserError

_WORDS: Final = (
    "time year way day thing man world life hand part child eye place work week case point company number group"
    " problem fact house night water room money story area line city name team hour game body law car book word"
    " head level order door art war food power side end"
)

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")]


class WorkloadError(UserError):
    """A workload that can't be sent: says the file, the line, and what is wrong there."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request of a workload: when it is sent (seconds from the start), what is asked, and for whom."""

    arrival_s: Annotated[float, msgspec.Meta(ge=0)]
    prompt: str | None = None
    prompt_tokens: _Count | None = None
    max_tokens: _Count = 16
    id: _Id | None = None
    tier: str = ""
    tenant: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    deadline_ms: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """From when it is due."""
    ignore_eos: bool = False
    temperature: float = 0.0
    seed: int | None = None

    def text(self) -> str:
        """The prompt as it is sent: given, or made of `prompt_tokens` common words, the same for the same id."""
        return self.prompt if self.prompt is not None else synthesise(self.prompt_tokens or 1, self.id or "")


def read_workload(path: Path) -> list[Arrival]:
    """The arrivals of a JSONL file in order, every one with an id. Raises WorkloadError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise WorkloadError(f"{path}: can't read the workload: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: the workload is not UTF-8 text (byte {error.start})") from error
    return parse_workload(lines, str(path))


def parse_workload(lines: list[str], origin: str) -> list[Arrival]:
    """The arrivals that the lines describe; blank lines are skipped. Raises WorkloadError naming `origin` and line."""
    arrivals: list[Arrival] = []
    first_line: dict[str, int] = {}
    for number, arrival in _parsed(lines, origin):
        if arrivals and arrival.arrival_s < arrivals[-1].arrival_s:
            raise WorkloadError(
                f"{origin}:{number}: arrival_s = {arrival.arrival_s} is earlier than {arrivals[-1].arrival_s} of the"
                " request before; sort the lines by arrival_s"
            )
        arrival = msgspec.structs.replace(arrival, id=arrival.id or f"w-{len(arrivals) + 1:04d}")
        earlier = first_line.setdefault(str(arrival.id), number)
        if earlier != number:
            raise WorkloadError(
                f"{origin}:{number}: id {arrival.id!r} is already that of line {earlier}; ids pair runs"
            )
        arrivals.append(arrival)
    if not arrivals:
        raise WorkloadError(f"{origin}: the workload is empty; write one JSON object a line")
    return arrivals


def synthesise(tokens: int, key: str) -> str:
    """Text of `tokens` common words, one token each for tokenizers that know them whole; differs by `key`."""
    choose, words = random.Random(key).choice, _WORDS.split()
    return " ".join(choose(words) for _ in range(tokens))


def _parsed(lines: list[str], origin: str) -> Iterator[tuple[int, Arrival]]:
    decoder = msgspec.json.Decoder(Arrival)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            arrival = decoder.decode(line)
        except msgspec.ValidationError as error:
            raise WorkloadError(f"{origin}:{number}: {error}") from error
        except msgspec.DecodeError as error:
            raise WorkloadError(f"{origin}:{number}: not a JSON object: {error}") from error
        if (arrival.prompt is None) == (arrival.prompt_tokens is None):
            raise WorkloadError(f"{origin}:{number}: give either prompt or prompt_tokens")
        yield number, arrival
