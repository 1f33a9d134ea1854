"""Workloads: files are known by their content, descriptions drawn alike, and what is wrong is named with its line."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.load.workload import WorkloadError
from engine.simulate.formats import read
from engine.simulate.lengths import SpecError, distribution
from engine.simulate.specs import make_workload, parse_spec
from engine.simulate.workload import Workload
from recorder.errors import UserError

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
SAMPLES = Path(__file__).parents[3] / "shared" / "samples"


def put(folder: Path, text: str, name: str = "anything.dat") -> str:
    """A file whose name says nothing."""
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def columns(workload: Workload) -> list[list[int]]:
    return [
        values.tolist()
        for values in (workload.arrival, workload.prompt_tokens, workload.max_tokens, workload.output_tokens)
    ]


# -- files -------------------------------------------------------------------------------------------------------------


def test_azure_csv_with_crlf_seven_digits_and_no_end_of_line(tmp_path: Path) -> None:
    text = AZURE + "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109"
    workload = read(put(tmp_path, text), 0)
    assert columns(workload) == [[0, 4_314_579_000], [374, 396], [109, 109], [44, 109]]
    assert workload.open_ended, "what clients asked for is not recorded, and the output tells it to nobody"
    assert workload.about["format"] == "Azure"


def test_mooncake_jsonl(tmp_path: Path) -> None:
    text = (
        '{"timestamp": 3000, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]}\n\n'
        '{"timestamp": 3027.5, "input_length": 600, "output_length": 0, "hash_ids": [0, 14]}\n'
    )
    workload = read(put(tmp_path, text), 0)
    assert columns(workload) == [[0, 27_500_000], [1100, 600], [500, 500], [500, 1]]
    assert workload.prefixes == [(0, 1, 2), (0, 14)]
    assert (workload.request(1, 5).prefix_of, workload.request(1, 5).prefix_tokens) == (1, 512)


def test_our_own_jsonl(tmp_path: Path) -> None:
    text = (
        '{"arrival_s": 0.5, "prompt_tokens": 7, "max_tokens": 3, "id": "a", "tier": "paid", "tenant": "ada"}\n'
        '{"arrival_s": 1.25, "prompt": "twelve bytes", "id": "b"}\n'
    )
    workload = read(put(tmp_path, text), 0)
    assert columns(workload) == [[500_000_000, 1_250_000_000], [7, 3], [3, 16], [0, 0]]
    first = workload.request(0, 500_000_000)
    assert (first.request_id, first.tier, first.tenant, first.output_tokens) == ("a", "paid", "ada", None)


def test_a_description_in_toml_is_the_one_of_the_command_line(tmp_path: Path) -> None:
    text = '# chats\nkind = "poisson"\nrate = 8\nn = 100\nprompt = "uniform(1, 9)"\n[tiers]\npaid = 1\nfree = 3\n'
    listed = read(put(tmp_path, text), 5)
    described = read("poisson:rate=8,n=100,prompt=uniform(1, 9),tiers=paid*1+free*3", 5)
    assert columns(listed) == columns(described)
    assert listed.tiers == described.tiers


@pytest.mark.parametrize("name", ["azure_llm_2023_conv.csv", "mooncake_conversation_trace_first6000.jsonl"])
def test_public_traces_are_read_whole(name: str) -> None:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    workload = read(str(path), 0)
    assert len(workload) == {"azure_llm_2023_conv.csv": 19_366}.get(name, 6_000)
    assert (np.diff(workload.arrival) >= 0).all()
    assert (workload.output_tokens >= 1).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["is empty"]),
        ("\n \n", ["is empty"]),
        (AZURE, ["is empty"]),
        (AZURE + "2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:45.68,3,4\n", [":3:", "earlier", "line 2", "sort"]),
        (AZURE + "2023-11-16 18:15:46.68,374,-44\n", [":2:", "-44", "negative"]),
        (AZURE + "2023-11-16 18:15:46.68,0,4\n", [":2:", "at least 1 token"]),
        (AZURE + "2023-11-16 18:15:46.68,374\n", [":2:", "is not TIMESTAMP"]),
        (AZURE + "2023-11-16 18:15:46.68,1,1\n2023-13-16 18:15:46.68,374,1\n", [":3:", "is no time"]),
        ('{"timestamp": 5, "input_length": 1, "output_length": 1}\n{"timestamp": 4, "input_length": 1,'
         ' "output_length": 1}', [":2:", "earlier", "line 1"]),
        ('{"timestamp": 5, "input_length": -1, "output_length": 1}', [":1:", "input_length"]),
        ('{"timestamp": 5, "input_length": 1, "output_length": -1}', [":1:", "output_length"]),
        ('{"timestamp": 5, "input_length": 1, "output_length": 1}\nhello', [":2:"]),
        ('{"arrival_s": 2, "prompt_tokens": 1}\n{"arrival_s": 1, "prompt_tokens": 1}', [":2:", "earlier", "sort"]),
        ('{"arrival_s": 2, "prompt_tokens": -1}', [":1:", "prompt_tokens"]),
        ('{"arrival_s": 1e9, "prompt_tokens": 1}', ["too far"]),
        ("{nonsense", [":1:", "not a JSON object"]),
        ("1,2,3\n", [":1:", "known"]),
        ("kind = \n", ["not valid TOML"]),
        ('kind = "poisson"\nrat = 8\n', ["workload", "'rat'", "did you mean rate"]),
        ("[project]\nname = 3\n", ["no kind of workload is given", "poisson"]),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        read(put(tmp_path, text), 0)
    assert str(caught.value).startswith(str(tmp_path))
    for words in said:
        assert words in str(caught.value)


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="can't read"):
        read(str(tmp_path / "nowhere"), 0)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        read(str(tmp_path / "bytes"), 0)


# -- descriptions ------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_workload_and_another_another() -> None:
    spec = "poisson:rate=8,n=200,prompt=lognormal(200,0.8),output=exponential(50),tiers=a+b"
    first, again, other = (read(spec, seed) for seed in (1, 1, 2))
    assert columns(first) == columns(again)
    assert first.tiers == again.tiers
    assert columns(first) != columns(other)


def test_what_one_key_draws_leaves_the_others_as_they_were() -> None:
    """SPEC D7: an experiment changes one variable."""
    one, two = read("poisson:rate=8,n=50,output=uniform(1,9)", 1), read("poisson:rate=8,n=50,output=uniform(1,99)", 1)
    assert columns(one)[:2] == columns(two)[:2]
    slow, fast = read("poisson:rate=8,n=50,prompt=uniform(1,9)", 1), read("poisson:rate=80,n=50,prompt=uniform(1,9)", 1)
    assert columns(slow)[1:] == columns(fast)[1:]


def test_poisson_arrivals_have_their_rate() -> None:
    arrival = read("poisson:rate=20,n=20000", 3).arrival
    gaps = np.diff(arrival) / 1e9
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 20, rel=0.05)


def test_bursts_come_together_and_at_their_distance() -> None:
    arrival = read("bursts:size=10,every_s=2,n=35", 0).arrival
    assert Counter(arrival.tolist()) == {0: 10, 2_000_000_000: 10, 4_000_000_000: 10, 6_000_000_000: 5}
    spread = read("bursts:size=10,every_s=2,spread_s=0.5,n=35", 0).arrival / 1e9
    assert (spread % 2 <= 0.5).all()


def test_stages_have_their_rates_one_after_the_other() -> None:
    """SPEC B8."""
    arrival = read("stages:levels=5x200+20x100+0x50+5x100", 4).arrival / 1e9
    counts = [int(((arrival >= a) & (arrival < b)).sum()) for a, b in ((0, 200), (200, 300), (300, 350), (350, 450))]
    assert counts == [pytest.approx(1000, rel=0.1), pytest.approx(2000, rel=0.1), 0, pytest.approx(500, rel=0.15)]


def test_a_closed_loop_says_that_it_is_one() -> None:
    """SPEC B8."""
    workload = read("closed:users=4,n=50,think_s=2", 0)
    assert workload.about["loop"] == "closed loop"
    assert workload.closed is not None
    assert workload.closed.users == 4
    assert workload.closed.think_ns.tolist() == [2_000_000_000] * 50
    assert read("steady:rate=1,n=1", 0).about["loop"] == "open loop"


def test_tiers_have_their_shares() -> None:
    tiers = Counter(read("steady:rate=1,n=10000,tiers=paid*1+free*3", 0).tiers or [])
    assert tiers["free"] / 10_000 == pytest.approx(0.75, abs=0.03)


def test_empirical_lengths_come_from_a_file(tmp_path: Path) -> None:
    path = put(tmp_path, "3\n5\n5\n")
    lengths = read(f"steady:rate=1,n=300,prompt=empirical({path})", 0).prompt_tokens
    assert Counter(lengths.tolist())[5] == pytest.approx(200, abs=40)
    assert set(lengths.tolist()) == {3, 5}


def test_distributions_keep_their_bounds() -> None:
    rng = np.random.default_rng(0)
    assert set(distribution("7", "x")(rng, 3)) == {7.0}
    assert set(distribution("fixed(7)", "x")(rng, 3)) == {7.0}
    drawn = distribution("lognormal(100, 2, 150)", "x")(rng, 1000)
    assert drawn.max() == 150
    assert np.median(drawn) == pytest.approx(100, rel=0.2)
    assert distribution("exponential(9)", "x")(rng, 5000).mean() == pytest.approx(9, rel=0.1)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("poison:rate=8", "unknown kind of workload 'poison'"),
        ("poisson:n=8", "rate is missing"),
        ("poisson:rate=0", "above 0"),
        ("poisson:rate=-3", "between 0 and"),
        ("poisson:rate=nan", "between 0 and"),
        ("poisson:rate=8,n=0", "it must be from 1"),
        ("poisson:rate=8,n=1.5", "whole number"),
        ("poisson:rate=8,users=3", "no key 'users'"),
        ("poisson:rate=8,rate=9", "twice"),
        ("poisson:rate=8,n", "no key=value"),
        ("poisson:rate=8,prompt=normal(3)", "unknown distribution normal"),
        ("poisson:rate=8,prompt=uniform(3)", "uniform(least, most)"),
        ("poisson:rate=8,prompt=uniform(3, 2)", "smaller number first"),
        ("poisson:rate=8,prompt=lognormal(0, 2)", "median"),
        ("poisson:rate=8,prompt=long", "'long' is not a number"),
        ("poisson:rate=8,prompt=empirical(/nowhere/at/all)", "can't read"),
        ("stages:levels=5", "levels"),
        ("stages:levels=0x5", "0 requests"),
        ("stages:levels=1e8x100", "more than"),
        ("closed:users=9,n=4", "9 users can't share 4 requests"),
        ("poisson:rate=8,tiers=paid*0", "tiers paid"),
    ],
)
def test_a_bad_description_is_refused_with_its_key(spec: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_workload(parse_spec(spec), 0)
    assert said in str(caught.value)


def test_open_ended_outputs_are_cut_to_the_room_there_is() -> None:
    workload = read("steady:rate=1,n=2,prompt=100,output=50", 0)
    assert workload.fitted(120).max_tokens.tolist() == [20, 20]
    assert workload.fitted(90).max_tokens.tolist() == [1, 1], "refused in its turn, as the prompt does not fit"
    asked = read("steady:rate=1,n=2,prompt=100,output=50,max_tokens=60", 0)
    assert asked.fitted(120).max_tokens.tolist() == [60, 60], "a client's own wish is not bent"
