"""Numbers typed by people, kept exact: decimals become fractions, never floats."""

import re
from fractions import Fraction

from recorder.errors import UserError

_DECIMAL = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII)

_SMALLEST, _LARGEST = Fraction(1, 10**30), Fraction(10**30)


class NumberError(UserError):
    """Text that is not a decimal number, or one out of its range: names the option and what it takes."""


def exact(text: str, name: str) -> Fraction:
    """`text` as a rational number; NumberError names `name` when it is not a plain decimal such as 3, 0.25 or 1e3."""
    if not _DECIMAL.fullmatch(text.strip()):
        raise NumberError(f"{name}: {text!r} is not a decimal number; give one such as 3 or 0.25")
    value = Fraction(text.strip())
    if value and not _SMALLEST <= abs(value) <= _LARGEST:
        raise NumberError(f"{name}: {text} is out of reach; give a number between 1e-30 and 1e30")
    return value


def exact_whole(text: str, name: str) -> int:
    """Like `exact`, for counts: NumberError unless the number is whole."""
    value = exact(text, name)
    if value.denominator != 1:
        raise NumberError(f"{name}: {text} is not a whole number")
    return value.numerator
