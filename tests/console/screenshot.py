"""A picture of a screen: `python -m tests.console.screenshot RUN [RUN...] OUT.svg --size 160x48 --screen overview`."""

import argparse
import asyncio
import os
import re
import tempfile
from pathlib import Path

from console.commands.open import build
from tests.console.screens import press, screen_text, settle


async def picture(args: argparse.Namespace) -> str:
    """The screen after the keys were pressed, as SVG (or as text for a file that ends so)."""
    columns, rows = (int(part) for part in args.size.split("x"))
    app = build(args.runs, args.screen, args.slo_ms)
    async with app.run_test(size=(columns, rows)) as pilot:
        await settle(pilot)
        for key in args.keys:
            await press(pilot, key)
        if args.light:
            await press(pilot, "t")
        return screen_text(app) if args.out.suffix == ".txt" else _alone(app.export_screenshot(title="tailtrace"))


def _alone(svg: str) -> str:
    """Without fonts fetched from elsewhere: whoever looks at a picture asks no other server for anything."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("out", type=Path, metavar="OUT.svg")
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--screen", default="overview")
    parser.add_argument("--keys", nargs="*", default=[], help="keys to press first, in Textual's names")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--slo-ms", type=float)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TAILTRACE_STATE"] = folder
        args.out.write_text(asyncio.run(picture(args)), encoding="utf-8")


if __name__ == "__main__":
    main()
