"""JSON for other programs: ASCII-safe, one document, and null where a number does not exist."""

import json
import math
from collections.abc import Iterator, Mapping
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


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # configurations nest as they like
    """Every value of a document that holds no others, by its dotted key: `requests.total`, `devices[0].name`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{prefix}[{place}]")
    else:
        yield prefix, value
