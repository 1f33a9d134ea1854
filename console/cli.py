"""The command `tailtrace`: one table of commands, each imported only when it is chosen.

stdout is data, stderr is narration. Exit codes: 0 done; 1 the answer is "no" (a check failed); 2 bad input;
130 interrupted; 141 the reader of the output has gone.
"""

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from recorder.errors import UserError

EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


@dataclass(frozen=True)
class Command:
    """`module` has `configure(parser)` and `run(args) -> exit code`; `extra` names the dependencies it may lack."""

    name: str
    help: str
    module: str
    extra: str = ""


COMMANDS: Final = (
    Command("demo", "record one workload under two schedulers and compare them", "console.commands.demo", "engine"),
    Command("serve", "serve a model over HTTP and record every step", "engine.serve", "engine"),
    Command("load", "send a workload to a server, open loop", "engine.load.command", "engine"),
    Command("config", "explain the engine's configuration, or check a file", "engine.config_command", "engine"),
    Command("simulate", "serve a workload in virtual time and report on it", "console.commands.simulate"),
    Command("sweep", "simulate one variable over several levels and find the knee", "console.commands.sweep"),
    Command("open", "open runs in the terminal console, or in a browser", "console.commands.open", "web"),
    Command("runs", "list the runs in a folder", "console.commands.runs"),
    Command("tail", "watch a running engine live, here or elsewhere", "console.commands.tail"),
    Command("report", "print where the time of a run went", "console.commands.report"),
    Command("compare", "print what differs between two runs", "console.commands.compare"),
    Command("explain", "say in sentences what makes the tail, and what would change it", "console.commands.explain"),
    Command("budget", "hold a run against an SLO and a budget for each phase", "console.commands.budget"),
    Command("blame", "say who takes the tail: slow requests beside typical ones", "console.commands.blame"),
    Command("contrast", "say what sets some requests apart from the rest", "console.commands.contrast"),
    Command("timeline", "print requests over the worker's passes as lines", "console.commands.timeline"),
    Command("request", "print the life of one request of a run", "console.commands.request"),
    Command("engine", "print what the workers did, and what that says", "console.commands.engine"),
    Command("query", "ask a run in SQL", "console.commands.query"),
    Command("keys", "print the keys of the console, as a file to give them others", "console.commands.keys"),
    Command("check", "check that a run's ledger adds up", "console.commands.check"),
    Command("import", "make a run of another engine's recording", "recorder.importing.command"),
    Command("whatif", "re-run a recording under another configuration", "engine.whatif.command"),
    Command("prune", "delete old runs, by age and total size", "console.commands.prune"),
    Command("ledger", "replay the toy ledger under a policy, in exact arithmetic", "engine.toy.command"),
    Command("capacity", "work out GPUs and cost from model, hardware and traffic", "engine.capacity.command"),
)

_OWN_PACKAGES: Final = ("console", "engine", "recorder")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tailtrace` with these arguments (default: the process's) and return its exit code."""
    _print_what_the_terminal_can_take()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return EXIT_BROKEN_PIPE
    except SystemExit as leaving:  # argparse, after it printed help or what is wrong
        return leaving.code if isinstance(leaving.code, int) else 0


def _dispatch(argv: list[str]) -> int:
    options = _top_parser().parse_args(argv[:1])
    if options.version:
        sys.stdout.write(f"tailtrace {_version()}\n")
        return 0
    if options.command is None:
        _top_parser().print_help()
        return EXIT_BAD_INPUT
    command = _find(options.command)
    try:
        return _run(command, argv[1:])
    except ModuleNotFoundError as error:
        if not command.extra or (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        raise UserError(
            f"{command.name} needs the {command.extra} ({error.name} is missing): "
            f"pip install 'tailtrace[{command.extra}]'"
        ) from error


def _run(command: Command, argv: list[str]) -> int:
    module: ModuleType = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(prog=f"tailtrace {command.name}", description=_sentence(command.help))
    module.configure(parser)
    code: int = module.run(parser.parse_args(argv))
    return code


def _find(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean {near[0]}?" if near else "see tailtrace --help"
    raise UserError(f"there is no command {name!r}: {hint}")


def _top_parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:<{width}}  {command.help}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="tailtrace",
        usage="tailtrace [--help] [--version] COMMAND ...",
        description="A latency console for inference servers: where every nanosecond of every request went.",
        epilog=f"commands:\n{listing}\n\n`tailtrace COMMAND --help` explains one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms that only --version pays

    try:
        return version("tailtrace")
    except PackageNotFoundError:
        return "(not installed: running from its source)"


def _complain(message: str) -> int:
    sys.stderr.write(f"tailtrace: {message}\n")
    return EXIT_BAD_INPUT


def _print_what_the_terminal_can_take() -> None:
    """A glyph that the locale lacks must not end a report half-way: print its escape instead."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _stop_writing() -> None:
    """Let the interpreter's own flush at exit go nowhere, or it would complain about the closed pipe once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
