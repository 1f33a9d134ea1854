"""JSON for other programs: ASCII-safe, one document, and null where a number does not exist."""

import json
import math
from typing import Any, TextIO


def write_json(out: TextIO, document: object) -> None:
    """Write one indented document and end the line."""
    json.dump(finite(document), out, indent=2, allow_nan=False, default=str)
    out.write("\n")


def finite(value: Any) -> Any:  # noqa: ANN401  # a JSON document is as deep as it is
    """The same document with null for NaN and the infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
