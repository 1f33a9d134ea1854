"""The screens' pictures before they are on a screen: lines of ink, made from a run."""

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console import theme
from console.book import Health
from console.keys import Scope, footer_keys
from console.lanes import Lanes, load_lanes
from console.marks import Mark
from console.replay import Replay
from console.session import Session
from console.timeline import Window
from console.widgets.chart import _counted, chart
from console.widgets.chrome import key_bar, status_line, top_bar
from console.widgets.detail import Cause, detail_lines
from console.widgets.frame import Frame, Geometry, geometry, top_following
from console.widgets.ink import (
    Line,
    bar,
    beside,
    clean,
    crop,
    duration,
    fit,
    fit_ends,
    instant,
    pad,
    percent,
    signed_bar,
    spread,
    width_of,
)
from console.widgets.now import Member, now_lines
from console.widgets.pairs import by_change, list_lines, side_by_side
from recorder.words import Status
from tests.console.runs import request, write_run
from tests.console.tui_runs import MS, mixed_ends, served

texts = st.text(max_size=30)
widths = st.integers(0, 60)


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lanes]:
    """The lanes of a run in which requests ended in every way."""
    run = mixed_ends(tmp_path_factory.mktemp("runs"))
    with Session(run) as session, session.connect() as cursor:
        yield load_lanes(session, cursor)


@given(texts, widths)
def test_a_text_fits_exactly(text: str, width: int) -> None:
    assert cell_len(fit(clean(text), width)) == width
    assert cell_len(fit(clean(text), width, "right")) == width
    assert cell_len(fit_ends(clean(text), width)) == width


@given(st.lists(texts, max_size=5), widths)
def test_a_line_is_cropped_and_padded_by_cells(words: list[str], width: int) -> None:
    line = [(clean(word), "text") for word in words]
    assert width_of(crop(line, width)) <= width
    assert width_of(pad(line, width)) == width
    if width_of(line) <= width:
        assert text_of(crop(line, width)) == text_of(line)


@given(texts)
def test_clean_text_controls_nothing(text: str) -> None:
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in clean(text))


@given(st.floats(-2, 2), st.integers(0, 50), st.sampled_from("█░"))
def test_bars_have_their_width(share: float, width: int, glyph: str) -> None:
    assert width_of(bar(share, width, "good", glyph)) == width
    assert width_of(signed_bar(share, width)) in {width, width - 1, 1}
    if width and share > 0:
        assert text_of(bar(share, width, "good", glyph)).strip()


def test_lines_stand_beside_each_other_and_at_both_ends() -> None:
    assert [text_of(line) for line in beside([[("a", "text")]], [[("b", "text")], [("c", "text")]], 3)] == [
        "a  b",
        "   c",
    ]
    assert text_of(spread([("left", "text")], [("right", "text")], 12)) == "left   right"
    assert text_of(spread([("left", "text")], [("right", "text")], 6)) == "left  "


@pytest.mark.parametrize(
    ("ns", "words"),
    [(None, "-"), (0, "0ns"), (999, "999ns"), (1_500, "1.50µs"), (999_600, "1.00ms"), (12_340_000, "12.3ms"),
     (123_456_789, "123ms"), (1_234_567_890, "1.23s"), (130 * 10**9, "2m10s"), (-1_500, "-1.50µs")],
)  # fmt: skip
def test_durations_are_short(ns: int | None, words: str) -> None:
    assert duration(ns) == words


def test_shares_and_instants() -> None:
    assert (percent(None), percent(0.0), percent(0.0001), percent(0.25)) == ("-", "0.0%", "<0.1%", "25.0%")
    assert (instant(1_234_567_890, 10**9), instant(1_234_567_890, 10**8)) == ("1.235s", "1.234568s")


def test_every_look_is_one_cell_wide_and_phases_differ_without_colour() -> None:
    looks = [*theme.PHASES.values(), *theme.STEPS.values(), *theme.STATUSES.values(), *theme.CAUSES.values()]
    assert [look for look in looks if cell_len(look.glyph) != 1] == []
    for table in (theme.PHASES, theme.STEPS, theme.STATUSES, theme.CAUSES):
        glyphs = [look.glyph for look in table.values()]
        assert len(set(glyphs)) == len(glyphs)


def test_causes_that_are_not_known_still_have_a_look_and_a_place() -> None:
    assert theme.cause_look("PREEMPTED/KV_BLOCKS") == theme.CAUSES["PREEMPTED"]
    assert theme.cause_look("QUEUE/NEW").style == "phase.queue"
    assert theme.cause_look("NEW").glyph == "■"
    names = ["UNNAMED", "NEW", "RETURN", "PREEMPTED/KV_BLOCKS", "QUEUE/NEW", "INGRESS"]
    assert sorted(names, key=theme.cause_order) == list(reversed(names))


@pytest.mark.parametrize("dark", [True, False])
def test_styles_resolve_in_both_themes(dark: bool) -> None:
    for style in theme.COLOURS:
        assert theme.resolve(f"{style} bold dim on.cursor reverse", dark).foreground.startswith("#")
    with pytest.raises(KeyError):
        theme.resolve("no-such-colour", dark)


def frame_of(lanes: Lanes, at: int, window: Window | None = None, selected: int | None = 0, top: int = 0) -> Frame:
    return Frame(at, window or lanes.window, selected, top)


@pytest.mark.parametrize(
    ("width", "height"), [(160, 40), (120, 30), (80, 20), (40, 8), (20, 3), (3, 2), (1, 1), (0, 5)]
)
def test_a_chart_has_its_size(lanes: Lanes, width: int, height: int) -> None:
    middle = (lanes.window.low + lanes.window.high) // 2
    for at in (lanes.window.low, middle, lanes.window.high):
        for window in (lanes.window, lanes.window.zoom(1, 64, middle)):
            lines = chart(lanes, frame_of(lanes, at, window), width, height)
            assert len(lines) == height
            assert all(width_of(line) <= width for line in lines)


def lane_row(lanes: Lanes, name: str, at: int) -> Line:
    lines = chart(lanes, frame_of(lanes, at), 120, 40)
    return next(line for line in lines if f" {name} " in text_of(line))


def test_what_lies_after_the_playhead_is_dimmed(lanes: Lanes) -> None:
    lane = lanes.lane(lanes.find("chat-004") or 0)
    at = ((lane["first_token"] or 0) + lane.finish) // 2
    row = lane_row(lanes, "chat-004", at)
    styles = [style for text, style in row for char in text if char == "━"]
    assert {"phase.decode", "phase.decode dim"} <= set(styles)
    assert styles.index("phase.decode dim") > styles.index("phase.decode")
    assert all("dim" not in style for _, style in lane_row(lanes, "chat-004", lanes.window.high))


@pytest.mark.parametrize(
    ("offset", "glyph", "standing"),
    [("before", "·", ""), ("queued", "░", "queue"), ("decoding", "━", "decode"), ("over", "●", "ms")],
)
def test_a_label_says_how_the_request_stands_at_the_playhead(
    lanes: Lanes, offset: str, glyph: str, standing: str
) -> None:
    lane = lanes.lane(lanes.find("chat-004") or 0)
    instants = {
        "before": lane.arrival - 1,
        "queued": lane["queued"] or 0,
        "decoding": lane["first_token"] or 0,
        "over": lane.finish,
    }
    words = text_of(lane_row(lanes, "chat-004", instants[offset]))[:30]
    assert glyph in words
    assert standing in words


@pytest.mark.parametrize("status", ["cancelled", "failed", "expired", "rejected", "open"])
def test_an_end_without_an_answer_has_its_glyph(lanes: Lanes, status: str) -> None:
    """In its lane always, and in its label once the playhead has passed it."""
    glyph = theme.STATUSES[status].glyph
    assert text_of(lane_row(lanes, f"{status}-1", lanes.window.low))[30:].count(glyph) == 1
    if status != "open":
        assert glyph in text_of(lane_row(lanes, f"{status}-1", lanes.window.high))[:30]


def test_names_that_look_like_markup_are_only_names(lanes: Lanes) -> None:
    picture = "\n".join(text_of(line) for line in chart(lanes, frame_of(lanes, 0), 160, 40))
    assert "[red]x[/" in picture
    assert "[@click…p.quit]q" in picture
    assert "\x1b" not in picture
    assert "\x00" not in picture


def test_the_selected_lane_is_marked_without_colour(lanes: Lanes) -> None:
    rows = chart(lanes, frame_of(lanes, 0, selected=2), 80, 20)[geometry(lanes, 80, 20).strips :]
    assert [place for place, row in enumerate(rows) if text_of(row).startswith("▸")] == [2]


def test_now_says_pass_batch_waiting_and_last_change(lanes: Lanes) -> None:
    passes = lanes.passes[0]
    mixed = next(i for i in range(len(passes)) if passes.kind_at(i) == "mixed" and passes.columns["waiting"][i])
    step, t = int(passes.columns["step"][mixed]), int(passes.columns["t_exec"][mixed])
    batch = [Member(step, 3, "prefill", 200, 0), Member(step, 4, "decode", 1, 40)]
    words = "\n".join(text_of(line) for line in now_lines(lanes, 0, t, batch, width=60, height=12))
    assert f"Pass {step:,} ▓ mixed" in words
    assert "█ long-003 +200" in words
    assert "━ chat-004" in words
    assert "waiting" in words
    assert "head" in words
    assert "last" in words
    assert len(now_lines(lanes, 0, t, batch, width=60, height=3)) == 3
    assert "No pass" in text_of(now_lines(lanes, 9, t, None, width=60, height=5)[0])


def test_a_detail_closes_its_sum(lanes: Lanes) -> None:
    lane = lanes.lane(lanes.find("chat-004") or 0)
    e2e = lane["e2e"] or 0
    causes = [Cause("DECODE", e2e - 5 * MS, True), Cause("QUEUE/BEHIND_FIFO", 5 * MS, True, "SEQ_SLOTS", 3, 2)]
    lines = [text_of(line) for line in detail_lines(lanes, lane, causes, 0, width=90, height=20)]
    assert any(f"{e2e:,} ns = E2E" in line for line in lines)
    assert any("← long-003 +1 (SEQ_SLOTS)" in line for line in lines)
    assert any("because of long-003 and 1 other, root SEQ_SLOTS" in line for line in lines)
    queue, decode = (next(line for line in lines if name in line) for name in ("BEHIND_FIFO", "DECODE"))
    assert lines.index(queue) < lines.index(decode)
    assert queue.rindex("░") < decode.rindex("━"), "the waterfall falls in the order of life"
    broken = [Cause("DECODE", e2e - 1, True)]
    assert any("≠ E2E" in text_of(line) for line in detail_lines(lanes, lane, broken, 0, width=90, height=20))


def test_who_waits_at_the_live_edge_is_told(tmp_path: Path) -> None:
    """SPEC F4: an open request is known to wait up to the newest instant there is, and that one included."""
    rows = [
        {**request(1, 0, Status.OPEN), "queued": 1 * MS},
        {**request(2, 0, Status.EXPIRED), "queued": 1 * MS},
        request(3, 0, Status.OK, admitted_ms=0, queued_ms=0, first_scheduled_ms=1, returned_ms=9),
    ]
    with Session(write_run(tmp_path, {"requests": rows})) as session, session.connect() as cursor:
        edge = load_lanes(session, cursor)
    assert edge.window.end == 9 * MS
    assert [edge.lane(index).request_id for index in edge.waiting_at(edge.window.end, 0)] == ["req-1"]


def test_a_request_without_an_end_shows_its_phases(lanes: Lanes) -> None:
    lane = lanes.lane(lanes.find("cancelled-1") or 0)
    words = "\n".join(text_of(line) for line in detail_lines(lanes, lane, [], 0, width=60, height=12))
    assert "queue" in words
    assert "[bold]cancelled[/]" in words


@pytest.mark.parametrize("height", range(12))
def test_panels_keep_to_their_height(lanes: Lanes, height: int) -> None:
    lane = lanes.lane(0)
    causes = [Cause(name, 10, True) for name in theme.CAUSES]
    for width in (10, 30, 54, 100):
        for lines in (
            detail_lines(lanes, lane, causes, 9, width=width, height=height),
            now_lines(lanes, 0, 100 * MS, [], width=width, height=height),
        ):
            assert len(lines) <= height
            assert all(width_of(line) <= max(width, 45) for line in lines)


def test_the_bars_around_the_screen() -> None:
    health = Health("recording", 1200, 3, 420.4, 5 * 10**9, (("spans/[x].parquet", "does not match"),))
    words = text_of(status_line(health, [("note", "text")], 160))
    for part in (
        "● recording",
        "1 damage: spans/[x].parquet",
        "1,200 records, 420 ns each",
        "3 dropped",
        "durable to 5.00s",
    ):
        assert part in words
    assert words.endswith("note")
    assert "R reloads" in words
    narrow = text_of(status_line(replace(health, damages=()), [("a note of thirty cells or so ...", "text")], 80))
    assert "3 dropped  durable to 5.00s" in narrow, "what is cut off is not what was lost, nor the lag"
    assert "reading" in text_of(status_line(None, [], 80))
    assert "2/3" in text_of(top_bar("timeline", "run-b", 1, 3, width=80))
    for width in range(0, 161, 8):
        line = key_bar(footer_keys(Scope.TIMELINE), width)
        assert width_of(line) <= width
        assert width < 24 or "? help" in text_of(line)


def test_pairs_go_from_winner_to_loser(lanes: Lanes) -> None:
    pairs = by_change(
        ["b", "a", "[c]"], ([1, 2, 3], [11, 12, 13]), (np.array([5.0, 5.0, 1.0]) * MS, np.array([5.0, 9.0, 0.0]) * MS)
    )
    assert (pairs.names, pairs.rids_b) == (["[c]", "b", "a"], [13, 11, 12])
    lines = [text_of(line) for line in list_lines(pairs, 0, True, 90, 6)]
    assert "3 in both: 1 faster, 1 slower in B" in lines[0]
    assert lines[1].startswith("▸ a")
    assert "+4.0" in lines[1]
    both = [text_of(line) for line in side_by_side((lanes, lanes), (5, 5), 80)]
    assert both[0].replace(" A ", " B ") == both[1]


def test_a_replay_selects_seeks_and_finds_the_slow(tmp_path: Path) -> None:
    with Session(served(tmp_path, count=40)) as session, session.connect() as cursor:
        lanes = load_lanes(session, cursor)
    replay = Replay.of(lanes, None)
    assert len(replay.slow) == 3, "two of forty are over their p95, and one is at it"
    slow = replay.next_slow(1)
    assert slow is not None
    replay.show(slow, now=0)
    lane = lanes.lane(slow)
    assert replay.playhead.at == lane.arrival + (lanes.p95 or 0)
    assert replay.next_slow(-1) is None
    replay.zoom(1, now=0)
    frame = replay.frame(now=0, rows=5)
    assert slow in lanes.alive(frame.window)[frame.top : frame.top + 5]
    replay.select_by(-100)
    assert replay.selected == lanes.alive(replay.window)[0]
    assert Replay.of(lanes, 1).next_slow(1) == 1, "with an SLO of 1 ns everything is slow"
    assert not Replay.of(lanes, 10**12).slow


def test_a_replay_of_a_grown_run_stands_where_it_stood(lanes: Lanes) -> None:
    before, after = Replay.of(lanes, None), Replay.of(lanes, None)
    before.seek(lanes.window.low + 50 * MS, now=0)
    before.zoom(1, now=0)
    before.select_by(3)
    after.resume(before, now=0)
    assert (after.playhead.at, after.window, after.selected) == (before.playhead.at, before.window, before.selected)


@given(st.floats(0, 1), st.integers(0, 20), st.integers(1, 20))
def test_while_it_plays_the_lanes_that_live_are_on_screen(lanes: Lanes, part: float, top: int, rows: int) -> None:
    window = lanes.window
    at = min(window.low + int(part * window.span), window.high - 1)
    shown = lanes.alive(window)
    top = top_following(lanes, shown, at, top, rows)
    living = [i for i, lane in enumerate(map(lanes.lane, shown.tolist())) if lane.arrival <= at < lane.finish]
    assert 0 <= top <= max(len(shown) - 1, 0)
    if living:
        assert top <= living[0], "the first that lives is never above the screen"
        assert living[-1] < top + rows or top == living[0]


@given(
    at=st.floats(0, 1),
    label=texts,
    size=st.tuples(st.integers(0, 160), st.integers(0, 30)),
)
def test_a_mark_is_on_the_axis_whatever_it_is_called(
    lanes: Lanes, at: float, label: str, size: tuple[int, int]
) -> None:
    window = lanes.window
    mark = Mark(window.low + int(at * (window.high - window.low)), label)
    frame = Frame(window.low, window, 0, 0, marks=(mark,))
    width, height = size
    lines = chart(lanes, frame, width, height)
    assert all(width_of(line) <= width for line in lines)
    shape = geometry(lanes, width, height)
    if height > shape.minimap and shape.chart > 0:
        assert {"◆", "▼"} & set(text_of(lines[shape.minimap]))


def test_marks_stand_in_order_and_only_in_the_window(lanes: Lanes) -> None:
    window = lanes.window
    marks = (Mark(window.low + window.span // 4, "one"), Mark(window.high, "end"))
    axis = text_of(chart(lanes, Frame(window.low, window, 0, 0, marks=marks), 120, 10)[1])
    assert axis.index("◆one") < axis.rindex("◆") == len(axis) - 1
    half = window.zoom(1, 2, window.high)
    assert "one" not in text_of(chart(lanes, Frame(half.start, half, 0, 0, marks=marks), 120, 10)[1])


def test_lanes_under_a_filter_keep_their_numbers(lanes: Lanes) -> None:
    picked = lanes.rows(lanes.ok[1:4]).select(["rid", "attempt"])
    narrowed = lanes.under(picked)
    assert narrowed.sighted.tolist() == narrowed.ok.tolist() == lanes.ok[1:4].tolist()
    assert narrowed.alive(lanes.window).tolist() == lanes.ok[1:4].tolist()
    assert narrowed.p95 == lanes.columns["e2e"][lanes.ok[1:4]].max()
    assert set(narrowed.slow(0)) <= set(narrowed.sighted)
    assert max(narrowed.flying(40)) <= 3
    assert [narrowed.lane(i) for i in range(len(lanes))] == [lanes.lane(i) for i in range(len(lanes))]
    assert len(lanes.sighted) == len(lanes), "the whole run is as it was"


def test_long_ids_keep_what_tells_them_apart() -> None:
    assert fit_ends("cmpl-000000000016", 12) == "cmpl-…000016"
    assert fit_ends("chat-01", 12) == "chat-01     "
    assert fit_ends("cmpl-000000000016", 7) == "cmpl-0…"


@pytest.mark.parametrize(
    ("alive", "top", "room", "told"),
    [
        (21, 0, 15, " 1-6 of 21"),
        (3302, 0, 15, " 1-6/3302 +1w"),
        (1_500_000, 12_345, 15, " 12346/1500000 +1w"),
    ],
)
def test_the_head_counts_lanes_in_the_words_there_is_room_for(alive: int, top: int, room: int, told: str) -> None:
    frame = Frame(0, Window.whole(0, 10), None, top)
    shape = Geometry(room + 1, 60, 1, (), 2, 6, unseen=0 if alive == 21 else 1)
    words = _counted(frame, shape, alive)
    assert next((each for each in words if len(each) <= room), words[-1]) == told
