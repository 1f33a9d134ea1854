"""Tiny random models of each family, as transformers makes and saves them, for tests that compare with it."""

import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

VOCAB = 96
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": VOCAB,
    "max_position_embeddings": 256,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "llama-biased": LlamaConfig(**SHAPE, attention_bias=True),
    "llama-long": LlamaConfig(**SHAPE, rope_parameters=LLAMA3_ROPE),
    "llama-linear": LlamaConfig(**SHAPE, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
    "mistral": MistralConfig(**SHAPE, sliding_window=None, head_dim=16),
    "mistral-windowed": MistralConfig(**SHAPE, sliding_window=9),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen2-windowed": Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=9, max_window_layers=1),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=True),
}


@cache
def oracle(name: str) -> Any:  # noqa: ANN401 - transformers has no types here
    """The model in transformers, float32, every parameter random (norms and biases too)."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in parameter_name else 0.0, 0.2)
    return model.eval()


@cache
def folder(name: str) -> Path:
    """The model saved as transformers saves it."""
    path = Path(mkdtemp(prefix=f"tiny-{name}-"))
    oracle(name).save_pretrained(path)
    return path


def true_logits(name: str, tokens: list[int]) -> torch.Tensor:
    """Logits [tokens, vocab] of transformers."""
    with torch.no_grad():
        logits: torch.Tensor = oracle(name)(torch.tensor([tokens])).logits[0]
    return logits
