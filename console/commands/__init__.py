"""The commands of `tailtrace`, one module each: arguments in, one answer out."""

from typing import Final

RUN_HELP: Final = "folder of a run, or its URL (s3://..., or whatever fsspec reads)"
