"""Checkpoints: GGUF as llama.cpp writes it, safetensors whole and in shards, random; and what is wrong with them."""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calls import split_by_width
from engine.model.errors import ModelError
from engine.model.gguf_file import read_gguf_header
from engine.model.loader import load_model
from engine.model.source import open_model
from engine.model.spec import PRESETS, spec_from_gguf, spec_from_hf
from engine.model.weights import DummyWeights
from tests.engine.gguf_files import ARCHITECTURES, write_gguf
from tests.engine.test_model_logits import Bench
from tests.engine.tiny_models import CONFIGS, folder, oracle, true_logits


def logits_of(path: Path, length: int = 40) -> tuple[list[int], torch.Tensor]:
    bench = Bench(load_model(str(path), device="cpu", dtype="fp32", threads=1).decoder)
    sequence = bench.sequence(length)
    bench.step((sequence, length))
    return sequence.tokens, torch.cat(sequence.logits)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_gguf_gives_the_logits_of_the_model_it_was_made_from(family: str, tmp_path: Path) -> None:
    tokens, found = logits_of(write_gguf(tmp_path / "tiny.gguf", family))
    torch.testing.assert_close(found, true_logits(family, tokens), atol=1e-4, rtol=1e-4)


def test_a_quantised_gguf_is_near(tmp_path: Path) -> None:
    """Tolerance: 5 % of the logits' spread (Q8_0 rounds each weight to 1/127 of its block's largest)."""
    tokens, found = logits_of(write_gguf(tmp_path / "tiny.gguf", "llama", quantise=True))
    wanted = true_logits("llama", tokens)
    assert 0 < (found - wanted).pow(2).mean().sqrt() < 0.05 * wanted.std()


def test_a_gguf_carries_llama3_scaling_as_factors(tmp_path: Path) -> None:
    """llama.cpp's converter writes the divisors of the frequencies as a tensor."""
    path = tmp_path / "long.gguf"
    write_gguf(path, "llama-long")
    inverse = oracle("llama-long").model.rotary_emb.inv_freq.numpy()
    plain = 1.0 / 10_000.0 ** (np.arange(0, 8, 2, dtype=np.float32) / 8)
    _append_tensor(path, "llama-long", plain / inverse)
    tokens, found = logits_of(path, 100)
    torch.testing.assert_close(found, true_logits("llama-long", tokens), atol=1e-4, rtol=1e-4)


def _append_tensor(path: Path, name: str, factors: np.ndarray) -> None:
    original = gguf.GGUFWriter.write_header_to_file

    def with_factors(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
        original(writer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf.GGUFWriter, "write_header_to_file", with_factors)
        write_gguf(path, name)


def test_our_header_reader_agrees_with_the_package(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "qwen2", quantise=True)
    ours, theirs = read_gguf_header(path), gguf.GGUFReader(path)
    wanted = {key: value.contents() for key, value in theirs.fields.items() if not key.startswith("GGUF.")}
    assert dict(ours.metadata) == wanted
    places = {tensor.name: tensor.data_offset for tensor in theirs.tensors}
    assert {name: info.offset for name, info in ours.tensors.items()} == places


@pytest.mark.parametrize("value", [[1, 2, 3], ["a", "", "ü"], [True, False], [0.5, -1.0], "text", 7, -7, True, 0.25])
def test_metadata_of_every_kind(value: object, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "kinds.gguf", "llama")
    add = {list: writer.add_array, str: writer.add_string, bool: writer.add_bool, float: writer.add_float32}
    add.get(type(value), writer.add_int32)("test.key", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf_header(tmp_path / "kinds.gguf").metadata["test.key"] == value


def test_every_family_has_a_gguf_or_says_so() -> None:
    assert set(ARCHITECTURES) == {name.split("-")[0] for name in CONFIGS}


def test_sharded_safetensors(tmp_path: Path) -> None:
    oracle("llama").save_pretrained(tmp_path, max_shard_size="8KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    tokens, found = logits_of(tmp_path)
    torch.testing.assert_close(found, true_logits("llama", tokens), atol=1e-4, rtol=1e-4)


def test_random_weights_depend_on_the_seed_only() -> None:
    first, again, other = (
        DummyWeights(PRESETS["tiny"], torch.float32, torch.device("cpu"), seed) for seed in (1, 1, 2)
    )
    name = "model.layers.1.mlp.up_proj.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])


def test_parameters_are_counted() -> None:
    for name in CONFIGS:
        assert open_model(str(folder(name))).spec.parameters == oracle(name).num_parameters()
    assert PRESETS["smollm2-135m"].parameters == 134_515_008


def test_bytes_of_cache_per_token() -> None:
    """SPEC C12: 2 x layers x kv heads x head size x bytes; 327,680 for its 70B example."""
    config = {
        **CONFIGS["llama"].to_dict(),
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    assert spec_from_hf(config, "70b").kv_bytes_per_token(2) == 327_680


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model at .*nothing\.gguf.*smollm2-135m"):
        load_model(str(tmp_path / "nothing.gguf"))


def test_another_architecture_is_named_with_the_supported_ones(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama", arch="gemma2")
    with pytest.raises(ModelError, match=r"gemma2 is not supported; supported in GGUF are llama, qwen2, qwen3"):
        load_model(str(path))
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(ModelError, match=r"GPT2LMHeadModel is not supported; supported are LlamaForCausalLM, Mistral"):
        load_model(str(tmp_path))


def test_missing_tensors_are_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", "llama", leave_out="blk.1.ffn_up.weight")
    with pytest.raises(ModelError, match=r"lacks blk\.1\.ffn_up\.weight"):
        load_model(str(path))


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    oracle("llama").save_pretrained(tmp_path, max_shard_size="8KB")
    sorted(tmp_path.glob("*.safetensors"))[1].unlink()
    with pytest.raises(ModelError, match=r"safetensors is missing, though the index names it"):
        load_model(str(tmp_path))


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    shutil.copytree(folder("llama"), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 64}))
    with pytest.raises(
        ModelError, match=r"gate_proj\.weight has shape \[48, 32\], but the configuration says \[64, 32\]"
    ):
        load_model(str(tmp_path))


@given(share=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_a_gguf_cut_anywhere_is_damaged(share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write_gguf(tmp_path_factory.mktemp("cut") / "tiny.gguf", "qwen3")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * (len(whole) - 1))])
    with pytest.raises(ModelError, match=r"tiny\.gguf|tiny: "):
        load_model(str(path))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_damaged_files_of_a_folder_are_named(name: str, tmp_path: Path) -> None:
    shutil.copytree(folder("llama"), tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes(b"{ rubbish")
    with pytest.raises(ModelError, match=rf"{name}.*fetch it again"):
        load_model(str(tmp_path))


def test_incomplete_configurations_name_the_key() -> None:
    with pytest.raises(ModelError, match="no 'hidden_size'"):
        spec_from_hf({"architectures": ["LlamaForCausalLM"], "num_attention_heads": 1}, "half")
    with pytest.raises(ModelError, match=r"no 'llama\.attention\.head_count'"):
        spec_from_gguf({"general.architecture": "llama"}, frozenset(), "half")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope type yarn"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised safetensors"),
    ],
)
def test_what_would_give_wrong_answers_is_refused(change: dict[str, object], message: str) -> None:
    config = {**CONFIGS["llama"].to_dict(), "architectures": ["LlamaForCausalLM"], "rope_parameters": None, **change}
    with pytest.raises(ModelError, match=message):
        spec_from_hf(config, "odd")


def test_dummy_takes_the_shape_of_a_folder(tmp_path: Path) -> None:
    shutil.copy(folder("qwen3") / "config.json", tmp_path)
    loaded = load_model(str(tmp_path), "dummy", device="cpu", threads=1)
    assert loaded.spec.qk_norm
    assert loaded.info["weights"] == "random"


def test_unknown_options_name_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"'tpu' is unknown; it is one of auto, cpu, cuda"):
        load_model("tiny", "dummy", device="tpu")
    with pytest.raises(ModelError, match=r"'int4' is unknown; it is one of auto, bf16, fp32"):
        load_model("tiny", "dummy", dtype="int4")
    with pytest.raises(ModelError, match=r"'pickle' is unknown; it is one of auto, dummy"):
        load_model("tiny", "pickle")


def test_the_cache_is_sized_by_memory_or_by_count() -> None:
    spec = PRESETS["tiny"]
    by_memory = load_model("tiny", "dummy", device="cpu", dtype="fp32", memory_mb=1, threads=1)
    assert by_memory.num_blocks == 2**20 // (16 * spec.kv_bytes_per_token(4))
    by_count = load_model("tiny", "dummy", device="cpu", dtype="fp32", num_blocks=5, block_size=8, threads=1)
    assert (by_count.num_blocks, by_count.max_model_len) == (5, 40)
    with pytest.raises(ModelError, match=r"1048576 bytes of memory hold no KV block of \d+ bytes; raise kv\.memory_mb"):
        load_model("tiny", "dummy", device="cpu", dtype="fp32", memory_mb=1, block_size=10_000, threads=1)


@given(widths=st.lists(st.integers(1, 200), max_size=40).map(sorted), wasted=st.integers(0, 20))
def test_decode_groups_waste_little(widths: list[int], wasted: int) -> None:
    runs = split_by_width(widths, wasted)
    assert [row for run in runs for row in run] == list(range(len(widths)))
    for run in runs:
        assert sum(widths[run.stop - 1] - widths[row] for row in run) <= wasted


def test_windows_of_mistral_and_qwen() -> None:
    assert open_model(str(folder("mistral-windowed"))).spec.windows == (9, 9, 9)
    assert open_model(str(folder("qwen2-windowed"))).spec.windows == (None, 9, 9)
    assert open_model(str(folder("mistral"))).spec.windows == (None, None, None)
