"""Which windows the flight recorder keeps: exactly the time around slow requests, told from earlier ones alone."""

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.left_out import LeftOut, Stretch
from recorder.windows import Ended, KeepRule, kept_windows, touched, union, window
from recorder.words import Status

windows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))))
attempts = st.lists(
    st.builds(
        lambda status, arrival, length: Ended(status, arrival, arrival + length),
        st.sampled_from(Status),
        st.integers(0, 1000),
        st.integers(0, 50),
    )
)
rules = st.builds(
    KeepRule,
    slo_ns=st.sampled_from([0, 1, 10, 40]),
    slowest=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    among=st.integers(1, 12),
    margin_ns=st.integers(0, 20),
)


def slow(before: list[Ended], attempt: Ended, rule: KeepRule) -> bool:
    """The rule in other words: `before` ended before this one."""
    if attempt.status is Status.REJECTED:
        return False
    lengths = [one.end - one.arrival for one in [*before, attempt] if one.status is not Status.REJECTED]
    last, mine = lengths[-rule.among :], lengths[-1]
    slower = sum(length > mine for length in last)
    is_among_slowest = rule.slowest > 0 and slower < np.ceil(rule.slowest * len(last))
    failed = attempt.status in {Status.OPEN, Status.FAILED, Status.EXPIRED}
    return bool(failed or (rule.slo_ns and mine > rule.slo_ns) or is_among_slowest)


@given(windows)
def test_a_union_holds_the_same_instants_in_windows_that_lie_apart(found: list[tuple[int, int]]) -> None:
    joined = union(found)
    instants = {t for begin, end in found for t in range(begin, end + 1)}
    assert {t for begin, end in joined for t in range(begin, end + 1)} == instants
    assert all(earlier[1] < later[0] for earlier, later in pairwise(joined))


@given(attempts, rules)
def test_kept_is_the_time_around_the_slow_ones(ended: list[Ended], rule: KeepRule) -> None:
    chosen = [one for at, one in enumerate(ended) if slow(ended[:at], one, rule)]
    assert kept_windows(ended, rule) == union(window(one, rule) for one in chosen)


@given(attempts, attempts, rules)
def test_a_verdict_is_final(ended: list[Ended], later: list[Ended], rule: KeepRule) -> None:
    """What is kept of a run stays kept, whatever comes after it."""
    whole = kept_windows([*ended, *later], rule)
    assert all(any(a <= begin and end <= b for a, b in whole) for begin, end in kept_windows(ended, rule))


@given(windows, windows)
def test_a_pass_is_kept_where_it_touches_a_window(kept: list[tuple[int, int]], passes: list[tuple[int, int]]) -> None:
    begin, end = np.array(passes, np.int64).reshape(-1, 2).T
    expected = [any(first <= b and a <= last for first, last in kept) for a, b in passes]
    assert touched(union(kept), begin, end).tolist() == expected


def within(since: int, until: int, gone: Stretch) -> bool:
    """Whether a life has an instant of the stretch; one without length has its only one, if that is inside."""
    return max(since, gone.t_sched) < min(until, gone.t_end) or (since == until and gone.t_sched < since < gone.t_end)


ledgers = st.lists(st.booleans(), min_size=1, max_size=12)


@example([False, False, True, True], [False], [(0, 9, 0)])
@given(ledgers, ledgers, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20))))
def test_left_out_knows_its_passes_and_whom_they_touch(
    one: list[bool], other: list[bool], lives: list[tuple[int, int, int]]
) -> None:
    """Two workers, whose pass n lasts from 3n to 3n + 3; `True` is left out."""
    gone = {(worker, step) for worker, passes in enumerate((one, other)) for step, out in enumerate(passes) if out}
    singly = [Stretch(worker, step, step + 1, 3 * step, 3 * step + 3) for worker, step in sorted(gone)]
    left_out = LeftOut().and_also(singly[::2]).and_also(singly[1::2])
    assert (left_out.passes, left_out.ns) == (len(gone), 3 * len(gone))
    assert all(
        a[:2] != (b.worker, b.first)
        for a, b in zip([(s.worker, s.stop) for s in left_out.stretches], left_out.stretches[1:], strict=False)
    )
    worker, step = np.array([(worker, step) for worker in range(3) for step in range(-1, 14)]).T
    asked = zip(worker.tolist(), step.tolist(), strict=True)
    assert left_out.holds(worker, step).tolist() == [each in gone for each in asked]
    who, since, length = np.array(lives, np.int64).reshape(-1, 3).T
    expected = [any(w == each.worker and within(a, a + n, each) for each in left_out.stretches) for w, a, n in lives]
    assert left_out.touches(who, since, since + length).tolist() == expected
