"""Configuration files: defaults, every way of being wrong, and the way back to TOML."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Config, ConfigError, from_dict, keys, load_config, sections, to_dict, to_toml


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "engine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_means_the_defaults() -> None:
    assert load_config(None) == Config()


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, '[scheduler]\npolicy = "static"\nmax_queue_delay_ms = 12\n[kv]\nblock_size = 8\n')
    )
    assert config.scheduler.policy == "static"
    assert config.scheduler.max_queue_delay_ns == 12_000_000
    assert config.kv.block_size == 8
    assert config.scheduler.max_num_seqs == Config().scheduler.max_num_seqs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[schduler]\n", ["[schduler]", "did you mean scheduler?"]),
        ("[nonsense]\n", ["[nonsense]", "known sections: scheduler, kv, record, server, engine, router, cost, faults"]),
        ("[scheduler]\nmax_num_seq = 4\n", ["[scheduler]", "max_num_seq", "did you mean max_num_seqs?"]),
        ("[kv]\nzzz = 4\n", ["[kv]", "zzz", "known keys: block_size, num_blocks, memory_mb, token_bytes"]),
        ('[scheduler]\npolicy = "orca"\n', ['policy = "orca"', '"immediate" or "static" or "continuous"']),
        ("[scheduler]\nmax_num_seqs = true\n", ["max_num_seqs = true", "a whole number from 1 to 4096 (requests)"]),
        ("[scheduler]\nmax_num_seqs = 4.5\n", ["max_num_seqs = 4.5", "a whole number"]),
        ("[scheduler]\nmax_num_seqs = 0\n", ["max_num_seqs = 0", "from 1 to 4096"]),
        ("[scheduler]\nmax_queue_delay_ms = nan\n", ["max_queue_delay_ms = nan", "a number from 0"]),
        ("[scheduler]\nmax_queue_delay_ms = [1]\n", ["max_queue_delay_ms = a list", "a number from 0"]),
        ('[scheduler]\nenable_chunked_prefill = "no"\n', ['enable_chunked_prefill = "no"', "true or false"]),
        ("kv = 3\n", ["kv must be a section", "[kv]"]),
        ("[scheduler]\ntiers = 3\n", ["tiers = 3", "a list, each a text"]),
        ("[scheduler]\npreferred_batch_size = [0]\n", ["a list, each a whole number from 1 to 4096"]),
        ("[scheduler]\ndefault_priority_level = 9\n", ["default_priority_level = 9", "priority_levels = 3"]),
        ('[scheduler]\ntiers = ["a", "b", "c", "d"]\n', ["names 4 classes", "priority_levels = 3"]),
        ("[scheduler]\nmax_batch_size = 17\n", ["max_batch_size = 17", "max_num_seqs = 16"]),
        ("[scheduler]\nmax_num_batched_tokens = 15\n", ["max_num_batched_tokens = 15", "max_num_seqs = 16"]),
        ('[record]\nkeep = "tail"\nkeep_slowest = 0\n', ['keep = "tail"', "slo_ms = 0", "only what failed"]),
        ("[kv]\nnum_blocks = 10\nmemory_mb = 10\n", ["num_blocks = 10", "memory_mb = 10", "keep one"]),
        ("[scheduler]\ntpot_slo_ms = 9\nenable_chunked_prefill = false\n", ["tpot_slo_ms = 9", "drop one"]),
        ("[scheduler\n", ["not valid TOML", "line 1"]),
        ("[kv]\nblock_size = 8\nblock_size = 9\n", ["not valid TOML", "line 3"]),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    for word in [str(path), *words]:
        assert word in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError, match=r"missing\.toml: can't read the configuration: No such file"):
        load_config(missing)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_config(tmp_path / "latin.toml")


def test_a_static_batch_is_max_num_seqs_unless_told_otherwise() -> None:
    assert from_dict({"scheduler": {"max_num_seqs": 5}}, "test").scheduler.batch_size == 5
    assert from_dict({"scheduler": {"max_num_seqs": 5, "max_batch_size": 3}}, "test").scheduler.batch_size == 3


def test_every_key_is_documented_and_its_default_is_allowed() -> None:
    for section, _ in sections():
        for key in keys(section).values():
            assert key.doc.endswith("."), key.name
            assert from_dict({section: {key.name: key.default}}, "test") == Config(), key.name


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "policy": st.sampled_from(["immediate", "static", "continuous"]),
            "max_num_seqs": st.integers(1, 200),
            "max_num_batched_tokens": st.integers(200, 5000),
            "enable_chunked_prefill": st.booleans(),
            "max_queue_delay_ms": st.floats(0, 3_600_000),
            "tiers": st.lists(st.text(min_size=1), max_size=3),
            "preferred_batch_size": st.lists(st.integers(1, 9)),
        },
    ),
    st.floats(0, 0.5),
)
def test_what_is_printed_is_what_was_read(
    tmp_path_factory: pytest.TempPathFactory, scheduler: dict[str, object], watermark: float
) -> None:
    config = from_dict({"scheduler": scheduler, "kv": {"watermark": watermark}}, "test")
    path = write(tmp_path_factory.mktemp("config"), to_toml(config))
    assert load_config(path) == config
    assert from_dict(to_dict(config), "run.json") == config
