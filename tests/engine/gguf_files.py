"""Writes GGUF files as llama.cpp's converter does, from transformers' tiny models; for tests."""

from pathlib import Path

import gguf
import numpy as np

from tests.engine.tiny_models import CONFIGS, oracle

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
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


def write_gguf(path: Path, name: str, *, quantise: bool = False, leave_out: str = "", arch: str = "") -> Path:
    """Write the tiny model `name`; matrices as Q8_0 with `quantise`. `leave_out` drops a tensor, `arch` lies."""
    family = name.split("-", maxsplit=1)[0]
    writer = gguf.GGUFWriter(path, arch or ARCHITECTURES[family])
    config = CONFIGS[name]
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(oracle(name).model.layers[0].self_attn.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_tensors(writer, name, quantise, leave_out)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensors(writer: gguf.GGUFWriter, name: str, quantise: bool, leave_out: str) -> None:
    config = CONFIGS[name]
    for tensor_name, tensor in oracle(name).state_dict().items():
        if tensor_name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if ARCHITECTURES[name.split("-", maxsplit=1)[0]] == "llama":
            if ".q_proj." in tensor_name:
                values = permute(values, config.num_attention_heads)
            elif ".k_proj." in tensor_name:
                values = permute(values, config.num_key_value_heads)
        target = gguf_name(tensor_name)
        if target == leave_out:
            continue
        if quantise and values.ndim == 2 and values.shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(target, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(target, np.ascontiguousarray(values))


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order of the rows of q and k: the two halves of each head interleaved."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    swapped: np.ndarray = halves.swapaxes(1, 2).reshape(weights.shape)
    return swapped


def gguf_name(name: str) -> str:
    """llama.cpp's name for transformers' one."""
    module, kind = name.rsplit(".", 1)
    if module.startswith("model.layers."):
        _, _, layer, part = module.split(".", 3)
        return f"blk.{layer}.{TENSORS[part]}.{kind}"
    return f"{TENSORS[module]}.{kind}"
