"""Bytes of a row at rest, beside the same rows in Parquet as pyarrow writes it by default (and in zstd).

`python -m tests.bench.bench_rest [--requests N]` prints one JSON object. The aims: 12 bytes a span, 4 a slice.
"""

import argparse
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from recorder.parts import ROW_GROUP, all_parts, read_part
from recorder.schema import TABLES
from tests.bench.generate import generate

AIMS = {"spans": 12, "slices": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = generate(Path(folder), args.requests)
        result = {name: measure(run, name) for name in ("spans", "slices", "requests", "events", "steps")}
    for name, aim in AIMS.items():
        result[name] |= {"aim": aim, "aim_met": result[name]["bytes"] <= aim}
    print(json.dumps(result, indent=2))


def measure(run: Path, name: str) -> dict[str, float]:
    """Bytes a row: in our parts, on the wire, and as plain Parquet."""
    parts = all_parts(run, name)
    rows = pa.concat_tables([read_part(TABLES[name], part.path) for part in parts])
    ours = sum(part.path.stat().st_size for part in parts) / rows.num_rows
    plain, zstd = (_plain(run, rows, codec) / rows.num_rows for codec in ("snappy", "zstd"))
    return {
        "bytes": round(ours, 2),
        "in_ring": TABLES[name].dtype.itemsize,
        "parquet_default": round(plain, 2),
        "parquet_zstd": round(zstd, 2),
        "ratio": round(ours / plain, 3),
    }


def _plain(run: Path, rows: pa.Table, codec: str) -> int:
    path = run / "plain"
    pq.write_table(rows, path, compression=codec, row_group_size=ROW_GROUP)
    return path.stat().st_size


if __name__ == "__main__":
    main()
