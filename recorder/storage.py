"""Folders of runs elsewhere: whatever URL fsspec reads, and what went wrong there in words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from recorder.errors import UserError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::|://)")


class StorageError(UserError):
    """A place elsewhere can't be read: no such protocol, a missing dependency, no credentials, no answer."""


class NothingThereError(StorageError):
    """The place answers, and has nothing of that name."""


def is_url(where: str) -> bool:
    """Whether a run is named by a URL (`s3://bucket/run`) and not by the path of a folder."""
    return _URL.match(where) is not None


@dataclass(frozen=True)
class Remote:
    """A folder behind fsspec. Methods raise StorageError with words, NothingThereError for what does not exist."""

    url: str
    path: str
    system: "AbstractFileSystem"

    @classmethod
    def open(cls, url: str) -> Self:
        """Find who can read the URL. Nothing is asked there yet."""
        from fsspec.core import url_to_fs  # 0.1 s that runs on this machine do not pay

        with _in_words(url):
            system, path = url_to_fs(url)
        return cls(url.rstrip("/"), path.rstrip("/"), system)

    @property
    def own_folder(self) -> Path | None:
        """The folder itself where it lies on this machine (`file://`)."""
        from fsspec.implementations.local import LocalFileSystem

        return Path(self.path or "/") if isinstance(self.system, LocalFileSystem) else None

    def child(self, name: str) -> "Remote":
        """A folder in this one."""
        return Remote(f"{self.url}/{name}", self._at(name), self.system)

    def read(self, name: str) -> bytes:
        """The whole of a small file."""
        with _in_words(f"{self.url}/{name}"):
            content: bytes = self.system.cat_file(self._at(name))
            return content

    def folders(self) -> list[str]:
        """The names of the folders in this one. Raises NothingThereError where there is not even this one."""
        with _in_words(self.url):
            listed = self.system.ls(self.path, detail=True)
        return sorted(_last(one["name"]) for one in listed if one["type"] == "directory")

    def files(self) -> dict[str, int | None]:
        """Path below this folder -> bytes, None where a server does not say, for all files at any depth."""
        with _in_words(self.url):
            self.system.invalidate_cache()  # or fsspec would answer from what it listed before
            found: Mapping[str, Mapping[str, Any]] = self.system.find(self.path, detail=True)
        return {path.removeprefix(self.path).lstrip("/"): one["size"] for path, one in found.items()}

    def fetch(self, names: Sequence[str], to: Sequence[Path]) -> None:
        """Copy files of this folder, several at a time where the protocol can."""
        with _in_words(self.url):
            self.system.get([self._at(name) for name in names], [str(path) for path in to])

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


@contextmanager
def _in_words(url: str) -> Iterator[None]:
    """fsspec lets through whatever the library behind a protocol raises: its kind and its words are passed on."""
    try:
        yield
    except FileNotFoundError as error:
        words = _told(error)
        raise NothingThereError(f"there is nothing at {url}" + (f": {words}" if " " in words else "")) from error
    except Exception as error:
        raise StorageError(f"{url} can't be read: {_told(error)}{_hint(error)}") from error


def _told(error: Exception) -> str:
    """The last of the reasons, on one line; the name of the error where it has no words."""
    return " ".join(str(error).split()) or type(error).__name__


def _hint(error: Exception) -> str:
    """What to do, by the kind of the error: libraries name these alike, and have no common base for them."""
    kind = type(error).__name__
    if isinstance(error, ImportError):
        return _hint_of_import(error)
    if "Credentials" in kind or isinstance(error, PermissionError):
        return " (are the credentials right, for S3 AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY?)"
    return " (is the address right, for S3 AWS_ENDPOINT_URL?)" if "Connect" in kind else ""


def _hint_of_import(error: ImportError) -> str:
    """fsspec only names the package; whether it is missing, or is there and broken, is in the cause."""
    cause = error.__cause__
    if isinstance(cause, ModuleNotFoundError):
        return " (pip install 'tailtrace[s3]')" if cause.name == "s3fs" else f" ({cause.name} is missing)"
    return f" ({_told(cause)})" if isinstance(cause, Exception) else ""
