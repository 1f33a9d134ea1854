"""`tailtrace config`: the reference, the defaults, and the validation of a file."""

import argparse
import json
import tomllib
from pathlib import Path

import pytest

from engine.config import Config, ConfigError, keys, sections, to_dict
from engine.config_command import configure, reference, run


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    configure(parser)
    return run(parser.parse_args(arguments))


def test_the_reference_names_every_key_with_default_unit_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--explain") == 0
    lines = capsys.readouterr().out.splitlines()
    starts = {line.split()[0]: line for line in lines if line.startswith("  ") and line[2] != " "}
    for section, _ in sections():
        assert any(line.startswith(f"[{section}]") for line in lines)
        for key in keys(section).values():
            assert key.unit in starts[key.name]
            assert key.doc.split()[0] in starts[key.name]


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_reference_keeps_its_columns_at_any_width(width: int) -> None:
    lines = [line for line in reference(width) if line.startswith("  ")]
    texts = [line for line in lines if line[2] != " "]
    column = texts[0].index("When waiting")
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)
    assert max(map(len, lines)) <= max(width, column + 30)


def test_without_options_the_defaults_are_printed_as_toml(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert tomllib.loads(capsys.readouterr().out) == to_dict(Config())


def test_a_file_is_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engine.toml"
    path.write_text("[scheduler]\nmax_num_seqs = 3\n")
    assert call("--file", str(path), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["scheduler"]["max_num_seqs"] == 3
    assert printed["kv"] == to_dict(Config())["kv"]


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    path.write_text("[scheduler]\nmax_num_sequences = 3\n")
    with pytest.raises(ConfigError, match="max_num_sequences; did you mean max_num_seqs"):
        call("--file", str(path))
