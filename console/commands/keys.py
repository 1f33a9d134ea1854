"""`tailtrace keys`: every key of the console, as the file that would give it another."""

import argparse
import sys

from console.keymap import keymap_path, read_keymap, template


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing to say."""


def run(_args: argparse.Namespace) -> int:
    """Print the file as it is in force: the user's own keys, all others as comments."""
    sys.stdout.write(f"# Keys of the console. What stands in {keymap_path()} counts; comments show the rest.\n")
    sys.stdout.write("".join(f"{line}\n" for line in template(read_keymap())))
    return 0
