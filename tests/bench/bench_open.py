"""How long does `tailtrace open RUN` take to paint? `python -m tests.bench.bench_open [RUN] [--times N]`.

Measured from the start of the process, on a terminal of its own (a pty): until the frame of the screen is there, and
until the numbers are; medians in ms, as one JSON object. Beside it what no program with these libraries can go below:
`python -c "import textual, duckdb"`. The aim is the first paint of a shipped run in under 700 ms.
"""

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from tests.console.tui_runs import served

REPOSITORY = Path(__file__).resolve().parents[2]
FRAME, NUMBERS = b"Overview", b"TTFT"
DEADLINE_S = 30.0
AIM_MS = 700


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="a run (default: a shipped one, else a synthetic one)")
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = args.run or shipped() or served(Path(folder))
        paints = [open_once(run) for _ in range(args.times)]
        bare = [import_once() for _ in range(args.times)]
    frame, numbers = (statistics.median(column) for column in zip(*paints, strict=True))
    floor = statistics.median(bare)
    figures = {
        "run": run.name,
        "first_paint_ms": round(frame * 1e3),
        "aim_ms": AIM_MS,
        "numbers_ms": round(numbers * 1e3),
        "imports_ms": round(floor * 1e3),
        "first_paint_to_imports": round(frame / floor, 2),
    }
    print(json.dumps(figures, indent=2))


def shipped() -> Path | None:
    """A run that the product ships, if there is one."""
    found = sorted((REPOSITORY / "traces").rglob("run.json"))
    return found[0].parent if found else None


def open_once(run: Path) -> tuple[float, float]:
    """Seconds until the frame and until the numbers are painted; the console is closed again."""
    started = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(REPOSITORY)
        os.execv(sys.executable, [sys.executable, "-m", "console.cli", "open", str(run)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        return wait_for(terminal, FRAME, started), wait_for(terminal, NUMBERS, started)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def wait_for(terminal: int, words: bytes, started: float) -> float:
    """Seconds since `started` until the terminal was sent `words`."""
    seen = b""
    while words not in seen:
        ready, _, _ = select.select([terminal], [], [], DEADLINE_S)
        if not ready:
            raise SystemExit(f"{words!r} never came; the terminal was sent: {seen[-2000:]!r}")
        seen += os.read(terminal, 65_536)
    return time.monotonic() - started


def import_once() -> float:
    """Seconds that a process takes to import what the console can't do without."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import textual, duckdb"], check=True)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
