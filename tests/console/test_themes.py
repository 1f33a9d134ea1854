"""Themes: gone through by a key, kept for the next time, and told apart by more than red and green."""

import math
from itertools import combinations
from pathlib import Path

import pytest
from textual.strip import Strip

from console.app import Tailtrace
from console.commands.open import build
from console.theme import SAFE, SCHEMES, colours_of
from tests.console.screens import press, settle
from tests.console.tui_runs import served

# Machado, Oliveira and Fernandes (2009), severity 1: what is left of linear RGB without red or without green cones.
_EYES = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
TOGETHER = (
    ("good", "bad"),
    ("run.a", "run.b", "run.c", "run.d"),
    ("phase.queue", "phase.prefill", "phase.decode", "phase.preempted", "phase.return"),
    ("accent", "bad"),
)
"""Colours that stand beside each other and mean something else."""


def seen_by(eyes: str, colour: str) -> tuple[float, ...]:
    linear = [math.pow(int(colour[i : i + 2], 16) / 255, 2.2) for i in (1, 3, 5)]
    mixed = (sum(weight * part for weight, part in zip(row, linear, strict=True)) for row in _EYES[eyes])
    return tuple(math.pow(max(value, 0.0), 1 / 2.2) for value in mixed)


def distance(eyes: str, one: str, other: str) -> float:
    sides = zip(seen_by(eyes, one), seen_by(eyes, other), strict=True)
    return math.sqrt(sum((a - b) ** 2 for a, b in sides))


def contrast(one: str, other: str) -> float:
    """WCAG 2."""
    light = sorted(
        sum(
            weight * math.pow(int(colour[i : i + 2], 16) / 255, 2.2)
            for weight, i in zip((0.2126, 0.7152, 0.0722), (1, 3, 5), strict=True)
        )
        for colour in (one, other)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("eyes", _EYES)
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme.safe], ids=lambda scheme: scheme.name)
def test_safe_colours_differ_without_red_or_green(scheme: object, eyes: str) -> None:
    colours = colours_of(scheme)  # type: ignore[arg-type]
    for group in TOGETHER:
        for one, other in combinations(group, 2):
            assert distance(eyes, colours[one], colours[other]) > 0.12, (one, other)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_every_safe_colour_can_be_read(scheme: object) -> None:
    colours = colours_of(scheme)  # type: ignore[arg-type]
    assert [name for name in SAFE if contrast(colours[name], colours["background"]) < 3] == []


def strips(app: Tailtrace) -> list[Strip]:
    return app.screen._compositor.render_strips()


async def test_themes_are_gone_through_and_kept(tmp_path: Path) -> None:
    run = served(tmp_path)
    app = build([run])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        seen = []
        for _ in SCHEMES:
            seen.append(app.theme)
            colours = {
                segment.style.color.name
                for strip in strips(app)
                for segment in strip
                if segment.style is not None and segment.style.color is not None
            }
            assert (colours <= {"default"}) == (not app.scheme.coloured), app.theme
            await press(pilot, "t")
            app.clear_notifications()
            await settle(pilot)
        assert seen == [scheme.name for scheme in SCHEMES]
        assert app.theme == SCHEMES[0].name
        await press(pilot, "t", "t")
    again = build([run])
    async with again.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert again.theme == SCHEMES[2].name
