"""Recordings of other engines become ordinary runs: one module per format, recognised by content."""

from recorder.importing.importer import import_file
from recorder.importing.recording import ImportingError, Recording

__all__ = ["ImportingError", "Recording", "import_file"]
