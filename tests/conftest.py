"""What all tests start from: children that can be interrupted."""

import signal

# Whoever starts the tests in the background of a script has them ignore SIGINT, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
