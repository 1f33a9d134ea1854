"""What the recorder process tells the person at the terminal: one line each, on stderr."""

import sys


def say(message: str) -> None:
    """Write one line at once. A terminal that is gone is no reason to stop recording."""
    try:
        sys.stderr.write(f"tailtrace recorder: {message}\n")
        sys.stderr.flush()
    except OSError:
        return
