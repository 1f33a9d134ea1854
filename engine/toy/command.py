"""`tailtrace ledger`: replay the toy ledger under a policy and show the account, exactly (SPEC E)."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.exact import exact, exact_whole
from engine.toy.checklist import checklist
from engine.toy.gantt import draw
from engine.toy.ledger import ToyError
from engine.toy.measures import Summary, littles_law, summarise
from engine.toy.policies import Policy, Settings
from engine.toy.replay import Replay, replay
from engine.toy.tables import account, audit_table, focus_table, heading, request_table


@dataclass(frozen=True, slots=True)
class Preset:
    """Options of a scene worth looking at (SPEC E7), and the requests to look at in it."""

    policy: str
    rate: str
    max_batch: str
    max_wait_s: str
    slo_s: str
    focus: tuple[str, ...]


PRESETS = {
    "head-of-line": Preset("static", "3", "4", "0.5", "1.5", ("R01", "R02", "R03", "R04")),
    "overload": Preset("static", "6", "4", "0.5", "1.5", ()),
}
_PLAIN = replace(PRESETS["head-of-line"], policy="continuous", focus=())


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments; values stay text until `run`, so that decimals stay exact."""
    parser.add_argument("--policy", metavar="P", help=f"{', '.join(Policy)} (default {_PLAIN.policy})")
    parser.add_argument("--rate", metavar="L", help=f"arrivals per second; stretches the trace (default {_PLAIN.rate})")
    parser.add_argument(
        "--max-batch", metavar="B", help=f"requests that a prefill may take (default {_PLAIN.max_batch})"
    )
    parser.add_argument(
        "--max-wait-s", metavar="W", help=f"static: longest wait for a full batch, s (default {_PLAIN.max_wait_s})"
    )
    parser.add_argument("--slo-s", metavar="T", help=f"E2E that counts as good, s (default {_PLAIN.slo_s})")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="head-of-line: the long R01 stands before the short R02..R04; overload: rate 6. Options beside it win",
    )
    parser.add_argument(
        "--audit", action="store_true", help="every tick with its events, and the policies side by side"
    )
    parser.add_argument("--checklist", action="store_true", help="the guided capacity report on this ledger")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the replay; ToyError or NumberError for options that make no ledger."""
    preset = _preset(args.preset)
    settings = _settings(args, preset)
    runs = [replay(replace(settings, policy=policy)) for policy in Policy]
    chosen = next(run for run in runs if run.settings.policy is settings.policy)
    if args.json:
        document = to_json(chosen) | ({"audit": [asdict(tick) for tick in chosen.ticks]} if args.audit else {})
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    width = shutil.get_terminal_size((80, 24)).columns
    lines = checklist(chosen, runs) if args.checklist else _report(chosen, runs, preset.focus)
    if args.audit:
        lines += ["", *audit_table(chosen, width), "", *draw(runs, width)]
    sys.stdout.write("\n".join(_wrap(lines, width)) + "\n")
    return 0


def _preset(name: str | None) -> Preset:
    if name is not None and name not in PRESETS:
        raise ToyError(f"--preset: no preset {name!r}; there are {', '.join(PRESETS)}")
    return _PLAIN if name is None else PRESETS[name]


def _settings(args: argparse.Namespace, preset: Preset) -> Settings:
    def option(name: str) -> str:
        given: str | None = getattr(args, name)
        return getattr(preset, name) if given is None else given

    policy = option("policy")
    if policy not in list(Policy):
        raise ToyError(f"--policy: no policy {policy!r}; there are {', '.join(Policy)}")
    return Settings(
        policy=Policy(policy),
        rate=exact(option("rate"), "--rate"),
        max_batch=exact_whole(option("max_batch"), "--max-batch"),
        max_wait_s=exact(option("max_wait_s"), "--max-wait-s"),
        slo_s=exact(option("slo_s"), "--slo-s"),
    )


def to_json(run: Replay) -> dict[str, Any]:
    """The account of a replay: numbers as the nearest floats, ticks as integers, None where a thing did not happen."""
    summary = summarise(run)
    counts = ("policy", "finished", "unfinished", "censored")
    measures = ("p50_s", "p95_s", "p99_s", "throughput", "goodput", "token_throughput", "window_s")
    return {
        **{name: getattr(summary, name) for name in counts},
        **{name: _nearest_float(summary, name) for name in measures},
        "kv_peak": summary.kv_peak,
        "requests": [
            {
                "id": journey.request.id,
                "arrival_ticks": journey.arrival_tick,
                "prefill_start": journey.prefill_start,
                "prefill_end": journey.prefill_end,
                "first_token": journey.first_token,
                "finish": journey.finish,
            }
            for journey in run.journeys
        ],
    }


def _nearest_float(summary: Summary, name: str) -> float | None:
    value = getattr(summary, name)
    return None if value is None else float(value)


def _report(chosen: Replay, runs: Sequence[Replay], focus: Sequence[str]) -> list[str]:
    summaries = [summarise(run) for run in runs]
    mine = next(s for s in summaries if s.policy is chosen.settings.policy)
    lines = [*heading(chosen), "", *account(summaries, mine.policy), "", *littles_law(chosen, mine), ""]
    if focus:
        lines += [f"{focus[0]} stands before {', '.join(focus[1:])}:", *focus_table(runs, focus), ""]
    return lines + request_table(chosen)


def _wrap(lines: Sequence[str], width: int) -> list[str]:
    """Fold sentences at `width`; tables and drawings (rows with runs of blanks) keep their columns."""
    wrapped: list[str] = []
    for line in lines:
        prose = len(line) > width and "  " not in line.strip()
        wrapped += textwrap.wrap(line, width, subsequent_indent="  ") if prose else [line]
    return wrapped
