"""The shape of a decoder, read from a GGUF's metadata or a Hugging Face config.json. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.model.errors import ModelError

HF_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched for long contexts: `linear`, or Llama 3's by wave length."""

    kind: str
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One decoder of the Llama, Mistral, Qwen2 or Qwen3 family. Sizes count elements.

    `layer_windows` holds each layer's sliding window in tokens; None sees everything.
    """

    name: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_position: int
    rope_theta: float
    norm_eps: float
    tie_embeddings: bool
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    layer_windows: tuple[int | None, ...] = ()

    @property
    def windows(self) -> tuple[int | None, ...]:
        """One window for each layer."""
        return self.layer_windows or (None,) * self.layers

    @property
    def parameters(self) -> int:
        """How many weights there are; tied ones count once."""
        return sum(_product(shape) for shape in self.tensor_shapes().values())

    def kv_bytes_per_token(self, element_size: int) -> int:
        """Bytes of KV cache one token takes over all layers (SPEC C12)."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element_size

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor a checkpoint must hold, by its canonical (Hugging Face) name."""
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab, self.hidden),
            "model.norm.weight": (self.hidden,),
        }
        if not self.tie_embeddings:
            shapes["lm_head.weight"] = (self.vocab, self.hidden)
        for layer in range(self.layers):
            shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in self._layer_shapes().items()}
        return shapes

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (self.hidden,),
            "self_attn.q_proj.weight": (q, self.hidden),
            "self_attn.k_proj.weight": (kv, self.hidden),
            "self_attn.v_proj.weight": (kv, self.hidden),
            "self_attn.o_proj.weight": (self.hidden, q),
            "post_attention_layernorm.weight": (self.hidden,),
            "mlp.gate_proj.weight": (self.intermediate, self.hidden),
            "mlp.up_proj.weight": (self.intermediate, self.hidden),
            "mlp.down_proj.weight": (self.hidden, self.intermediate),
        }
        if self.qkv_bias:
            shapes |= {"self_attn.q_proj.bias": (q,), "self_attn.k_proj.bias": (kv,), "self_attn.v_proj.bias": (kv,)}
        if self.out_bias:
            shapes["self_attn.o_proj.bias"] = (self.hidden,)
        if self.qk_norm:
            shapes |= {f"self_attn.{part}_norm.weight": (self.head_dim,) for part in "qk"}
        return shapes


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def spec_from_hf(config: Mapping[str, Any], name: str) -> ModelSpec:
    """Read a config.json. Raises `ModelError` for another architecture, a missing key or an unknown rope type."""
    family = _hf_family(config, name)
    try:
        return _spec_from_hf(config, name, family)
    except KeyError as missing:
        raise ModelError(f"{name}: config.json has no {missing}; the file is incomplete") from None


def _hf_family(config: Mapping[str, Any], name: str) -> str:
    architectures = config.get("architectures") or [f"model_type {config.get('model_type')}"]
    family = HF_ARCHITECTURES.get(architectures[0])
    if family is None:
        raise ModelError(
            f"{name}: architecture {architectures[0]} is not supported; supported are {', '.join(HF_ARCHITECTURES)}"
        )
    _refuse_what_would_answer_wrongly(config, name)
    return family


def _refuse_what_would_answer_wrongly(config: Mapping[str, Any], name: str) -> None:
    if config.get("quantization_config"):
        raise ModelError(f"{name}: quantised safetensors are not supported; use the original weights, or a GGUF")
    if config.get("mlp_bias"):
        raise ModelError(f"{name}: mlp_bias is not supported; use a model without biases in its MLP")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{name}: activation {config['hidden_act']} is not supported; only silu is")
    if _hf_rope(config).get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ModelError(f"{name}: rotating part of a head (partial_rotary_factor) is not supported")


def _spec_from_hf(config: Mapping[str, Any], name: str, family: str) -> ModelSpec:
    heads = config["num_attention_heads"]
    rope = _hf_rope(config)
    attention_bias = bool(config.get("attention_bias", False)) and family in {"llama", "qwen3"}
    return ModelSpec(
        name=name,
        family=family,
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        intermediate=config["intermediate_size"],
        vocab=config["vocab_size"],
        max_position=config["max_position_embeddings"],
        rope_theta=float(rope.get("rope_theta", 10_000.0)),
        rope_scaling=_hf_rope_scaling(rope, name),
        norm_eps=config.get("rms_norm_eps", 1e-6),
        tie_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or attention_bias,
        out_bias=attention_bias,
        qk_norm=family == "qwen3",
        layer_windows=_hf_windows(config, family),
    )


def _hf_rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """One view of the two spellings: `rope_parameters`, and `rope_theta` beside `rope_scaling` before it."""
    rope = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    if "rope_theta" in config:
        rope.setdefault("rope_theta", config["rope_theta"])
    return rope


def _hf_rope_scaling(rope: Mapping[str, Any], name: str) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", float(rope["factor"]))
    if kind == "llama3":
        return RopeScaling(
            "llama3",
            float(rope["factor"]),
            float(rope["low_freq_factor"]),
            float(rope["high_freq_factor"]),
            int(rope["original_max_position_embeddings"]),
        )
    raise ModelError(f"{name}: rope type {kind} is not supported; supported are default, linear, llama3")


def _hf_windows(config: Mapping[str, Any], family: str) -> tuple[int | None, ...]:
    window = config.get("sliding_window")
    if window is None or family == "llama" or (family != "mistral" and not config.get("use_sliding_window")):
        return ()
    layers = config["num_hidden_layers"]
    if family == "mistral":
        return (int(window),) * int(layers)
    types = config.get("layer_types") or [
        "sliding_attention" if layer >= config.get("max_window_layers", layers) else "full_attention"
        for layer in range(layers)
    ]
    return tuple(int(window) if kind == "sliding_attention" else None for kind in types)


def spec_from_gguf(metadata: Mapping[str, Any], tensors: frozenset[str], name: str) -> ModelSpec:
    """Read a GGUF's metadata; `tensors` are the names it holds, which tell of biases and tied embeddings.

    Raises `ModelError` for another architecture, a missing key or an unknown rope type.
    """
    arch = metadata.get("general.architecture")
    if arch not in GGUF_ARCHITECTURES:
        supported = ", ".join(GGUF_ARCHITECTURES)
        raise ModelError(f"{name}: architecture {arch} is not supported; supported in GGUF are {supported}")
    try:
        return _spec_from_gguf(metadata, tensors, name, arch)
    except KeyError as missing:
        raise ModelError(f"{name}: its metadata has no {missing}; the file is incomplete") from None


def _spec_from_gguf(metadata: Mapping[str, Any], tensors: frozenset[str], name: str, arch: str) -> ModelSpec:
    def get(key: str, default: Any = None) -> Any:  # noqa: ANN401 - metadata values are of any type
        return metadata[f"{arch}.{key}"] if default is None else metadata.get(f"{arch}.{key}", default)

    heads, hidden = get("attention.head_count"), get("embedding_length")
    head_dim = get("attention.key_length", hidden // heads)
    if get("rope.dimension_count", head_dim) != head_dim:
        raise ModelError(f"{name}: rotating part of a head ({arch}.rope.dimension_count) is not supported")
    return ModelSpec(
        name=name,
        family=arch,
        hidden=hidden,
        layers=get("block_count"),
        heads=heads,
        kv_heads=get("attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate=get("feed_forward_length"),
        vocab=get("vocab_size", len(metadata.get("tokenizer.ggml.tokens", ()))),
        max_position=get("context_length"),
        rope_theta=get("rope.freq_base", 10_000.0),
        rope_scaling=_gguf_rope_scaling(get("rope.scaling.type", "none"), get("rope.scaling.factor", 1.0), name),
        norm_eps=get("attention.layer_norm_rms_epsilon"),
        tie_embeddings="output.weight" not in tensors,
        qkv_bias="blk.0.attn_q.bias" in tensors,
        out_bias="blk.0.attn_output.bias" in tensors,
        qk_norm="blk.0.attn_q_norm.weight" in tensors,
    )


def _gguf_rope_scaling(kind: str, factor: float, name: str) -> RopeScaling | None:
    """Llama 3's scaling needs no mention here: a GGUF carries its factors as the tensor `rope_freqs.weight`."""
    if kind == "none":
        return None
    if kind == "linear":
        return RopeScaling("linear", factor)
    raise ModelError(f"{name}: rope scaling {kind} is not supported; supported are none, linear")


PRESETS: dict[str, ModelSpec] = {
    "smollm2-135m": ModelSpec(
        name="smollm2-135m",
        family="llama",
        hidden=576,
        layers=30,
        heads=9,
        kv_heads=3,
        head_dim=64,
        intermediate=1536,
        vocab=49_152,
        max_position=8192,
        rope_theta=100_000.0,
        norm_eps=1e-5,
        tie_embeddings=True,
    ),
    "tiny": ModelSpec(
        name="tiny",
        family="llama",
        hidden=64,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=128,
        vocab=512,
        max_position=2048,
        rope_theta=10_000.0,
        norm_eps=1e-5,
        tie_embeddings=True,
    ),
}
"""Shapes for random weights (`--load-format dummy`)."""
