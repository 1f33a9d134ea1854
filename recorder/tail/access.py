"""Where the live tail of a run is found, and who may look: `RUN/tail.json`, readable by its owner alone."""

import hmac
import ipaddress
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from recorder.errors import UserError

_MODE: Final = 0o600


class Door(msgspec.Struct, frozen=True):
    """What `tail.json` holds: the address of the tail, and the token that viewers on other machines need."""

    url: str
    token: str

    @property
    def port(self) -> int:
        """The port it is served at."""
        return urlsplit(self.url).port or 0

    def admits(self, offered: str | None) -> bool:
        """Whether a token is the right one; takes the same time whichever it is."""
        return hmac.compare_digest((offered or "").encode(), self.token.encode())


def new_token() -> str:
    """192 bits of chance."""
    return secrets.token_urlsafe(24)


def door_path(run: Path) -> Path:
    """Where the file lies."""
    return run / "tail.json"


def read_door(run: Path) -> Door | None:
    """The door of a run; None where nobody serves its tail. Raises UserError where it may not be read."""
    try:
        return msgspec.json.decode(door_path(run).read_bytes(), type=Door)
    except PermissionError as error:
        raise UserError(f"{door_path(run)} is for its owner only: ask for the URL and the token") from error
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_door(run: Path, door: Door) -> None:
    """Put the file in place in one step; nobody else can read it at any instant. Raises OSError."""
    temporary = door_path(run).with_name(f"tail.json.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(door))
    temporary.replace(door_path(run))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def offered_token(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """The token of a request: `Authorization: Bearer TOKEN` or `?token=TOKEN`."""
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else query.get("token")
