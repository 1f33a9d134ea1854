"""What the console remembers of a run from one time to the next: the last filter, and the marks. A file a run."""

import hashlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from console.marks import Mark
from recorder.errors import UserError
from recorder.run import RunInfo

ENVIRONMENT: Final = "TAILTRACE_STATE"
"""Names another folder than the user's own state folder."""

_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")


class ForgottenError(UserError):
    """What is remembered can't be read or written; the message names the file."""


class Remembered(msgspec.Struct, frozen=True):
    """Of one run. `filter` is what was typed; marks are ns on the run's clock."""

    filter: str = ""
    marks: tuple[Mark, ...] = ()


class Memory:
    """A folder of what is remembered. A run is known by its id and when it was made, wherever it lies."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _folder()

    def recall(self, info: RunInfo) -> Remembered:
        """What is remembered of a run; nothing of one that is new."""
        file = self._file(info)
        try:
            return msgspec.json.decode(file.read_bytes(), type=Remembered)
        except FileNotFoundError:
            return Remembered()
        except (OSError, msgspec.MsgspecError) as error:
            raise ForgottenError(f"can't read what is remembered of this run in {file}: {error}") from error

    def keep(self, info: RunInfo, remembered: Remembered) -> None:
        """Remember this of a run; the file changes whole or not at all."""
        file = self._file(info)
        fresh = file.with_suffix(f".{os.getpid()}")
        try:
            if remembered == Remembered() and not file.exists():
                return
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
