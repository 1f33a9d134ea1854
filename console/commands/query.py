"""`tailtrace query RUN SQL [--format F] [--out FILE]`: ask a run in SQL. stdout is the answer and nothing else."""

import argparse
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa

from console.commands import FILTER_HELP, RUN_HELP
from console.filter_language import parse_filter
from console.querying.answer import rows_of
from console.querying.tables import tables
from console.session import Session
from console.text.answer import FORMATS, write_answer
from recorder.copies import local
from recorder.errors import UserError

_EPILOG: Final = """views:
  requests spans                                    of every attempt; times in ns
  latency      one row an attempt: queue_ns, ttft_ns, tpot_ns, e2e_ns
  causes       rid, attempt, cause, root, ns, measured, culprit: where each nanosecond went
  steps slices deliveries events samples stalls recorder   of workers and recorder; --filter leaves them whole
  --tables tells every column of all of them

  tailtrace query RUN 'SUMMARIZE latency'
  tailtrace query RUN 'SELECT cause, sum(ns) FROM causes GROUP BY cause' --format csv"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("sql", metavar="SQL", nargs="?", help="one SELECT in DuckDB's SQL, or - to read it from stdin")
    parser.add_argument("--tables", action="store_true", help="what there is to ask about, in place of a question")
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows; stderr says when there are more")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write here and not to stdout")


def run(args: argparse.Namespace) -> int:
    """Print the answer. What can be refused is refused before anything is asked or written."""
    if args.format == "parquet" and args.out is None and sys.stdout.isatty():
        raise UserError("Parquet is not for a terminal: give --out FILE, or send stdout to a file")
    if (args.sql is None) != args.tables:
        raise UserError("give one question in SQL, or --tables to see what there is to ask about")
    if args.limit is not None and args.limit < 0:
        raise UserError(f"--limit {args.limit}: give a number of rows, from 0")
    with Session(local(args.path)) as session:
        answer = _columns(session) if args.tables else _asked(session, args)
        for damage in session.damages:
            sys.stderr.write(f"tailtrace: damaged, and not in the answer: {damage.file}: {damage.what}\n")
    write_answer(answer, args.format, args.out)
    return 0


def _asked(session: Session, args: argparse.Namespace) -> pa.Table:
    """The answer; one row more than is wanted is asked for, so that a cut one says so."""
    sql = sys.stdin.read() if args.sql == "-" else args.sql
    with session.connect() as cursor:
        up_to = None if args.limit is None else args.limit + 1
        answer = rows_of(session, parse_filter(args.filter), sql, cursor, up_to)
    if args.limit is not None and answer.num_rows > args.limit:
        sys.stderr.write(f"tailtrace: the first {args.limit:,} rows; there are more\n")
        answer = answer.slice(0, args.limit)
    return answer


def _columns(session: Session) -> pa.Table:
    """Every column of every table, as the schema browser has them."""
    with session.connect() as cursor:
        found = tables(session, cursor)
    names = ("table", "column", "type", "unit", "doc")
    rows = [
        dict(zip(names, (table.name, column.name, column.type, column.unit, column.doc), strict=True))
        for table in found
        for column in table.columns
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))
