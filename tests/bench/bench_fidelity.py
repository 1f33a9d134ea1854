"""How far a what-if is from what then really happens, with the real model on this machine.

`python -m tests.bench.bench_fidelity [--repeats 5] [--requests 60] [--load-format dummy] [--keep FOLDER]` serves by
`tailtrace serve`, loads by `tailtrace load`, and learns a cost model from one run alone. With it, three other runs are
predicted: another workload, another configuration, and both; each is then really run, and compared at p50, p95 and p99
of TTFT, TPOT and E2E. Arrivals and lengths of the predicted run are those at the server; nothing else of it is looked
at. `--judge FOLDER` serves nothing and predicts the runs that `--keep` left there once more.

Prints one JSON object: for each case and percentile the median error over the repetitions, all errors, and the spread
of the real runs themselves ((largest - smallest) / median), which no prediction can be better than. Exit code 1 where
a median is beyond its limit (0.10; 0.15 at p99). Wants a machine with nothing else to do.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cost.model import CostFit
from engine.whatif.changes import engine_of
from engine.whatif.fitting import fit_recording
from engine.whatif.measures import LATENCIES, Summary, relative_errors, summaries
from engine.whatif.recorded import Recorded, read_recorded
from engine.whatif.rerun import rerun
from recorder.tables import open_tables
from tests.bench.serving import serving

STATISTICS = ("p50", "p95", "p99")
LIMITS = {"p50": 0.10, "p95": 0.10, "p99": 0.15}
LEARN_CONFIG = {"max_num_seqs": 16, "max_num_batched_tokens": 256}
OTHER_CONFIG = {"max_num_seqs": 4, "max_num_batched_tokens": 64}


@dataclass(frozen=True)
class Load:
    """Poisson arrivals at `rate` a second, lengths drawn evenly."""

    rate: float
    prompt: tuple[int, int]
    output: tuple[int, int]
    seed: int

    def write(self, path: Path, requests: int) -> Path:
        """A workload file for `tailtrace load`; every output length is what was asked for."""
        choose, t, lines = random.Random(self.seed), 0.0, []
        for number in range(requests):
            asked = {
                "id": f"f-{number:04d}",
                "arrival_s": round(t, 6),
                "prompt_tokens": choose.randint(*self.prompt),
                "max_tokens": choose.randint(*self.output),
                "ignore_eos": True,
            }
            lines.append(json.dumps(asked) + "\n")
            t += choose.expovariate(self.rate)
        path.write_text("".join(lines))
        return path


LEARN_LOAD = Load(1.2, (16, 160), (8, 40), seed=1)
OTHER_LOAD = Load(1.8, (16, 60), (16, 60), seed=2)
CASES = {
    "another workload": (OTHER_LOAD, LEARN_CONFIG),
    "another configuration": (LEARN_LOAD, OTHER_CONFIG),
    "both": (OTHER_LOAD, OTHER_CONFIG),
}


def really(folder: Path, load: Load, config: dict[str, int], requests: int, options: argparse.Namespace) -> Recorded:
    """One real run in a fresh engine, or the one that was kept."""
    if options.judge:
        return kept(folder)
    folder.mkdir(parents=True)
    workload = load.write(folder / "workload.jsonl", requests)
    extra = ["--load-format", options.load_format] if options.load_format else []
    toml = "[scheduler]\n" + "".join(f"{key} = {value}\n" for key, value in config.items())
    with serving(folder, toml, extra) as url:
        loader = [sys.executable, "-m", "console.cli", "load", "--url", url, "--workload", str(workload), "--json"]
        sent = subprocess.run(loader, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    assert sent.returncode in {0, 1}, "tailtrace load failed"
    if sent.returncode == 1:
        _say(f"{folder.name}: the machine was too busy to send in time")
    return kept(folder)


def kept(folder: Path) -> Recorded:
    """The real run in a case's folder."""
    (run,) = (folder / "runs").iterdir()
    return read_recorded(open_tables(run))


def predicted(fit: CostFit, real: Recorded) -> tuple[dict[str, Summary], dict[str, Summary]]:
    """The real run's latencies, and the errors of their prediction."""
    again = rerun(real.arrivals, engine_of(real), fit)
    then, foretold = (summaries(stamps, real.answered, LATENCIES, STATISTICS) for stamps in (real.stamps, again.stamps))
    return then, relative_errors(then, foretold)


def one_repetition(
    folder: Path, options: argparse.Namespace
) -> dict[str, tuple[dict[str, Summary], dict[str, Summary]]]:
    """Learn from one run, then meet the three others."""
    learnt = really(folder / "learn", LEARN_LOAD, LEARN_CONFIG, options.learn_requests, options)
    fit = fit_recording(learnt, engine_of(learnt))
    _say(f"learnt from {fit.trained_on} steps, held out: {fit.held_out}")
    found = {}
    for name, (load, config) in CASES.items():
        real = really(folder / name.replace(" ", "-"), load, config, options.requests, options)
        found[name] = predicted(fit, real)
        _say(f"{name}: {json.dumps(found[name][1])}")
    return found


def verdict(repetitions: Sequence[dict[str, tuple[dict[str, Summary], dict[str, Summary]]]]) -> dict[str, Any]:
    """Medians over the repetitions, and whether all of them are within their limits."""
    cases: dict[str, Any] = {}
    for name in CASES:
        for latency in LATENCIES:
            for key in STATISTICS:
                real = [each[name][0][latency][key] or 0.0 for each in repetitions]
                errors = [each[name][1][latency][key] or 0.0 for each in repetitions]
                median = statistics.median(errors)
                cases.setdefault(name, {}).setdefault(latency, {})[key] = {
                    "error": median,
                    "errors": errors,
                    "real_spread": (max(real) - min(real)) / statistics.median(real),
                    "within": abs(median) <= LIMITS[key],
                }
    within = all(found["within"] for case in cases.values() for latency in case.values() for found in latency.values())
    return {"repeats": len(repetitions), "within": within, "cases": cases}


def main() -> int:
    """Run the repetitions and print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--learn-requests", type=int, default=120, help="of the run that is learnt from")
    parser.add_argument("--load-format", choices=("auto", "dummy"))
    parser.add_argument("--keep", type=Path, help="folder for the runs (default: a temporary one)")
    parser.add_argument("--judge", type=Path, help="folder of kept runs: serve nothing, predict them once more")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.judge or options.keep or Path(temporary)
        found = verdict([one_repetition(folder / str(number), options) for number in range(options.repeats)])
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0 if found["within"] else 1


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
