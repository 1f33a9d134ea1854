"""A real `tailtrace serve` for a benchmark, from the first to the last request."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path, toml: str, extra: Sequence[str] = ()) -> Iterator[str]:
    """The URL of an engine so configured; its run, if any, is the only folder in `folder/runs` afterwards."""
    config = folder / "bench.toml"
    config.write_text(toml)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    command = [sys.executable, "-m", "console.cli", "serve", "--config", str(config), "--port", str(port), *extra]
    engine = subprocess.Popen([*command, "--runs", str(folder / "runs")], stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while not _is_healthy(url):
            assert engine.poll() is None, "tailtrace serve could not start"
            time.sleep(0.1)
        yield url
    finally:
        engine.send_signal(signal.SIGINT)
        engine.wait()


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return True
    except (urllib.error.URLError, TimeoutError):
        return False
