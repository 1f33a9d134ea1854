"""Weights by canonical (Hugging Face) name, from a GGUF, a folder of safetensors, or at random."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.gguf_file import GGUFHeader
from engine.model.spec import ModelSpec

_GGUF_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


class Weights(ABC):
    """A checkpoint's tensors, each read when asked for, converted to `dtype` on `device`."""

    rope_factors: Tensor | None = None
    """Divisors [head_dim / 2] of the rotary frequencies, where the checkpoint brings them."""

    def __init__(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device) -> None:
        self.spec = spec
        self.shapes = spec.tensor_shapes()
        self.dtype = dtype
        self.device = device

    def __getitem__(self, name: str) -> Tensor:
        """The tensor in `dtype`; `ModelError` where its shape is not the one that the configuration asks for."""
        return self.exact(name).to(self.dtype)

    def exact(self, name: str) -> Tensor:
        """The tensor in float32, as exact as the checkpoint has it."""
        tensor = self._read(name)
        if tuple(tensor.shape) != self.shapes[name]:
            found, wanted = list(tensor.shape), list(self.shapes[name])
            raise ModelError(f"{self.spec.name}: tensor {name} has shape {found}, but the configuration says {wanted}")
        return tensor.to(self.device, torch.float32)

    @abstractmethod
    def _read(self, name: str) -> Tensor: ...

    def _require(self, present: Iterable[str], rename: Mapping[str, str]) -> None:
        missing = sorted(set(rename.values()) - set(present))
        if missing:
            listed = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            raise ModelError(f"{self.spec.name}: the checkpoint lacks {listed}; fetch it again")


class DummyWeights(Weights):
    """Random weights that depend on the seed and the tensor's name only."""

    def __init__(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, seed: int) -> None:
        super().__init__(spec, dtype, device)
        self.seed = seed

    def _read(self, name: str) -> Tensor:
        if name.endswith("norm.weight"):
            return torch.ones(self.shapes[name])
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode(), self.seed & 0xFFFFFFFF))
        # Layers of full strength over weak embeddings: the next token then isn't always the last one again.
        scale = 0.02 if "embed" in name else self.shapes[name][-1] ** -0.5
        return torch.randn(self.shapes[name], generator=generator) * scale


class GGUFWeights(Weights):
    """The tensors of a GGUF file, dequantised."""

    def __init__(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, header: GGUFHeader) -> None:
        super().__init__(spec, dtype, device)
        self.header = header
        self.data = np.memmap(header.path, mode="r")
        self.names = {name: gguf_name(name) for name in self.shapes}
        self._require(header.tensors, self.names)
        if "rope_freqs.weight" in header.tensors:
            self.rope_factors = self._tensor("rope_freqs.weight")

    def _read(self, name: str) -> Tensor:
        tensor = self._tensor(self.names[name])
        if self.spec.family != "llama":
            return tensor
        # llama.cpp stores the halves of each head interleaved in this family; ours lie one after the other.
        if ".q_proj." in name:
            return _halves_apart(tensor, self.spec.heads)
        return _halves_apart(tensor, self.spec.kv_heads) if ".k_proj." in name else tensor

    def _tensor(self, name: str) -> Tensor:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize, quant_shape_to_byte_shape

        info = self.header.tensors[name]
        try:
            kind = GGMLQuantizationType(info.ggml_type)
            block, size = GGML_QUANT_SIZES[kind]
            count = int(np.prod(info.shape)) // block * size
            raw = self.data[info.offset : info.offset + count]
            values: Any = dequantize(raw.reshape(quant_shape_to_byte_shape(info.shape, kind)), kind)
        except NotImplementedError:
            raise ModelError(f"{self.header.path}: {name} is of type {kind.name}, which can't be dequantised") from None
        except ValueError as error:
            raise ModelError(f"{self.header.path}: {name} can't be read ({error}); fetch the file again") from error
        return torch.from_numpy(np.array(values, dtype=np.float32))


class SafetensorsWeights(Weights):
    """The tensors of a Hugging Face folder: model.safetensors, or the shards of its index."""

    def __init__(self, spec: ModelSpec, dtype: torch.dtype, device: torch.device, folder: Path) -> None:
        super().__init__(spec, dtype, device)
        self.files = _safetensors_files(folder)
        self._require(self.files, {name: name for name in self.shapes})
        self.handles: dict[Path, Any] = {}

    def _read(self, name: str) -> Tensor:
        path = self.files[name]
        if path not in self.handles:
            self.handles[path] = _open_safetensors(path)
        tensor: Tensor = self.handles[path].get_tensor(name)
        return tensor


def gguf_name(name: str) -> str:
    """llama.cpp's name of a canonical one: `model.layers.3.mlp.up_proj.weight` -> `blk.3.ffn_up.weight`."""
    if name in _GGUF_NAMES:
        return _GGUF_NAMES[name]
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    module, kind = part.rsplit(".", 1)
    return f"blk.{layer}.{_GGUF_LAYER_NAMES[module]}.{kind}"


def _halves_apart(tensor: Tensor, heads: int) -> Tensor:
    rest = tensor.shape[1:]
    return tensor.view(heads, -1, 2, *rest).transpose(1, 2).reshape(-1, *rest)


def _safetensors_files(folder: Path) -> dict[str, Path]:
    """Which file holds each tensor."""
    index, single = folder / _INDEX, folder / _SINGLE
    if index.is_file():
        try:
            names = msgspec.json.decode(index.read_bytes(), type=dict[str, Any])["weight_map"]
        except (msgspec.MsgspecError, KeyError) as error:
            raise ModelError(f"{index} is damaged ({error}); fetch it again") from error
        return {name: folder / file for name, file in names.items()}
    if single.is_file():
        return dict.fromkeys(_open_safetensors(single).keys(), single)
    raise ModelError(f"{folder} has neither {_SINGLE} nor {_INDEX}; only safetensors are read")


def _open_safetensors(path: Path) -> Any:  # noqa: ANN401 - the package has no types
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise ModelError(f"{path} is missing, though the index names it; fetch it again") from None
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged ({error}); fetch it again") from error
