"""The toy ledger by hand (SPEC E): its data, its timelines, its measures, its pictures, its command."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from engine.toy import command
from engine.toy.gantt import draw
from engine.toy.ledger import LEDGER, Hardware, ToyError, ToyRequest, arrivals_s
from engine.toy.measures import littles_law, nearest_rank, summarise, times
from engine.toy.policies import Policy, Settings
from engine.toy.replay import Journey, Replay, replay
from recorder.errors import UserError


def run_toy(policy: str, rate: str = "3", batch: int = 4, wait: str = "0.5", slo: str = "1.5") -> Replay:
    return replay(Settings(Policy(policy), Fraction(rate), batch, Fraction(wait), Fraction(slo)))


def stamps(run: Replay, rid: str) -> tuple[int | None, ...]:
    journey = next(journey for journey in run.journeys if journey.request.id == rid)
    return journey.prefill_start, journey.prefill_end, journey.first_token, journey.finish


def test_e1_the_ledger_is_the_seeds() -> None:
    assert len(LEDGER) == 16
    assert (sum(r.prompt for r in LEDGER), sum(r.output for r in LEDGER)) == (130, 63)
    assert LEDGER[0] == ToyRequest("R01", Fraction(0), 18, 12, "long")
    assert LEDGER[15] == ToyRequest("R16", Fraction("4.52"), 7, 3, "short")


def test_e1_a_rate_stretches_the_whole_trace() -> None:
    arrivals = arrivals_s(LEDGER, Fraction(3))
    assert arrivals[0] == 0
    assert arrivals[15] == 5
    assert arrivals[1] == Fraction(10, 100) * 5 / Fraction("4.52")
    assert arrivals_s(LEDGER, Fraction(6)) == [arrival / 2 for arrival in arrivals]


def test_e6_immediate_by_hand() -> None:
    run = run_toy("immediate")
    assert stamps(run, "R01") == (0, 1, 2, 13)
    assert stamps(run, "R02")[0] == 12


def test_continuous_by_hand() -> None:
    """R02..R04 join in ticks 2, 3 and 5, start at once and share the three slots with R01, which loses none."""
    run = run_toy("continuous")
    assert stamps(run, "R01") == (0, 1, 2, 13)
    assert stamps(run, "R02") == (2, 3, 4, 5)
    assert stamps(run, "R03") == (3, 4, 5, 7)
    assert stamps(run, "R04") == (5, 6, 7, 8)


def test_static_full_batch_by_hand() -> None:
    """A wait that never ends: the batch is full in tick 5, 36 prompt tokens take two ticks, four share three slots."""
    run = run_toy("static", wait="10")
    assert stamps(run, "R01") == (5, 7, 8, 19)
    assert stamps(run, "R02") == (5, 7, 8, 9)
    assert stamps(run, "R03") == (5, 7, 8, 11)
    assert stamps(run, "R04") == (5, 7, 9, 10)
    assert stamps(run, "R05")[0] == 24, "R05..R08 are complete only when R08 joins in tick 24"


def test_static_timer_runs_from_the_exact_arrival() -> None:
    """R01 arrives at 0 s: a wait of 0.2 s is over in tick 2, in which R02 (0.111 s) has just joined."""
    run = run_toy("static", wait="0.2")
    assert stamps(run, "R01") == (2, 3, 4, 15)
    assert stamps(run, "R02")[0] == 2
    assert stamps(run, "R03")[0] == 14, "the next batch waits for the slowest member of the first"
    assert stamps(run_toy("static", wait="0.2001"), "R01")[0] == 3


def test_static_leaves_with_what_there_is_once_nobody_is_to_come() -> None:
    run = run_toy("static", wait="1000", batch=16)
    assert stamps(run, "R01")[0] == 50, "the last request arrives at 5 s"


def test_the_kv_reserve_cuts_the_batch_but_not_the_head() -> None:
    """All at once: R01..R04 reserve 55 of 72; R05 needs 15 and still fits; R06 would make 77."""
    run = run_toy("continuous", rate="1e9", batch=16)
    assert [j.request.id for j in run.journeys if j.prefill_start == 0] == ["R01"]
    assert [j.request.id for j in run.journeys if j.prefill_start == 1] == ["R02", "R03", "R04", "R05"]
    assert next(tick.reserved for tick in run.ticks if tick.tick == 1) == 70


def test_kv_peak_counts_a_request_in_the_tick_in_which_it_finishes() -> None:
    """Tick 12: R01 emits its last token (18 + 12 held) while the prefill of R02 (6) ends."""
    run = run_toy("immediate")
    assert next(tick.cached for tick in run.ticks if tick.tick == 12) == 36
    assert summarise(run).kv_peak == 36


def test_e4_measures_are_exact() -> None:
    run = run_toy("static", wait="10")
    t = times(run.journeys[2], run.hardware.tick_s)
    arrival = Fraction(22, 100) * 5 / Fraction("4.52")
    assert t.queue_s == Fraction("0.5") - arrival
    assert t.ttft_s == Fraction("0.8") - arrival
    assert t.tpot_s == Fraction("0.15")
    assert t.e2e_s == Fraction("1.1") - arrival


def test_a_single_token_has_no_tpot_and_a_waiting_request_no_times() -> None:
    done = Journey(ToyRequest("A", Fraction(0), 1, 1), Fraction(0), 0, 0, 1, [2])
    assert times(done, Fraction(1, 10)).tpot_s is None
    waiting = times(Journey(LEDGER[0], Fraction(0), 0), Fraction(1, 10))
    assert (waiting.queue_s, waiting.ttft_s, waiting.tpot_s, waiting.e2e_s) == (None, None, None, None)


@pytest.mark.parametrize(("percent", "rank"), [(50, 8), (95, 16), (99, 16), (1, 1), (100, 16)])
def test_percentiles_are_nearest_rank(percent: int, rank: int) -> None:
    assert nearest_rank([Fraction(n) for n in range(16, 0, -1)], percent) == rank
    assert nearest_rank([], percent) is None


def test_e5_the_window_runs_the_ticks_that_start_inside_it() -> None:
    """Rate 4: the window ends at 5.15 s, so tick 51 runs and what it finishes, at 5.2 s, is not inside."""
    assert (run_toy("continuous").window_s, run_toy("continuous").end_tick) == (Fraction("6.4"), 64)
    run = run_toy("immediate", rate="4")
    assert (run.window_s, run.end_tick) == (Fraction("5.15"), 52)
    late = [journey for journey in run.journeys if journey.finish == 52]
    summary = summarise(run)
    assert summary.finished == sum(j.finish is not None for j in run.journeys) - len(late)
    assert summary.token_throughput == sum(len(j.token_ends) for j in run.journeys) / Fraction("5.15")


def test_e5_an_overloaded_window_is_censored() -> None:
    summary = summarise(run_toy("immediate", rate="6"))
    assert (summary.finished, summary.unfinished, summary.censored) == (8, 8, True)
    assert summary.throughput == 8 / Fraction("3.9")
    assert summarise(run_toy("continuous", rate="6")).censored is False


def test_e7_littles_law_only_where_it_may_be_applied() -> None:
    calm = run_toy("continuous")
    summary = summarise(calm)
    text = " ".join(littles_law(calm, summary))
    assert f"= {float(summary.mean_in_flight):.3f} requests in flight" in text
    assert "Conditions" in text
    unfinished = run_toy("immediate", rate="6")
    assert "not applied: 8 of 16" in littles_law(unfinished, summarise(unfinished))[0]
    overrun = run_toy("continuous", rate="8")
    assert not summarise(overrun).censored
    assert "not applied: more tokens arrive for decode" in littles_law(overrun, summarise(overrun))[0]


def test_a_trace_of_years_is_as_quick_as_one_of_seconds() -> None:
    run = run_toy("static", rate="0.000000001", wait="1000000")
    assert len(run.ticks) < 200
    assert summarise(run).finished == 16
    assert max(map(len, draw([run], 80))) <= 80


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rate": "0"}, "--rate"),
        ({"rate": "-2"}, "--rate"),
        ({"batch": 0}, "--max-batch"),
        ({"wait": "-0.1"}, "--max-wait-s"),
        ({"slo": "0"}, "--slo-s"),
    ],
)
def test_settings_that_make_no_replay(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ToyError, match=says):
        run_toy("static", **change)


@pytest.mark.parametrize(
    ("ledger", "says"),
    [
        ([ToyRequest("A", Fraction(0), 70, 3)], "A can never fit: prompt 70 \\+ output 3 = 73"),
        ([ToyRequest("A", Fraction(0), 0, 3)], "at least 1 token"),
        ([ToyRequest("A", Fraction(2), 1, 1), ToyRequest("B", Fraction(1), 1, 1)], "B .* stands after A"),
        ([ToyRequest("A", Fraction(0), 1, 1), ToyRequest("B", Fraction(0), 1, 1)], "after its first"),
        ([], "no request"),
    ],
)
def test_ledgers_that_can_not_be_run(ledger: list[ToyRequest], says: str) -> None:
    with pytest.raises(ToyError, match=says):
        replay(Settings(Policy.IMMEDIATE, Fraction(1), 1, Fraction(0), Fraction(1)), ledger, Hardware())


Ledger = Callable[..., str]


@pytest.fixture
def ledger(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Runs the command on its arguments, on a terminal of `columns`, and returns what it printed."""

    def call(*argv: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        parser = argparse.ArgumentParser()
        command.configure(parser)
        assert command.run(parser.parse_args(argv)) == 0
        return capsys.readouterr().out

    return call


def test_json_has_the_agreed_keys(ledger: Ledger) -> None:
    document = json.loads(ledger("--policy", "immediate", "--rate", "6", "--json"))
    counts = ["policy", "finished", "unfinished", "censored"]
    measures = ["p50_s", "p95_s", "p99_s", "throughput", "goodput", "token_throughput", "window_s"]
    assert list(document) == [*counts, *measures, "kv_peak", "requests"]
    assert document["requests"][1] == {
        "id": "R02",
        "arrival_ticks": 1,
        "prefill_start": 12,
        "prefill_end": 13,
        "first_token": 14,
        "finish": 15,
    }
    assert document["requests"][15]["prefill_start"] is None
    assert document["window_s"] == 3.9


def test_json_audit_adds_the_ticks(ledger: Ledger) -> None:
    document = json.loads(ledger("--json", "--audit"))
    assert document["audit"][1]["emitted"] == [["R01", 1]]


def test_options_are_exact_decimals(ledger: Ledger) -> None:
    assert json.loads(ledger("--rate", "0.3", "--json"))["window_s"] == 51.4
    for text in ("3/2", "nan", "inf", "1_0", "three", "", "1e999", "٣"):
        with pytest.raises(UserError, match="--rate"):
            ledger(f"--rate={text}")
    with pytest.raises(UserError, match=r"--max-batch: 1\.5 is not a whole"):
        ledger("--max-batch", "1.5")


def test_unknown_names_are_told_the_known_ones(ledger: Ledger) -> None:
    with pytest.raises(UserError, match="'fifo'; there are immediate, static, continuous"):
        ledger("--policy", "fifo")
    with pytest.raises(UserError, match="'x'; there are head-of-line, overload"):
        ledger("--preset", "x")


def test_the_account_marks_censored_percentiles(ledger: Ledger) -> None:
    rows = {
        line.strip("> ").split()[0]: line for line in ledger("--preset", "overload").splitlines() if line[2:].strip()
    }
    assert rows["immediate"].count("†") == 3
    assert rows["continuous"].count("†") == 0
    assert rows["static"].startswith("> ")


def test_the_head_of_line_preset_shows_r01_before_the_shorts(ledger: Ledger) -> None:
    lines = ledger("--preset", "head-of-line").splitlines()
    start = lines.index("R01 stands before R02, R03, R04:")
    finish = {tuple(line.split()[:3:2]): int(line.split()[-1]) for line in lines[start + 2 : start + 14]}
    assert finish[("R01", "immediate")] < finish[("R02", "immediate")]
    assert finish[("R04", "continuous")] < finish[("R01", "continuous")]


def test_a_presets_options_give_way(ledger: Ledger) -> None:
    document = json.loads(ledger("--preset", "overload", "--rate", "3", "--policy", "continuous", "--json"))
    assert (document["policy"], document["window_s"]) == ("continuous", 6.4)


def test_the_audit_fits_a_terminal_of_80_columns(ledger: Ledger) -> None:
    text = ledger("--audit", "--preset", "head-of-line")
    assert max(map(len, text.splitlines())) <= 80
    assert "R01 ▒████████████\n" in text
    assert "R01 ·····▒▒████████████\n" in text
    assert "start prefill R01 R02 R03" in text


def test_a_wide_terminal_puts_the_policies_beside_each_other(ledger: Ledger) -> None:
    lines = ledger("--audit", columns=220).splitlines()
    assert any(line.split() == ["immediate", "static", "continuous"] for line in lines)
    row = next(line for line in lines if line.startswith("R01 ▒"))
    assert row.count("█") == 3 * 12
    assert row.count("▒") == 1 + 2 + 1


def test_a_long_trace_is_folded_and_says_so(ledger: Ledger) -> None:
    text = ledger("--audit", "--rate", "0.7")
    assert "one column is 4 ticks" in text
    assert max(map(len, text.splitlines())) <= 80


def test_e8_the_checklist_asks_its_eight_questions(ledger: Ledger) -> None:
    text = ledger("--checklist", "--rate", "6", "--policy", "immediate")
    assert [line[0] for line in text.splitlines() if line[1:3] == ". "] == list("12345678")
    assert "decode: 23.6 of 30 tokens/s, 79 % loaded, full at 7.62 requests/s." in text
    assert "prefill: 48.8 of 240 tokens/s" in text
    assert "not applied: 8 of 16" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_command_loads_neither_torch_nor_http() -> None:
    code = (
        "import sys, engine.toy.command;"
        "print(sorted({'torch', 'aiohttp', 'numpy', 'textual', 'pyarrow'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
