"""A service level objective: limits of a request's latencies, and the share of requests that must stay inside them."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Final

from console.decimals import exact, whole_ns
from recorder.errors import UserError

LIMITED: Final = ("ttft", "tpot", "e2e")
DEFAULT_SHARE: Final = Fraction(99, 100)


class SloError(UserError):
    """An SLO that can't be used: says which file, which key, and what is allowed there."""


@dataclass(frozen=True)
class Slo:
    """Limits in ns, None where there is none; a request is inside if it was answered and kept all of them (SPEC D2)."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None
    e2e_ns: int | None = None
    share: Fraction = DEFAULT_SHARE

    def __bool__(self) -> bool:
        return any(limit is not None for limit in self.limits.values())

    @property
    def limits(self) -> dict[str, int | None]:
        """Measure -> limit in ns."""
        return {"ttft": self.ttft_ns, "tpot": self.tpot_ns, "e2e": self.e2e_ns}

    @property
    def params(self) -> dict[str, int | None]:
        """The limits as questions in SQL take them."""
        return {f"{name}_ns": limit for name, limit in self.limits.items()}

    def met(self, inside: int, of: int) -> bool:
        """Whether so many inside are enough; of no requests, none are."""
        return of > 0 and inside >= self.share * of

    def document(self) -> dict[str, float | None]:
        """For other programs."""
        limits = {f"{name}_ms": None if limit is None else limit / 1e6 for name, limit in self.limits.items()}
        return {**limits, "share": float(self.share)}

    def __str__(self) -> str:
        kept = [f"{name.upper()} {limit / 1e6:,g} ms" for name, limit in self.limits.items() if limit is not None]
        return f"{', '.join(kept)} for {float(self.share) * 100:g} % of the requests"


def slo_of(values: Mapping[str, object], origin: str) -> Slo:
    """From `ttft_ms`, `tpot_ms`, `e2e_ms` and `share`, as TOML or options have them. Raises SloError or NumberError."""
    check_keys(values, [*(f"{name}_ms" for name in LIMITED), "share"], origin)
    limits: dict[str, int] = {}
    for name in LIMITED:
        if (value := values.get(f"{name}_ms")) is not None:
            limits[f"{name}_ns"] = whole_ns(value, f"{origin} {name}_ms")
            if not limits[f"{name}_ns"]:
                raise SloError(f"{origin} {name}_ms: no request takes 0 ms; give more, or leave it away")
    share = exact(values.get("share", "0.99"), f"{origin} share", 0, 1)
    if not share:
        raise SloError(f"{origin} share: a share of 0 is always met; give one above 0, such as 0.99")
    return Slo(**limits, share=share)


def read_slo(path: Path) -> Slo:
    """The section `[slo]` of a TOML file; `[budget]` and `[causes]` beside it are left to `tailtrace budget`."""
    data = read_toml(path)
    check_keys(data, ["slo", "budget", "causes"], str(path))
    slo = slo_of(section(data, "slo", path), f"{path}: [slo]")
    if not slo:
        raise SloError(f"{path}: [slo] has no limit; give ttft_ms, tpot_ms or e2e_ms")
    return slo


def read_toml(path: Path) -> dict[str, object]:
    """A TOML file with its decimals exact. Raises SloError."""
    try:
        return tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise SloError(f"{path}: can't read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SloError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise SloError(f"{path}: not valid TOML: {error}") from error


def section(data: Mapping[str, object], name: str, path: Path) -> Mapping[str, object]:
    """One section of a file. Raises SloError where it is missing, or is no section."""
    found = data.get(name)
    if not isinstance(found, Mapping):
        raise SloError(f"{path}: there is no section [{name}]")
    return found


def check_keys(values: Mapping[str, object], known: Sequence[str], origin: str) -> None:
    """Raise SloError for a key that does not belong here."""
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise SloError(f"{origin}: unknown key {key!r}; {hint}")
