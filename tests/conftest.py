"""What all tests start from: children that can be interrupted, one thread for each matrix, a worker for each core."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Whoever starts the tests in the background of a script has them ignore SIGINT, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Models are tiny here: threads that wait for each other take the cores from the other worker and make nothing faster.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No time for a single example: other workers use the machine too, and a test that hangs has its own timeout.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker for each core where a whole folder is asked for; none for a few files, so that they can be debugged."""
    whole = any(Path(name).is_dir() for name in config.args)
    return (os.cpu_count() or 1) if whole else 0
