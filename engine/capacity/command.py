"""`tailtrace capacity`: how many GPUs a traffic needs, and what it costs, each line with its formula (SPEC C12)."""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.capacity.fixed import fixed_sheet
from engine.capacity.inputs import (
    FIXED_BATCHES,
    HARDWARE,
    MODELS,
    TRAFFIC,
    CapacityError,
    FixedBatch,
    Hardware,
    Inputs,
    Model,
    Traffic,
    keys,
    with_keys,
)
from engine.capacity.model_config import read_model
from engine.capacity.serving import serving_sheet
from engine.capacity.sheet import Section, render

_OPTIONS = (
    ("--model-config", Model, f"a model's config.json, or a preset ({', '.join(MODELS)})"),
    ("--hardware", Hardware, f"a preset ({', '.join(HARDWARE)})"),
    ("--traffic", Traffic, f"a preset ({', '.join(TRAFFIC)})"),
    ("--fixed-batch", FixedBatch, f"calls of fixed time: a preset ({', '.join(FIXED_BATCHES)}; default both)"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for option, _, what in _OPTIONS:
        parser.add_argument(
            option, nargs="+", default=[], metavar="ITEM", help=f"{what}, then key=value to override it, or keys alone"
        )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = "\n".join(line for option, inputs, _ in _OPTIONS for line in _reference(option, inputs))


def _reference(option: str, inputs: type) -> list[str]:
    return [f"keys of {option}:", *(f"  {name:<21}{key.doc}" for name, key in keys(inputs).items())]


def run(args: argparse.Namespace) -> int:
    """Print the sheet; CapacityError or NumberError for inputs that make none."""
    model = _model(args.model_config)
    hardware = _chosen(args.hardware, HARDWARE, "8xh100", "--hardware")
    traffic = _chosen(args.traffic, TRAFFIC, "peak", "--traffic")
    calls = _calls(args.fixed_batch)
    sections = serving_sheet(model, hardware, traffic)
    sections += [fixed_sheet(key, call) for key, call in calls.items()]
    if args.json:
        inputs: dict[str, Model | Hardware | Traffic | FixedBatch] = {
            "model": model,
            "hardware": hardware,
            "traffic": traffic,
            **calls,
        }
        document = {"inputs": {name: _plain(asdict(value)) for name, value in inputs.items()}, **_figures(sections)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(render(sections, shutil.get_terminal_size((80, 24)).columns)) + "\n")
    return 0


def _split(items: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """A leading name and the key=value settings after it."""
    return (items[0], items[1:]) if items and "=" not in items[0] else (None, items)


def _chosen(items: Sequence[str], presets: Mapping[str, Inputs], default: str, option: str) -> Inputs:
    name, settings = _split(items)
    key = (name or default).lower()
    if key not in presets:
        raise CapacityError(f"{option}: no preset {name!r}; there are {', '.join(presets)}, or give key=value")
    return with_keys(presets[key], settings, option)


def _model(items: Sequence[str]) -> Model:
    name, settings = _split(items)
    if name is None or name.lower() in MODELS:
        return _chosen(items, MODELS, "70b", "--model-config")
    if not Path(name).is_file():
        raise CapacityError(f"--model-config: {name!r} is neither a preset ({', '.join(MODELS)}) nor a file")
    overrides = with_keys(MODELS["70b"], settings, "--model-config")
    given = {setting.partition("=")[0] for setting in settings}
    return read_model(Path(name), {key: getattr(overrides, key) for key in given})


def _calls(items: Sequence[str]) -> dict[str, FixedBatch]:
    if not items:
        return FIXED_BATCHES
    name, _ = _split(items)
    return {(name or "fixed-call").lower(): _chosen(items, FIXED_BATCHES, "fixed-call", "--fixed-batch")}


def _figures(sections: Sequence[Section]) -> dict[str, Any]:
    return {
        section.key: {
            f.key: {"value": _number(f.value), "unit": f.unit, "shown": f.shown, "formula": f.formula}
            for f in section.figures
        }
        for section in sections
    }


def _plain(values: Mapping[str, Fraction]) -> dict[str, int | float]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
