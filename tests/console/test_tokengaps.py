"""The gaps between tokens: they tile, and add up to the causes that the attribution finds for the same time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.request import Life, lives
from console.session import Session
from console.tokengaps import Loss, Pass, Stall, token_gaps, token_givers
from recorder.words import Role
from tests.engine.runs import make_demo_run

MS = 1_000_000
ROLES = (Role.DECODE.value, Role.RECOMPUTE.value, Role.PREFILL.value, None)


@st.composite
def ledgers(draw: st.DrawFn) -> list[Pass]:
    """Passes that tile time, and what one attempt did in them."""
    now, passes = draw(st.integers(0, 10**6)), []
    for step in range(draw(st.integers(1, 12))):
        cuts = [now]
        for _ in range(3):
            cuts.append(cuts[-1] + draw(st.integers(0, 50)))
        sched, execution, done, end = cuts
        passes.append(
            Pass(step, sched, execution, done, end, mixed=draw(st.booleans()), alone=draw(st.integers(0, 40)),
                 role=draw(st.sampled_from(ROLES)), tokens=draw(st.integers(1, 4)), before=draw(st.integers(0, 9)),
                 prefiller=draw(st.sampled_from([None, 7])), whole=draw(st.booleans()))
        )  # fmt: skip
        now = end
    return passes


losses = st.lists(st.builds(Loss, st.integers(0, 12), st.sampled_from([None, "KV_BLOCKS"]), st.none()), max_size=3)


@given(ledgers(), losses, st.none() | st.integers(0, 20), st.lists(st.integers(0, 40), max_size=6))
def test_the_parts_of_a_gap_are_the_whole_of_it(
    passes: list[Pass], lost: list[Loss], prompt: int | None, cuts: list[int]
) -> None:
    edges = sorted({passes[0].sched + cut * 10 for cut in cuts})
    stalls = [Stall(begin, end, "HOST_GC") for begin, end in zip(edges[::2], edges[1::2], strict=False)]
    gaps = token_gaps(passes, prompt, lost, stalls)
    givers = [passes[place] for place in token_givers(passes, prompt)]
    assert len(gaps) == max(len(givers) - 1, 0) or (prompt is not None and len(gaps) < len(givers))
    bounds = [(one.done, other.done, other.step) for one, other in pairwise(givers)]
    for gap in gaps:
        assert sum(gap.parts.values()) == gap.ns
        assert all(ns > 0 for ns in gap.parts.values()), "passes tile: nothing is left over, nothing is twice"
        assert (gap.since, gap.until, gap.step) in bounds
    assert [gap.token for gap in gaps] == sorted({gap.token for gap in gaps})


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[Life]:
    """Every request of a run so short of KV blocks that some are preempted, each as `tailtrace request` tells it."""
    run = tmp_path_factory.mktemp("runs") / "tight"
    make_demo_run(run, "continuous", n=40)
    with Session(run) as session:
        ids = session.query("SELECT request_id FROM requests WHERE status = 'ok'")["request_id"].to_pylist()
        return [life for wanted in ids for life in lives(session, wanted)]


def test_every_token_of_a_run_is_found(told: list[Life]) -> None:
    for life in told:
        request = life["request"]
        assert len(life["gaps"]) == request["output_tokens"] - 1
        assert sum(gap["ns"] for gap in life["gaps"]) == request["last_token"] - request["first_token"]
        assert life["gaps"] == sorted(life["gaps"], key=lambda gap: (-gap["ns"], gap["token"]))


def test_the_gaps_add_up_to_the_causes(told: list[Life]) -> None:
    """Nothing decodes before its first token, so these causes lie wholly between tokens (SPEC F1)."""
    seen = set()
    for life in told:
        for cause in ("DECODE", "STALLED_BY_PREFILL", "RECOMPUTE", "SKIPPED", "PREEMPTED/KV_BLOCKS"):
            whole = sum(row["ns"] for row in life["causes"] if row["cause"] == cause)
            between = sum(gap["parts_ns"].get(cause, 0) for gap in life["gaps"])
            lost_early = life["request"]["first_token"] > min(
                (event["t"] for event in life["events"] if event["kind"] == "preempted"), default=2**63
            )
            assert between == whole or (lost_early and between < whole), (life["request"]["request_id"], cause)
            seen |= {cause} if between else set()
    assert {"DECODE", "STALLED_BY_PREFILL", "RECOMPUTE", "PREEMPTED/KV_BLOCKS"} <= seen


def test_a_gap_names_who_is_behind_it(told: list[Life]) -> None:
    for life in told:
        for gap in life["gaps"]:
            if "STALLED_BY_PREFILL" in gap["parts_ns"]:
                assert gap["culprit"] is not None
            blamed = {row["culprit"] for row in life["causes"] if row["culprit"] is not None}
            assert gap["culprit"] is None or gap["culprit"] in blamed


def test_where_passes_were_left_out_there_is_no_gap_and_tokens_keep_their_numbers() -> None:
    prefill = Pass(0, 0, 1, 5, 6, role="prefill", tokens=30)
    decodes = [Pass(step, 6 * step, 6 * step + 1, 6 * step + 5, 6 * step + 6, role="decode", tokens=1, before=29 + step)
               for step in range(1, 9)]  # fmt: skip
    everything = token_gaps([prefill, *decodes], 30)
    assert [gap.token for gap in everything] == [2, 3, 4, 5, 6, 7, 8, 9]
    some = token_gaps([prefill, *decodes[:2], *decodes[5:]], 30)
    assert some == [gap for gap in everything if gap.token in {2, 3, 8, 9}]


def test_a_prefill_in_chunks_gives_a_token_with_its_last_one() -> None:
    chunks = [Pass(step, 0, 0, 0, 0, role="prefill", tokens=10, before=10 * step) for step in range(3)]
    decode = Pass(3, 0, 0, 0, 0, role="decode", tokens=1, before=30)
    again = [Pass(4 + step, 0, 0, 0, 0, role="recompute", tokens=16, before=16 * step) for step in range(2)]
    assert token_givers([*chunks, decode, *again], 30) == [2, 3, 5]
    resumed = [Pass(step, 0, 0, 0, 0, role="prefill", tokens=16, before=16 * step) for step in range(3)]
    assert token_givers(resumed, 30) == [2], (
        "with tokens of an earlier attempt there is more to compute than the prompt"
    )
    assert token_givers([*chunks, decode], None) == [3], "without the prompt's length only decodes are sure"
