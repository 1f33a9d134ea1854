"""Rotary positions: the tables of cosines and signed sines, and turning the heads by them."""

import math

import torch
from torch import Tensor

from engine.model.spec import ModelSpec, RopeScaling


def rope_tables(
    spec: ModelSpec, factors: Tensor | None, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosines and sines [max_position, head_dim] (half-split layout; the first half of the sines is negated).

    `factors` [head_dim / 2] divide the frequencies; a GGUF brings them for Llama 3's scaling.
    """
    exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.float32) / spec.head_dim
    frequencies = 1.0 / spec.rope_theta**exponents
    if factors is not None:
        frequencies = frequencies / factors.float().cpu()
    elif spec.rope_scaling is not None:
        frequencies = _scaled(frequencies, spec.rope_scaling)
    angles = torch.outer(torch.arange(spec.max_position, dtype=torch.float32), frequencies)
    cos, sin = angles.cos(), angles.sin()
    return (
        torch.cat((cos, cos), dim=-1).to(device, dtype),
        torch.cat((-sin, sin), dim=-1).to(device, dtype),
    )


def rotate_(heads: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Turn heads [rows, heads, head_dim] in place; cos and sin are [rows, 1, head_dim]."""
    swapped = heads.roll(heads.shape[-1] // 2, dims=-1)
    heads.mul_(cos).addcmul_(swapped, sin)


def _scaled(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    # Llama 3: long waves are stretched, short ones are left alone, those between are blended.
    wave_length = 2 * math.pi / frequencies
    share = scaling.original_max_position / wave_length - scaling.low_freq_factor
    smooth = (share / (scaling.high_freq_factor - scaling.low_freq_factor)).clamp(0, 1)
    return (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
