"""`tailtrace query RUN SQL [--format F] [--out FILE]`: ask a run in SQL. stdout is the answer and nothing else."""

import argparse
import sys
from pathlib import Path
from typing import Final

from console.commands import FILTER_HELP, RUN_HELP
from console.filter_language import parse_filter
from console.session import Session, check_reads_only
from console.text.answer import FORMATS, write_answer
from recorder.copies import local
from recorder.errors import UserError

_EPILOG: Final = """views:
  requests spans                                    of every attempt; times in ns
  latency      one row an attempt: queue_ns, ttft_ns, tpot_ns, e2e_ns
  causes       rid, attempt, cause, root, ns, measured, culprit: where each nanosecond went
  steps slices deliveries events samples recorder   of workers and recorder; --filter leaves them whole

  tailtrace query RUN 'SUMMARIZE latency'
  tailtrace query RUN 'SELECT cause, sum(ns) FROM causes GROUP BY cause' --format csv"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("sql", metavar="SQL", help="one SELECT in DuckDB's SQL, or - to read it from stdin")
    parser.add_argument("--filter", metavar="TEXT", default="", help=FILTER_HELP)
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write here and not to stdout")


def run(args: argparse.Namespace) -> int:
    """Print the answer. What can be refused is refused before anything is asked or written."""
    if args.format == "parquet" and args.out is None and sys.stdout.isatty():
        raise UserError("Parquet is not for a terminal: give --out FILE, or send stdout to a file")
    sql = sys.stdin.read() if args.sql == "-" else args.sql
    only = parse_filter(args.filter)
    with Session(local(args.path)) as session, session.connect() as cursor:
        check_reads_only(sql)
        session.narrow(cursor, only, causes="causes" in sql.lower())
        answer = session.user_query(sql, cursor=cursor)
        for damage in session.damages:
            sys.stderr.write(f"tailtrace: damaged, and not in the answer: {damage.file}: {damage.what}\n")
    write_answer(answer, args.format, args.out)
    return 0
