"""`tailtrace demo`: record one workload under two schedulers with a real model, check both runs, and compare them.

It drives the product by its own commands, `serve` and `load`, as a person would in three terminals.
"""

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from console.commands import compare
from recorder.check import check
from recorder.errors import UserError
from recorder.tables import open_tables

POLICIES: Final = ("immediate", "continuous")
WORKLOAD: Final = "workloads/long-prompts-among-short-chats.jsonl"
_POLL_S: Final = 0.2


class DemoError(UserError):
    """A part of the demo failed; says which, and what it left behind."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--headless", action="store_true", help="print the comparison instead of opening the console")
    parser.add_argument("--model", help="model to serve (default: the one of tailtrace serve)")
    parser.add_argument("--load-format", choices=("auto", "dummy"), help="dummy: random weights, nothing is fetched")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where the model runs")
    parser.add_argument("--workload", type=Path, metavar="FILE.jsonl", help="other arrivals than the demo's own")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="folder of runs (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Record, check, compare: 0; 1 when a check fails. Raises UserError when a part can't start or breaks off."""
    with as_file(files("traces") / WORKLOAD) as shipped:
        recorded = [_record(policy, number, args, args.workload or shipped) for number, policy in enumerate(POLICIES)]
    sound = [_is_sound(run) for run in recorded]
    _say(f"both runs are kept: tailtrace open {' '.join(map(str, recorded))}")
    if args.headless or not (sys.stdin.isatty() and sys.stdout.isatty()):
        compare.tell(recorded)
    else:
        subprocess.run([*_tailtrace("open"), "--screen", "compare", *recorded], check=True)
    return 0 if all(sound) else 1


def _record(policy: str, number: int, args: argparse.Namespace, workload: Path) -> Path:
    """One fresh engine under one policy, and the whole workload through it. Returns the run."""
    _say(f"[{number + 1}/{len(POLICIES)}] {policy}: a fresh engine, the same arrivals")
    before = set(_runs(args.runs))
    with _serving(policy, args) as url:
        sent = subprocess.run([*_tailtrace("load"), "--url", url, "--workload", workload], stdout=2, check=False)
        if sent.returncode not in {0, 1}:
            raise DemoError(f"tailtrace load failed with exit code {sent.returncode}; its words are above")
    if sent.returncode == 1:
        _say("the machine was too busy to send in time: read the comparison with care")
    new = [run for run in _runs(args.runs) if run not in before and run.name.startswith(policy)]
    if len(new) != 1:
        raise DemoError(f"expected one new run in {args.runs}, found {len(new)}: is another engine writing there?")
    return new[0]


@contextmanager
def _serving(policy: str, args: argparse.Namespace) -> Iterator[str]:
    """An engine that answers at the URL; it drains and seals its run at the end."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="tailtrace-demo-") as folder:
        config = Path(folder) / f"{policy}.toml"
        config.write_text(f'[scheduler]\npolicy = "{policy}"\n')
        where = ["--config", config, "--port", str(port), "--runs", args.runs]
        engine = subprocess.Popen([*_tailtrace("serve"), *where, *_passed_on(args)], stdout=2, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}"
            _await_health(url, engine)
            yield url
        finally:
            engine.send_signal(signal.SIGINT)
            code = engine.wait()
    if code != 0:
        raise DemoError(f"tailtrace serve ended with exit code {code}; its words are above")


def _passed_on(args: argparse.Namespace) -> list[str]:
    given = (("--model", args.model), ("--load-format", args.load_format), ("--device", args.device))
    return [word for option, value in given if value for word in (option, value)]


def _await_health(url: str, engine: "subprocess.Popen[bytes]") -> None:
    """Wait until the model is loaded: a first start fetches it, which takes as long as it takes."""
    while engine.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(_POLL_S)
    raise DemoError(f"tailtrace serve could not start (exit code {engine.returncode}); its words are above")


def _is_sound(run: Path) -> bool:
    """Check the run, and say so; a failed check is spelled out by `tailtrace check`."""
    failed = [found.name for found in check(open_tables(run)) if not found.ok]
    _say(f"{run.name}: " + (f"FAILED {', '.join(failed)}; see: tailtrace check {run}" if failed else "all checks hold"))
    return not failed


def _runs(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
        return port


def _tailtrace(command: str) -> list[str | Path]:
    return [sys.executable, "-m", "console.cli", command]


def _say(text: str) -> None:
    sys.stderr.write(f"demo: {text}\n")
    sys.stderr.flush()
