"""Which model is meant: a name, a GGUF file, a folder, or random weights; its shape and tokenizer. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.model.errors import ModelError
from engine.model.fetch import CATALOGUE, fetch
from engine.model.gguf_file import GGUFHeader, read_gguf_header
from engine.model.spec import PRESETS, ModelSpec, spec_from_gguf, spec_from_hf
from engine.model.tokenizer import (
    Tokenizer,
    dummy_tokenizer,
    read_json,
    tokenizer_from_folder,
    tokenizer_from_gguf,
)

DEFAULT_MODEL = "smollm2-135m"
LOAD_FORMATS = ("auto", "dummy")


@dataclass(frozen=True)
class ModelSource:
    """A model that was found: its shape, and where its weights lie (`path` None: at random)."""

    spec: ModelSpec
    path: Path | None = None
    header: GGUFHeader | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Built when asked for. Raises `ModelError` for a kind that is not supported."""
        if self.header is not None:
            return tokenizer_from_gguf(self.header.metadata, self.spec.name)
        return tokenizer_from_folder(self.path) if self.path else dummy_tokenizer(self.spec.vocab)

    def info(self) -> dict[str, Any]:
        """What run.json says of the model."""
        spec = self.spec
        return {
            "name": spec.name,
            "family": spec.family,
            "parameters": spec.parameters,
            "layers": spec.layers,
            "hidden": spec.hidden,
            "heads": spec.heads,
            "kv_heads": spec.kv_heads,
            "head_dim": spec.head_dim,
            "vocab": spec.vocab,
            "max_position": spec.max_position,
            "weights": "random" if self.path is None else "gguf" if self.header else "safetensors",
            **({"file": self.path.name} if self.path else {}),
            **self.facts,
        }


def open_model(model: str, load_format: str = "auto") -> ModelSource:
    """Find a model by catalogue name (fetched when it is not there yet), GGUF file or Hugging Face folder.

    With `load_format` "dummy" it is a preset's name, or a file or folder whose shape is taken and weights ignored.
    Raises `ModelError`: nothing there, nothing that is understood, or not to be fetched.
    """
    if load_format not in LOAD_FORMATS:
        raise ModelError(f"load format {load_format!r} is unknown; it is one of {', '.join(LOAD_FORMATS)}")
    if load_format == "dummy" and model in PRESETS:
        return ModelSource(PRESETS[model])
    if load_format == "auto" and model in CATALOGUE:
        entry = CATALOGUE[model]
        return _open_gguf(fetch(entry), model, {"sha256": entry.sha256})
    source = _open_path(Path(model).expanduser())
    return ModelSource(source.spec) if load_format == "dummy" else source


def _open_path(path: Path) -> ModelSource:
    if path.is_dir():
        config = read_json(path / "config.json")
        if not config:
            raise ModelError(f"{path} has no config.json; a Hugging Face model folder has one")
        return ModelSource(spec_from_hf(config, path.resolve().name), path)
    if path.is_file():
        return _open_gguf(path, path.stem, {})
    raise ModelError(
        f"there is no model at {path}; give a GGUF file, a Hugging Face folder, or one of {', '.join(CATALOGUE)}"
    )


def _open_gguf(path: Path, name: str, facts: Mapping[str, Any]) -> ModelSource:
    header = read_gguf_header(path)
    spec = spec_from_gguf(header.metadata, frozenset(header.tensors), name)
    return ModelSource(spec, path, header, facts)
