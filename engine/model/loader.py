"""Loads a model to serve: found, read into memory in the right dtype, its cache sized. The worker's way in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.model.decoder import Decoder
from engine.model.device import cache_budget, pick_device, pick_dtype, pick_threads
from engine.model.errors import ModelError
from engine.model.executor import TorchExecutor
from engine.model.source import ModelSource, open_model
from engine.model.spec import ModelSpec
from engine.model.tokenizer import Tokenizer
from engine.model.weights import DummyWeights, GGUFWeights, SafetensorsWeights, Weights

_NAMES = {torch.bfloat16: "bf16", torch.float32: "fp32"}


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory, and the size of the cache it is to have."""

    source: ModelSource
    decoder: Decoder
    num_blocks: int
    block_size: int
    seed: int
    info: Mapping[str, Any]
    """For run.json: what the source says of itself, and device, dtype, threads and cache."""

    @property
    def spec(self) -> ModelSpec:
        """The model's shape."""
        return self.source.spec

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.source.tokenizer

    @property
    def max_model_len(self) -> int:
        """Prompt and output together: what the positions and the whole cache allow."""
        return min(self.spec.max_position, self.num_blocks * self.block_size)

    def executor(self) -> TorchExecutor:
        """An executor with a cache of its own."""
        eos_ids = self.tokenizer.eos_ids
        return TorchExecutor(self.decoder, self.num_blocks, self.block_size, eos_ids, self.seed)


def load_model(
    model: str,
    load_format: str = "auto",
    *,
    device: str = "auto",
    dtype: str = "auto",
    num_blocks: int | None = None,
    memory_mb: int | None = None,
    block_size: int = 16,
    threads: int | None = None,
    seed: int = 0,
    worker: int = 0,
    workers: int = 1,
) -> LoadedModel:
    """Load what `open_model` finds.

    The cache has `num_blocks` blocks, or as many as `memory_mb` (MiB) hold; without either, `cache_budget` decides.
    Of several `workers`, of which this is number `worker`, all compute in one dtype and share devices.
    `seed` makes random weights and stands in for requests that bring none. Sets torch's threads for the process.
    Raises `ModelError`: no such model, device or dtype; missing tensors; a cache of less than one block.
    """
    torch.set_num_threads(pick_threads(threads))
    source, place = open_model(model, load_format), pick_device(device, worker)
    number = pick_dtype(dtype, place, source.spec, among_several=workers > 1)
    with torch.inference_mode():
        decoder = Decoder(source.spec, _weights(source, number, place, seed))
    block_bytes = block_size * source.spec.kv_bytes_per_token(number.itemsize)
    blocks = num_blocks or _blocks_in(memory_mb * 2**20 if memory_mb else cache_budget(place, workers), block_bytes)
    info = {
        **source.info(),
        "device": place.type,
        "dtype": _NAMES[number],
        "torch_threads": torch.get_num_threads(),
        "kv_blocks": blocks,
        "kv_block_size": block_size,
        "kv_bytes": blocks * block_bytes,
    }
    return LoadedModel(source, decoder, blocks, block_size, seed, info)


def _weights(source: ModelSource, dtype: torch.dtype, device: torch.device, seed: int) -> Weights:
    if source.path is None:
        return DummyWeights(source.spec, dtype, device, seed)
    if source.header is not None:
        return GGUFWeights(source.spec, dtype, device, source.header)
    return SafetensorsWeights(source.spec, dtype, device, source.path)


def _blocks_in(memory: int, block_bytes: int) -> int:
    if memory < block_bytes:
        raise ModelError(
            f"{memory} bytes of memory hold no KV block of {block_bytes} bytes; "
            "raise kv.memory_mb or lower kv.block_size"
        )
    return memory // block_bytes
