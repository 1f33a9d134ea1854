"""Runs against the first of them: the reports, what changed, and the same requests paired. Differences are b - a."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from console.filter import EVERYTHING, Filter
from console.jsonout import leaves
from console.measures import REPORTED
from console.report import Report, report
from console.session import Session
from console.statistics import paired
from recorder.words import Status

_MS: Final = 1e6
_EXTREMES: Final = 5
"""How many of the requests that won or lost most are named."""

_COMPARED: Final = ("requests", "ttft_ms", "tpot_ms", "e2e_ms", "phases_ms", "causes_ns", "throughput", "closure")
_SETUP: Final = ("config", "model", "devices", "workload", "seed", "clock")

Values = npt.NDArray[np.float64]


class Difference(TypedDict):
    """One setting that is not the same in both runs; null where a run does not have it."""

    key: str
    a: Any
    b: Any


class Comparison(TypedDict):
    """What `tailtrace compare A B --json` prints. `paired` is null when the runs have no request id in common."""

    a: Report
    b: Report
    delta: dict[str, Any]
    paired: dict[str, Any] | None
    differs: list[Difference]


def compare(a: Session, b: Session, only: Filter = EVERYTHING) -> Comparison:
    """Compare two runs under a filter. Pairs are requests of one `request_id` that both runs answered (SPEC D7, F6)."""
    return compare_all([a, b], only)[0]


def compare_all(runs: Sequence[Session], only: Filter = EVERYTHING, slo_ns: int | None = None) -> list[Comparison]:
    """Each of the other runs against the first."""
    reports = [report(run, only, slo_ns=slo_ns) for run in runs]
    return [
        Comparison(
            a=reports[0],
            b=other,
            delta={key: delta(reports[0].get(key), other.get(key)) for key in _COMPARED},
            paired=_paired(runs[0], run, only),
            differs=list(differences(reports[0]["setup"], other["setup"])),
        )
        for run, other in zip(runs[1:], reports[1:], strict=True)
    ]


def delta(a: Any, b: Any) -> Any:  # noqa: ANN401  # follows the shape of the reports
    """`{"diff": b - a, "ratio": b / a}` for each number that both sides have; null where one does not exist."""
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        a, b = a or {}, b or {}
        return {key: delta(a.get(key, _absent(b, key)), b.get(key, _absent(a, key))) for key in {**a, **b}}
    if a is None or b is None:
        return {"diff": None, "ratio": None}
    return {"diff": b - a, "ratio": b / a if a else None}


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Every setting that differs, by dotted key, in the order of `a` and then of `b`."""
    flat_a, flat_b = (dict(leaves({key: setup.get(key) for key in _SETUP})) for setup in (a, b))
    for key in {**flat_a, **flat_b}:
        if flat_a.get(key) != flat_b.get(key):
            yield Difference(key=key, a=flat_a.get(key), b=flat_b.get(key))


def _absent(other: Mapping[str, Any], key: str) -> object:
    """What a side lacks is 0 where it is a sum (a cause that did not occur), and of the other's shape otherwise."""
    return {} if isinstance(other.get(key), Mapping) else 0


@dataclass(frozen=True)
class Pairs:
    """The requests that both runs know, one row a pair, in the order of their arrival in `a`."""

    rows: pa.Table
    """`request_id`, and `rid`, `status` and the measures of each side with the suffixes `_a` and `_b`."""
    only_a: int
    only_b: int

    @property
    def answered(self) -> pa.Table:
        """The pairs whose request was answered in both runs: only their times can be compared."""
        both = pc.and_(*(pc.equal(self.rows[f"status_{side}"], Status.OK.value) for side in "ab"))
        return self.rows.filter(both)


def pair(a: Session, b: Session, only: Filter = EVERYTHING) -> Pairs:
    """Pair the requests of two runs by `request_id`; of several attempts (under the filter) the last one counts."""
    sides = [_ask(session, "per_request", only) for session in (a, b)]
    joined = sides[0].join(sides[1], "request_id", join_type="inner", left_suffix="_a", right_suffix="_b")
    only_a, only_b = (side.num_rows - joined.num_rows for side in sides)
    return Pairs(joined.sort_by([("arrival_a", "ascending"), ("rid_a", "ascending")]), only_a, only_b)


def _ask(session: Session, question: str, only: Filter) -> pa.Table:
    with session.connect(only) as cursor:
        return session.ask(question, cursor=cursor)


def _paired(a: Session, b: Session, only: Filter) -> dict[str, Any] | None:
    pairs = pair(a, b, only)
    if not pairs.rows.num_rows:
        return None
    answered = pairs.answered
    return {
        "by": "request_id",
        "formula": "b - a of each request that both runs answered; low to high: 95 % bootstrap interval of the median",
        "pairs": answered.num_rows,
        "only_a": pairs.only_a,
        "only_b": pairs.only_b,
        "outcomes": _outcomes(pairs.rows),
        **{f"{measure.name}_ms": _measure(answered, measure.column) for measure in REPORTED},
        "phases_ms": _named([_ask(session, "per_request_phases", only) for session in (a, b)], answered, _MS),
        "causes_ns": _named([_ask(session, "per_request_causes", only) for session in (a, b)], answered, 1),
        **_extremes(answered),
    }


def _outcomes(rows: pa.Table) -> list[dict[str, Any]]:
    """How the same requests ended in each run, most frequent first."""
    counted = rows.group_by(["status_a", "status_b"]).aggregate([("request_id", "count")]).to_pylist()
    outcomes = [{"a": row["status_a"], "b": row["status_b"], "requests": row["request_id_count"]} for row in counted]
    return sorted(outcomes, key=lambda row: (-row["requests"], row["a"], row["b"]))


def _measure(answered: pa.Table, column: str) -> dict[str, Any]:
    changed = pc.subtract(_floats(answered[f"{column}_b"]), _floats(answered[f"{column}_a"])).drop_null()
    return asdict(paired(changed.to_numpy() / _MS))


def _named(answers: list[pa.Table], answered: pa.Table, unit: float) -> dict[str, Any]:
    """Paired differences of what comes in names (phases, causes); a request without one spent no time there."""
    times_a, times_b = (_times(answer, answered[f"rid_{side}"]) for answer, side in zip(answers, "ab", strict=True))
    nothing = np.zeros(answered.num_rows)
    changed = {name: times_b.get(name, nothing) - times_a.get(name, nothing) for name in {**times_a, **times_b}}
    return {name: asdict(paired(values / unit)) for name, values in changed.items()}


def _times(answer: pa.Table, rids: pa.ChunkedArray) -> dict[str, Values]:
    """name -> ns of each of `rids`, in their order."""
    place = pc.index_in(answer["rid"], value_set=rids.combine_chunks())
    known = answer.append_column("place", place).filter(pc.is_valid(place))
    times: dict[str, Values] = {}
    for name in sorted(pc.unique(known["name"]).to_pylist()):
        some = known.filter(pc.equal(known["name"], name))
        times[name] = np.zeros(len(rids))
        times[name][some["place"].to_numpy()] = some["ns"].to_numpy()
    return times


def _extremes(answered: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The requests whose end-to-end time changed most, both ways."""
    rows = [
        {"request_id": name, "a_ms": a / _MS, "b_ms": b / _MS, "diff_ms": (b - a) / _MS}
        for name, a, b in zip(
            *(answered[key].to_pylist() for key in ("request_id", "e2e_ns_a", "e2e_ns_b")), strict=True
        )
    ]
    rows.sort(key=lambda row: (row["diff_ms"], row["request_id"]))
    return {
        "faster": [row for row in rows[:_EXTREMES] if row["diff_ms"] < 0],
        "slower": [row for row in reversed(rows[-_EXTREMES:]) if row["diff_ms"] > 0],
    }


def _floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.float64())
