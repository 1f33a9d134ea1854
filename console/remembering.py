"""What the console remembers from one time to the next: of a run its last filter and its marks, and how it is liked."""

import hashlib
import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from console.marks import Mark
from recorder.errors import UserError
from recorder.run import RunInfo

ENVIRONMENT: Final = "TAILTRACE_STATE"
"""Names another folder than the user's own state folder."""

T = TypeVar("T", bound=msgspec.Struct)

_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")


class ForgottenError(UserError):
    """What is remembered can't be read or written; the message names the file."""


class Remembered(msgspec.Struct, frozen=True):
    """Of one run. `filter` is what was typed; marks are ns on the run's clock."""

    filter: str = ""
    marks: tuple[Mark, ...] = ()


class Preferences(msgspec.Struct, frozen=True):
    """Of the console, whatever run is open."""

    compact: bool = False
    theme: str = ""


class Questions(msgspec.Struct, frozen=True):
    """What was asked in SQL, the newest last, whatever run was open."""

    sql: tuple[str, ...] = ()


class Memory:
    """A folder of what is remembered. A run is known by its id and when it was made, wherever it lies."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _folder()

    def preferences(self) -> Preferences:
        """How somebody likes the console."""
        return self._read(self._preferences, Preferences)

    def prefer(self, preferences: Preferences) -> None:
        """Have the console like this from now on."""
        self._write(self._preferences, preferences)

    def questions(self) -> tuple[str, ...]:
        """What was asked in SQL."""
        return self._read(self._questions, Questions).sql

    def keep_questions(self, sql: tuple[str, ...]) -> None:
        """Have this as what was asked."""
        self._write(self._questions, Questions(sql))

    def recall(self, info: RunInfo) -> Remembered:
        """What is remembered of a run; nothing of one that is new."""
        return self._read(self._file(info), Remembered)

    def keep(self, info: RunInfo, remembered: Remembered) -> None:
        """Remember this of a run; the file changes whole or not at all."""
        file = self._file(info)
        if remembered != Remembered() or file.exists():
            self._write(file, remembered)

    @property
    def _preferences(self) -> Path:
        return self.folder / "console.json"

    @property
    def _questions(self) -> Path:
        return self.folder / "questions.json"

    def _read(self, file: Path, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(file.read_bytes(), type=kind)
        except FileNotFoundError:
            return kind()
        except (OSError, msgspec.MsgspecError) as error:
            raise ForgottenError(f"can't read what is remembered in {file}: {error}") from error

    def _write(self, file: Path, remembered: msgspec.Struct) -> None:
        fresh = file.with_suffix(f".{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(msgspec.json.encode(remembered))
            fresh.replace(file)
        except OSError as error:
            raise ForgottenError(f"can't remember this in {file}: {error.strerror}") from error

    def _file(self, info: RunInfo) -> Path:
        digest = hashlib.sha256(f"{info.run_id}\n{info.created}".encode()).hexdigest()[:12]
        return self.folder / "runs" / f"{_ODD.sub('-', info.run_id)[:60]}-{digest}.json"


def _folder() -> Path:
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    from platformdirs import user_state_path

    return user_state_path("tailtrace", appauthor=False)
