"""Sizes in bytes as people write them: `10 GB` and `10GiB`, read and printed."""

import re
from typing import Final

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_SCALES: Final[dict[str, int]] = {
    **{unit.lower(): 1000**power for power, unit in enumerate(_UNITS)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def size(count: int) -> str:
    """Bytes in three digits and a decimal unit."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{digits}f} {_UNITS[unit]}"


def parse_size(text: str) -> int:
    """Bytes; the unit has to be there, since `10` is ten of what? Raises ValueError with words."""
    match = _SIZE.fullmatch(text.strip().lower())
    if not match or match[2] not in _SCALES:
        raise ValueError(f"{text!r} is no size: give a number and a unit, as 500MB, 10GB or 1.5TiB")
    return round(float(match[1]) * _SCALES[match[2]])
