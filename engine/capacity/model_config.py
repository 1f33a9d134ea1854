"""A model's own config.json, as published beside its weights, read for the sheet."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.capacity.inputs import CapacityError, Model, check, keys

_NUMBER_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def read_model(path: Path, given: Mapping[str, Fraction]) -> Model:
    """The model of a config.json, whose entries `given` overrides; CapacityError names what it lacks.

    The number of weights is counted from the shapes of a dense decoder with gated MLPs (norms and biases, some
    thousandths, left out); experts make another count, so then `given` must hold it.
    """
    config = _load(path)
    config = config.get("text_config", config)
    read: dict[str, Callable[[], Fraction]] = {
        "layers": lambda: _number(config, path, "num_hidden_layers"),
        "kv_heads": lambda: _number(config, path, "num_key_value_heads", "num_attention_heads"),
        "head_size": lambda: _head_size(config, path),
        "kv_bytes": lambda: _number_bytes(config, path),
        "weight_bytes": lambda: _number_bytes(config, path),
        "parameters": lambda: _parameters(config, path),
    }
    values = {name: given[name] if name in given else entry() for name, entry in read.items()}
    for name, key in keys(Model).items():
        check(values[name], key, f"{path}: {name}")
    return Model(**values)


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CapacityError(f"--model-config: can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CapacityError(f"--model-config: {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CapacityError(f"--model-config: {path} holds no JSON object; it must be a model's config.json")
    return document


def _number(config: Mapping[str, Any], path: Path, *names: str) -> Fraction:
    """The first of `names` that the file holds."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return Fraction(value)
        if value is not None:
            raise CapacityError(f"--model-config: {path}: {name} is {value!r}, not a whole number")
    raise CapacityError(
        f"--model-config: {path} lacks {names[0]}; add it, or give the keys beside the file: {', '.join(keys(Model))}"
    )


def _head_size(config: Mapping[str, Any], path: Path) -> Fraction:
    if config.get("head_dim") is not None:
        return _number(config, path, "head_dim")
    return _number(config, path, "hidden_size") / _number(config, path, "num_attention_heads")


def _number_bytes(config: Mapping[str, Any], path: Path) -> Fraction:
    kind = config.get("dtype") or config.get("torch_dtype")
    if kind not in _NUMBER_BYTES:
        raise CapacityError(
            f"--model-config: {path}: dtype {kind!r} is none of {', '.join(_NUMBER_BYTES)}; "
            "give kv_bytes=... and weight_bytes=... beside the file"
        )
    return Fraction(_NUMBER_BYTES[kind])


def _parameters(config: Mapping[str, Any], path: Path) -> Fraction:
    if any("experts" in name and value for name, value in config.items()):
        raise CapacityError(f"--model-config: {path} is a model of experts; give parameters=... beside the file")
    hidden = _number(config, path, "hidden_size")
    heads, head_size = _number(config, path, "num_attention_heads"), _head_size(config, path)
    kv_heads = _number(config, path, "num_key_value_heads", "num_attention_heads")
    attention = 2 * hidden * head_size * (heads + kv_heads)
    mlp = 3 * hidden * _number(config, path, "intermediate_size")
    embeddings = hidden * _number(config, path, "vocab_size") * (1 if config.get("tie_word_embeddings") else 2)
    return _number(config, path, "num_hidden_layers") * (attention + mlp) + embeddings
