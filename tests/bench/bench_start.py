"""Cold start of the command line, beside the cold start of Python itself.

`python -m tests.bench.bench_start` prints one JSON object; times are ms, medians over alternating rounds. The aim is
`tailtrace --help` in under 150 ms; `report` is the whole way to a printed page, on a small run.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.console.runs import golden_rows, write_run

ROUNDS = 15
AIM_MS = 150
ROOT = Path(__file__).parents[2]


def _ms(*argv: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *argv], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begin) * 1e3


def measure(folder: Path) -> dict[str, object]:
    """Medians of each start, and their ratios to starting Python for nothing."""
    run = write_run(folder, golden_rows())
    starts = {
        "python": ("-c", "pass"),
        "help": ("-m", "console.cli", "--help"),
        "report": ("-m", "console.cli", "report", str(run)),
    }
    rounds = [{name: _ms(*argv) for name, argv in starts.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in starts}
    return {
        **{f"{name}_ms": round(ms, 1) for name, ms in medians.items()},
        "help_to_python": round(medians["help"] / medians["python"], 2),
        "report_to_python": round(medians["report"] / medians["python"], 2),
        "aim_help_ms": AIM_MS,
        "aim_met": medians["help"] < AIM_MS,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder))))
