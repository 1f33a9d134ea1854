"""The host held up: collections, a blocked event loop, steps of a shape seen for the first time, work between steps."""

from dataclasses import replace
from typing import Final

from console.explain.claim import Claim
from console.explain.evidence import Stall
from console.explain.finding import Finding, Kind, Suggestion
from console.explain.suspects.base import Suspect, blame, whatever
from console.widgets.ink import duration

_GC: Final = Suggestion("freeze what the process keeps after its warm-up (gc.freeze), and collect less often")
_LOOP: Final = Suggestion("keep long work off the event loop: tokenise long prompts in a thread")
_COLD: Final = Suggestion("warm more shapes up before serving")
_HOST: Final = Suggestion("let more tokens share a pass: the host's time is spent once for each")


def _tell_gc(claim: Claim) -> Finding | None:
    return _stalled(claim, Kind.GC_PAUSES, "gc", "collections of garbage stopped the process", _GC)


def _tell_loop(claim: Claim) -> Finding | None:
    stalls = claim.evidence.stalls
    kind = "tokenise" if claim.culprits and "tokenise" in stalls and stalls["tokenise"].n else "loop"
    return _stalled(claim, Kind.EVENT_LOOP, kind, "the front end's event loop was held up", _LOOP)


def _tell_cold(claim: Claim) -> Finding | None:
    return _stalled(claim, Kind.COLD_STEPS, "warmup", "first steps of a shape took longer than later ones", _COLD)


def _tell_host(claim: Claim) -> Finding | None:
    said = [f"{claim.opening(claim.named_causes())}: the host between the steps, planning and handing out."]
    return replace(claim.finding(Kind.HOST_TIME, said), suggestion=_HOST)


def _stalled(claim: Claim, kind: Kind, stall: str, words: str, advice: Suggestion) -> Finding | None:
    found = claim.evidence.stalls.get(stall)
    sentences = [f"{claim.opening(claim.named_causes())}: {words}.", _longest(found), blame(claim)]
    made = replace(claim.finding(kind, sentences), suggestion=advice)
    if found is None or found.longest_at is None:
        return made
    figures = {"stalls": found.n, "stalled_ns": found.ns, "longest_ns": found.longest_ns}
    return replace(made, at=made.at or claim.evidence.instant(found.longest_at), figures=figures)


def _longest(stall: Stall | None) -> str:
    if stall is None or not stall.n:
        return ""
    where = "the front end" if stall.source == "frontend" else f"worker {stall.device}"
    detail = {"gc": f", generation {stall.detail}", "warmup": f", shape {stall.detail}"}.get(stall.kind, "")
    told = detail if stall.detail else ""
    times = "once" if stall.n == 1 else f"{stall.n:,} times"
    longest = f"the longest {duration(stall.longest_ns)} in {where}{told}"
    return f"That was so {times}, for {duration(stall.ns)} in all, {longest}."


GC_PAUSES: Final = Suspect(Kind.GC_PAUSES, whatever(lambda cell: cell.cause == "HOST_GC"), _tell_gc)
EVENT_LOOP: Final = Suspect(Kind.EVENT_LOOP, whatever(lambda cell: cell.cause == "HOST_LOOP"), _tell_loop)
COLD_STEPS: Final = Suspect(Kind.COLD_STEPS, whatever(lambda cell: cell.cause == "HOST_WARMUP"), _tell_cold)
HOST_TIME: Final = Suspect(Kind.HOST_TIME, whatever(lambda cell: cell.cause in {"HOST_SCHED", "HOST_POST"}), _tell_host)
