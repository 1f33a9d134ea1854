"""The commands of `tailtrace`, one module each: arguments in, one answer out."""

from typing import Final

RUN_HELP: Final = "folder of a run, or its URL (s3://..., or whatever fsspec reads)"

FILTER_HELP: Final = (
    "only these requests, as `/` takes it in the console: 'status:ok e2e>2s cause:QUEUE>20%%' (--filter='-tier:paid' "
    "for all but those)"
)
