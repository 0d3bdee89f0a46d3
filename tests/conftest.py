"""Ctrl-C is tested with real signals, which processes that a shell started in the background do not
hear otherwise."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
