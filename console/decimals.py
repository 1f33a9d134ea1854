"""Numbers typed by people, kept exact: decimals become fractions or whole nanoseconds, never floats."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from recorder.errors import UserError

_NS_A_MS: Final = 1_000_000
_MOST_MS: Final = 10**9
_FINEST: Final = -9
"""Decimal places beyond the point that are taken."""


class NumberError(UserError):
    """Something that is no number, or one out of its range: names what was given and what it takes."""


def exact(value: object, name: str, least: int = 0, most: int = 10**9) -> Fraction:
    """`value` (text, or a number from TOML read with `Decimal`) as a fraction from `least` to `most`, 9 places at most.

    Raises NumberError, which calls it `name`.
    """
    try:
        number = Decimal(str(value).strip()) if not isinstance(value, bool) else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise NumberError(f"{name}: {value!s} is not a number; give one such as 3 or 0.25")
    if not least <= number <= most:
        raise NumberError(f"{name}: {value!s} is not between {least:,} and {most:,}")
    if _finest_place(number) < _FINEST:
        raise NumberError(f"{name}: {value!s} has more than {-_FINEST} decimal places")
    return Fraction(number)


def whole_ns(value: object, name: str) -> int:
    """Milliseconds as nanoseconds. Raises NumberError for what is negative, too large or not whole in ns."""
    ns = exact(value, name, 0, _MOST_MS) * _NS_A_MS
    if ns.denominator != 1:
        raise NumberError(f"{name}: {value!s} ms is finer than a nanosecond")
    return ns.numerator


def _finest_place(number: Decimal) -> int:
    """The power of ten of its last digit that is not 0."""
    exponent = number.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0
