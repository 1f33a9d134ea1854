"""`tailtrace load`: send a workload open loop to an OpenAI-style server and say whether it was sent in time."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from engine.load.client import LoadError, Outcome, drive, served_model
from engine.load.retry import NEVER, Retrying
from engine.load.summary import lines, summarise
from engine.load.workload import read_workload

_HERE: Final = "http://127.0.0.1:8000"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--url",
        action="append",
        help=f"server to send to (default: {_HERE}); given several times, they are equals: each gets its share, and who"
        " is refused by one may go to another",
    )
    parser.add_argument("--workload", type=Path, required=True, metavar="FILE.jsonl", help="arrivals, one a line")
    parser.add_argument("--model", help="model to ask for (default: the first that the server lists)")
    parser.add_argument("--api-key", metavar="KEY", help="key the server asks for")
    parser.add_argument(
        "--retry",
        type=_count,
        default=0,
        metavar="N",
        help="send a refused request again, up to N times (default: 0)",
    )
    parser.add_argument(
        "--retry-budget",
        type=_share,
        default=NEVER.budget_share,
        metavar="SHARE",
        help="retries of all together, as a share of the requests (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="write the client's stamps, one request a line")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Send the workload; 0 when it was sent in time, 1 when the result is invalid. Raises UserError."""
    arrivals = read_workload(args.workload)
    urls = [url.rstrip("/").removesuffix("/v1") for url in args.url or [_HERE]]
    _check_out(args.out)
    model = args.model or asyncio.run(_served_by_all(urls, args.api_key))
    to = " and ".join(urls)
    _say(f"open loop: {len(arrivals)} requests over {arrivals[-1].arrival_s:g} s to {to}, model {model}")
    retry = Retrying(args.retry, args.retry_budget)
    outcomes = asyncio.run(drive(urls, model, arrivals, args.api_key, _progress(len(arrivals)), retry=retry))
    if args.out:
        args.out.write_bytes(b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes))
    summary = {"workload": str(args.workload), "url": to, "model": model, **summarise(outcomes)}
    sys.stdout.write((json.dumps(summary, indent=2) if args.json else "\n".join(lines(summary))) + "\n")
    return 0 if summary["valid"] else 1


def _count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a number of retries from 0 to 100")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1")
    return number


async def _served_by_all(urls: Sequence[str], api_key: str | None) -> str:
    """The model that the first server lists; LoadError where one does not answer, or lists another first."""
    models = [await served_model(url, api_key) for url in urls]
    for url, model in zip(urls, models, strict=True):
        if model != models[0]:
            raise LoadError(f"{url} serves {model}, and {urls[0]} {models[0]}: give one with --model, or one --url")
    return models[0]


def _check_out(path: Path | None) -> None:
    if path and not path.parent.is_dir():
        raise LoadError(f"{path}: there is no folder {path.parent} to write to")


def _progress(total: int) -> Callable[[Sequence[Outcome]], None]:
    """Narrates at most once a second, and at the end."""
    last = time.monotonic()

    def changed(outcomes: Sequence[Outcome]) -> None:
        nonlocal last
        ended = sum(outcome.done is not None for outcome in outcomes)
        if ended == total or time.monotonic() - last >= 1:
            last = time.monotonic()
            _say(f"sent {len(outcomes)} of {total}, ended {ended}")

    return changed


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
