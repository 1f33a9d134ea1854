"""The capacity sheet: every number of the seeds by its formula (SPEC C12, C11, A5, A4), other models, bad input."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.capacity import command
from engine.capacity.fixed import fixed_sheet
from engine.capacity.inputs import FIXED_BATCHES, HARDWARE, MODELS, TRAFFIC, CapacityError, keys, with_keys
from engine.capacity.serving import serving_sheet
from engine.capacity.sheet import Figure, number, rounded
from recorder.errors import UserError

LLAMA_70B = {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN_05B = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "vocab_size": 151936,
}


def example(**traffic: str) -> dict[str, Figure]:
    """All figures of the seed's worked example, by key, with other traffic where given."""
    peak = with_keys(TRAFFIC["peak"], [f"{key}={value}" for key, value in traffic.items()], "--traffic")
    sections = serving_sheet(MODELS["70b"], HARDWARE["8xh100"], peak)
    return {figure.key: figure for section in sections for figure in section.figures}


def fixed(name: str) -> dict[str, Figure]:
    return {figure.key: figure for figure in fixed_sheet(name, FIXED_BATCHES[name]).figures}


SEED = {
    "kv_bytes_per_token": "327,680",  # 2.1
    "weights": "140",  # 2.2
    "kv_room": "400",
    "kv_tokens": "1,220,000",
    "sequences": "610",
    "bandwidth": "26.8",  # 2.3
    "step_batch_1": "5.2",
    "tokens_s_batch_1": "190",
    "kv_read": "168",
    "kv_read_time": "6.3",
    "step_full_batch": "11.5",
    "tokens_s_per_user": "87",
    "tokens_s_full_batch": "22,000",
    "output_tokens_s": "150,000",  # 2.4
    "decode_replicas": "17",
    "decode_gpus": "136",
    "prompt_tokens_s": "750,000",
    "prefill_operations": "1.05e17",
    "prefill_gpus": "212",
    "gpus_without_spare": "350",
    "replicas": "57",
    "gpus": "456",
    "kv_moved": "16",  # 6.1
}


@pytest.mark.parametrize(("key", "shown"), SEED.items())
def test_c12_the_seeds_figures(key: str, shown: str) -> None:
    assert example()[key].shown == shown


def test_c12_figures_are_exact_before_they_are_rounded() -> None:
    figures = example()
    assert figures["step_batch_1"].value == Fraction(140 * 1000, 26800)
    assert figures["kv_read"].value == Fraction(256 * 2000 * 327680, 10**9)
    assert figures["prefill_gpus"].value == Fraction(2 * 70 * 10**9 * 750_000 * 2, 989 * 10**12)


def test_c12_figures_that_the_seed_gives_roughly() -> None:
    """About 650 MB; 65 GB; 1.2e15 operations in about 0.3 s against about 10 ms; twice the latency."""
    figures = example()
    assert figures["kv_per_sequence"].value == Fraction("655.36")
    assert figures["long_sequence_kv"].value == Fraction("65.536")
    assert "1.218e15" in figures["prefill_of_the_cached_part"].formula
    assert figures["prefill_of_the_cached_part"].shown == "310"
    assert figures["prefill_of_the_new_part"].shown == "11"
    assert figures["batching_price"].shown == "2.2"


def test_c12_the_gain_of_batching() -> None:
    """The seed's 117 comes from its rounded 87 and 190; unrounded it is 116.4."""
    figures = example()
    assert (
        round(256 * rounded(figures["tokens_s_per_user"].value, 2) / rounded(figures["tokens_s_batch_1"].value, 2))
        == 117
    )
    assert float(figures["batching_gain"].value) == pytest.approx(116.45, abs=0.01)


def test_c12_ten_times_the_traffic() -> None:
    """Seed 7.5: about 3,500 GPUs before any spare, about 60 % of them for prefill."""
    figures = example(rate="5000")
    assert figures["gpus_without_spare"].shown == "3,500"
    assert figures["prefill_share"].shown == "61"
    assert figures["prefill_gpus"].shown == "2,123"


def test_c12_cost_falls_as_tokens_per_second_rise() -> None:
    figures = example()
    assert figures["cost_measured"].value == Fraction(8 * 10**6, 9000 * 3600)
    ratio = figures["cost_batch_1"].value / figures["cost_full_batch"].value
    assert ratio == figures["batching_gain"].value


def test_a5_workers_for_a_thousand_requests_per_second() -> None:
    figures = fixed("worker-pool")
    assert figures["batches_s"].value == 10
    assert figures["requests_s_per_worker"].value == 320
    assert figures["workers"].value == 4
    assert "960/s): falls behind" in figures["load_of_3_workers"].formula
    assert (figures["load_of_4_workers"].shown, figures["load_of_5_workers"].shown) == ("78.1", "62.5")
    assert "1,280/s" in figures["load_of_4_workers"].formula
    assert "1,600/s" in figures["load_of_5_workers"].formula
    assert figures["requests_s_half_full"].value == 160
    assert figures["waiting_budget"].value == 60, "SPEC A4"


def test_c11_the_floor_of_the_fixed_call() -> None:
    figures = fixed("fixed-call")
    assert figures["requests_s_per_worker"].value == 250
    assert [figures["workers"].shown, figures["workers_half_full"].shown] == ["8", "16"]
    assert figures["batch_timer"].value == 150
    assert figures["batch_fills_in"].value == 25
    assert figures["timer_rules_below"].value > 20, "at 20 requests/s the timer rules"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (327680, "327,680"),
        (Fraction(7, 2), "3.5"),
        (Fraction(22294, 1) + Fraction(2, 5), "22,294.4"),
        (7 * 10**10, "7e10"),
    ],
)
def test_numbers_as_people_read_them(value: Fraction, text: str) -> None:
    assert number(value) == text


@given(rate=st.integers(1, 10**6), prompt=st.integers(1, 10**5), output=st.integers(1, 10**4))
def test_the_planned_fleet_carries_the_peak(rate: int, prompt: int, output: int) -> None:
    figures = example(rate=str(rate), prompt_tokens=str(prompt), output_tokens=str(output))
    assert figures["decode_replicas"].value * 9000 >= rate * output
    need = (figures["decode_gpus"].value + figures["prefill_gpus"].value) * Fraction(13, 10)
    assert need <= figures["gpus"].value < need + 8


Sheet = Callable[..., str]


@pytest.fixture
def sheet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sheet:
    """Runs the command on its arguments and returns what it printed on a terminal of `columns`."""

    def call(*argv: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        parser = argparse.ArgumentParser()
        command.configure(parser)
        assert command.run(parser.parse_args(argv)) == 0
        return capsys.readouterr().out

    return call


def _config(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "config.json"
    content = {name: value for name, value in (LLAMA_70B | changes).items() if value is not None}
    path.write_text(json.dumps(content))
    return str(path)


def test_each_line_has_its_formula_and_fits_the_terminal(sheet: Sheet) -> None:
    lines = sheet(columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    wide = sheet(columns=200)
    assert "2 x layers x KV heads x head size x bytes = 2 x 80 x 8 x 128 x 2\n" in wide
    assert "212 GPUs" in wide
    titles = [line for line in wide.splitlines() if line and not line.startswith(" ")]
    figures = [line for line in wide.splitlines() if line.startswith("  ")]
    assert len(titles) == 7
    assert all(len(line.split("  ")) > 3 for line in figures), "name, value, formula"


def test_json_holds_inputs_and_figures(sheet: Sheet) -> None:
    document = json.loads(sheet("--json"))
    assert document["inputs"]["hardware"]["bandwidth_tb_s"] == 3.35
    assert document["kv_cache"]["sequences"] == {
        "value": 610,
        "unit": "sequences",
        "shown": "610",
        "formula": "1,220,703.1 tokens / 2,000 tokens, rounded down",
    }
    assert document["fleet"]["gpus"]["value"] == 456
    assert document["fixed-call"]["workers"]["value"] == 8
    assert document["worker-pool"]["workers"]["value"] == 4


def test_keys_override_presets(sheet: Sheet) -> None:
    document = json.loads(
        sheet(
            "--json", "--model-config", "70B", "kv_bytes=1", "--hardware", "price_gpu_h=2.5", "--traffic", "rate=1000",
            "--fixed-batch", "rate=20", "batch=50",
        )
    )  # fmt: skip
    assert document["kv_cache"]["kv_bytes_per_token"]["value"] == 163_840
    assert document["cost"]["cost_measured"]["value"] == pytest.approx(2.5 * 8e6 / (9000 * 3600))
    assert document["fleet"]["decode_replicas"]["value"] == 34
    assert document["fixed-call"]["workers"]["value"] == 1
    assert "worker-pool" not in document


def test_a_published_config_is_counted_from_its_shapes(sheet: Sheet, tmp_path: Path) -> None:
    document = json.loads(sheet("--json", "--model-config", _config(tmp_path)))
    assert document["inputs"]["model"]["parameters"] == pytest.approx(70.55e9, rel=0.001)
    assert document["kv_cache"]["kv_bytes_per_token"]["value"] == 327_680
    nested = tmp_path / "vision.json"
    nested.write_text(json.dumps({"text_config": QWEN_05B}))
    small = json.loads(sheet("--json", "--model-config", str(nested)))
    assert small["inputs"]["model"]["parameters"] == pytest.approx(494e6, rel=0.001)
    assert small["inputs"]["model"]["head_size"] == 64


def test_keys_beside_a_config_win_over_it(sheet: Sheet, tmp_path: Path) -> None:
    path = _config(tmp_path, num_local_experts=8, dtype="int4")
    document = json.loads(sheet("--json", "--model-config", path, "parameters=47e9", "kv_bytes=2", "weight_bytes=0.5"))
    assert document["kv_cache"]["weights"]["value"] == 23.5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_hidden_layers": None}, "lacks num_hidden_layers"),
        ({"num_hidden_layers": "80"}, "num_hidden_layers is '80', not a whole number"),
        ({"num_hidden_layers": 0}, "layers: must be above 0"),
        ({"torch_dtype": "int3"}, "dtype 'int3' is none of"),
        ({"num_local_experts": 8}, "experts; give parameters="),
        ({"hidden_size": 8190}, "head_size: must be a whole number"),
    ],
)
def test_configs_that_do_not_do(sheet: Sheet, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(CapacityError, match=says):
        sheet("--model-config", _config(tmp_path, **changes))


@pytest.mark.parametrize(
    ("content", "says"), [("[1]", "no JSON object"), ("{", "is not JSON"), ("\udcff", "is not JSON")]
)
def test_files_that_are_no_config(sheet: Sheet, tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CapacityError, match=says):
        sheet("--model-config", str(path))


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--model-config", "gpt9"], "'gpt9' is neither a preset"),
        (["--hardware", "abacus"], "no preset 'abacus'; there are 8xh100"),
        (["--hardware", "gpus"], "no preset 'gpus'"),
        (["--hardware", "8xh100", "gpus"], "'gpus' is no key=value"),
        (["--hardware", "gpu=4"], "no key 'gpu'; there are gpus, memory_gb"),
        (["--hardware", "gpus=many"], "gpus: 'many' is not a decimal number"),
        (["--hardware", "gpus=1e31"], "out of reach"),
        (["--hardware", "gpus=2.5"], "must be a whole number"),
        (["--hardware", "gpus=0"], "must be above 0"),
        (["--hardware", "prefill_utilisation=1.5"], "must be at most 1"),
        (["--hardware", "working_gb=-1"], "must be 0 or more"),
        (["--hardware", "gpus=2"], "the model does not fit: 140 GB of weights"),
        (["--traffic", "batch=611"], "batch=611 .* do not fit in the KV cache: 610 do"),
        (["--hardware", "decode_tokens_s=31000"], "more than this replica can do"),
        (["--fixed-batch", "exec_ms=500"], "budget_ms=500 can't be met"),
    ],
)
def test_bad_input_says_what_and_where(sheet: Sheet, argv: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        sheet(*argv)


def test_every_key_explains_itself() -> None:
    for presets in (MODELS, HARDWARE, TRAFFIC, FIXED_BATCHES):
        for preset in presets.values():
            assert all(key.doc for key in keys(type(preset)).values())


def test_the_command_loads_neither_torch_nor_http() -> None:
    code = (
        "import sys, engine.capacity.command;"
        "print(sorted({'torch', 'aiohttp', 'numpy', 'textual', 'pyarrow'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
