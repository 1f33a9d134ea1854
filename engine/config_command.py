"""`tailtrace config`: print the reference of all keys, or a validated configuration in full."""

import argparse
import json
import shutil
import sys
import textwrap
from pathlib import Path

from engine.config import Key, keys, load_config, sections, to_dict, to_toml, toml_value


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--explain", action="store_true", help="print every key: default, unit, range, and what it does"
    )
    parser.add_argument(
        "--file", type=Path, metavar="FILE.toml", help="validate this file and print it with all defaults"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of TOML")


def run(args: argparse.Namespace) -> int:
    """Print the reference or the configuration; a file that is not valid raises ConfigError."""
    config = load_config(args.file)
    if args.explain:
        print_lines = reference(shutil.get_terminal_size((120, 24)).columns)
        sys.stdout.write("\n".join(print_lines) + "\n")
    elif args.json:
        sys.stdout.write(json.dumps(to_dict(config), indent=2) + "\n")
    else:
        sys.stdout.write(to_toml(config))
    return 0


def reference(width: int) -> list[str]:
    """The lines of the reference, aligned over all sections and wrapped at `width` columns."""
    every = {section: list(keys(section).values()) for section, _ in sections()}
    cells = [_cells(key) for section in every.values() for key in section]
    columns = [max(len(row[i]) for row in cells) for i in range(3)]
    lines = []
    for section, declaration in sections():
        lines += [f"[{section}]  {_first_line(declaration)}"]
        for key in every[section]:
            lines += _entry(key, columns, width)
        lines.append("")
    return lines[:-1]


def _cells(key: Key) -> tuple[str, str, str]:
    return key.name, toml_value(key.default), key.unit


def _entry(key: Key, columns: list[int], width: int) -> list[str]:
    """One key: name, default and unit in columns, then its sentence and range, wrapped under their own column."""
    lead = "  " + "  ".join(cell.ljust(size) for cell, size in zip(_cells(key), columns, strict=True)) + "  "
    room = max(width - len(lead), 30)
    wrapped = textwrap.wrap(f"{key.doc} Must be {key.allowed}.", room)
    return [(lead if i == 0 else " " * len(lead)) + text for i, text in enumerate(wrapped)]


def _first_line(declaration: type) -> str:
    return (declaration.__doc__ or "").splitlines()[0]
