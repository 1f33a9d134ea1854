"""What-if answers and held-out checks as lines of text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.cost.model import CostFit
from engine.simulate.cost import LinearCost, Shape
from engine.whatif.answer import STATISTICS as ASKED
from engine.whatif.answer import Answer
from engine.whatif.measures import LATENCIES, STAGES, Summary
from engine.whatif.self_check import STATISTICS as CHECKED
from engine.whatif.self_check import SelfCheck

_WIDTH: Final = 12
_SHOWN: Final = 8
"""Batch sizes of which the cost is told one by one."""
_TITLES: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def check_lines(found: SelfCheck) -> Iterator[str]:
    """The fit, then every stage and latency: recorded, predicted, error."""
    yield from fit_lines(found.fit)
    yield ""
    yield f"predicted against recorded, {found.requests} requests it had not seen"
    yield _row("ms", [f"{kind} {name}" for name in CHECKED for kind in ("rec", "sim")], width=_WIDTH)
    for name in (*STAGES, *LATENCIES):
        cells = [_ms(side[name][key]) for key in CHECKED for side in (found.recorded, found.predicted)]
        yield _row(_TITLES.get(name, name), cells)
    yield ""
    yield _row("error", CHECKED)
    for name in (*STAGES, *LATENCIES):
        yield _row(_TITLES.get(name, name), [_percent(found.errors[name][key]) for key in CHECKED])
    if found.preemptions:
        yield f"the simulation preempted {found.preemptions} times"
    yield from (f"note: {note}" for note in found.notes)


def answer_lines(told: Answer, shown_by: str) -> Iterator[str]:
    """The fit, the error of the re-run, the verdict, and what the change does."""
    yield from fit_lines(told.fit)
    yield ""
    yield "the recorded configuration re-run, against the recording"
    yield from _against(told.recorded, told.again, told.errors)
    yield _verdict(told)
    yield from (f"  {reason}" for reason in told.reasons[1:])
    yield ""
    yield f"what if, against the {'recording, whose steps it follows' if told.replayed else 're-run'}"
    yield from _against(told.recorded if told.replayed else told.again, told.what_if, None)
    if any(told.preemptions):
        yield f"preemptions: {told.preemptions[0]} in the re-run, {told.preemptions[1]} in the what-if"
    if told.unserved:
        yield f"{told.unserved} requests that the recording answered are not answered here"
    if told.replayed:
        yield _followed(told)
    yield from (f"note: {note}" for note in told.notes)
    yield ""
    yield shown_by


def fit_lines(fit: CostFit) -> Iterator[str]:
    """The coefficients in their units, where they are from, and their held-out error."""
    learnt = {"configuration": "as configured", "steps": f"from {fit.trained_on:,} steps"}
    yield f"cost model {learnt.get(fit.source, f'from the stamps of {fit.trained_on:,} requests')}"
    if isinstance(fit.cost, LinearCost):
        yield f"  every step    {_cost(fit.decode)}"
    else:
        yield f"  decode alone  {_cost(fit.decode)}"
        yield f"  with prompts  {_cost(fit.mixed)}"
    yield from _shape_lines(fit.shape)
    delays = fit.delays
    yield (
        f"  host          {_us(delays.plan_ns)} to plan, {_us(delays.commit_ns)} to hand out each pass;"
        f" {_us(delays.ingress_ns)} in, {_us(delays.link_ns)} out"
    )
    if fit.plans_ahead:
        yield "  planning      one step ahead: who comes or ends in a step makes a difference to the one after the next"
    if fit.device_share is not None:
        yield f"  device        busy for {fit.device_share:.1%} of the execution, the rest is the host's"
    if fit.held_out:
        told = ", ".join(f"{name} {_held_out(name, value)}" for name, value in fit.held_out.items())
        yield f"  held out      {told}"


def _cost(cost: LinearCost) -> str:
    return (
        f"{cost.step / 1e9:.4g} ms + {cost.decode / 1e6:.4g} us/decode + {cost.decode_kv / 1e3:.4g} ns/cached token"
        f" + {cost.prefill / 1e6:.4g} us/prompt token + {cost.prefill_pair / 1e3:.4g} ns/pair"
    )


def _shape_lines(shape: Shape) -> Iterator[str]:
    """What no line fits, where something does not."""
    if any(shape.sizes):
        each = ", ".join(f"{n}: {ps / 1e9:+.3g}" for n, ps in enumerate(shape.sizes[:_SHOWN], 1))
        more = f", and {len(shape.sizes) - _SHOWN} more sizes" if len(shape.sizes) > _SHOWN else ""
        yield f"  decodes alone ms beyond the line by their number: {each}{more}"
    if shape.call:
        yield f"  attention     {shape.call / 1e9:.3g} ms/call, one for each group of like contexts or tile of a prompt"


def _held_out(name: str, value: float) -> str:
    return f"{value:.0f}" if name == "steps" else f"{value:+.1%}"


def _verdict(told: Answer) -> str:
    if told.trusted:
        return f"within {told.limit:.0%}: the answer below can be believed to about that"
    return f"NOT TO BE TRUSTED: {told.reasons[0]}; suspected:"


def _followed(told: Answer) -> str:
    replayed = told.replayed
    if replayed is None:
        return ""
    if replayed.differs_at is None:
        return f"recorded steps: all {replayed.followed:,} followed, no plan differs: this is what happened"
    whose = f" of worker {replayed.worker}" if replayed.worker else ""
    return (
        f"recorded steps: exact until step {replayed.differs_at:,}{whose}, the first whose plan differs"
        f" ({replayed.how}); from there on by the cost model, {replayed.followed:,} of {replayed.recorded:,} followed"
    )


def _against(
    before: Mapping[str, Summary], after: Mapping[str, Summary], errors: Mapping[str, Summary] | None
) -> Iterator[str]:
    yield _row("ms", ASKED, width=32)
    for name in LATENCIES:
        cells = []
        for key in ASKED:
            change = errors[name][key] if errors else _change(before[name][key], after[name][key])
            cells.append(f"{_ms(before[name][key])} > {_ms(after[name][key])} {_percent(change)}")
        yield _row(_TITLES[name], cells, width=32)


def _change(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or not before else after / before - 1


def _row(head: str, cells: Sequence[str], width: int = _WIDTH) -> str:
    return f"  {head:<9}" + "".join(f"{cell:>{width}}" for cell in cells)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f}"


def _us(ns: int) -> str:
    return f"{ns / 1e3:,.0f} us"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"
