"""What holds for all tests."""

import gc
import signal

# Ctrl-C is tested with real signals, which processes that a shell started in the background do not
# hear otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Take what the imports left out of the garbage collector's sight.

    Tests that ask whether something is cleaned up collect garbage: half a second each with all of
    torch in sight, next to nothing without.
    """
    gc.collect()
    gc.freeze()
