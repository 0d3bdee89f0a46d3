"""Ctrl-C ends a command with a sentence, also while it is still importing what it needs."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""The exit status after an interrupt: 128 + SIGINT, as shells have it."""

NO_VERDICT = "there is no verdict."


class _Interrupts:
    """What an interrupt means at the moment."""

    def __init__(self) -> None:
        self.meaning = NO_VERDICT
        self.at_work = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt where a command is at work; before that, end the process."""
        if self.at_work and not _is_importing(frame):
            raise KeyboardInterrupt
        os.write(2, f"interrupted: {self.meaning}\n".encode())
        # Not sys.exit: libraries whose import is cut short turn any exception into errors of their
        # own, or crash when the interpreter ends. Nothing has been done yet that needs cleaning up.
        os._exit(INTERRUPTED)


_interrupts = _Interrupts()


def end_in_a_sentence() -> None:
    """From now on, end the process with a sentence when it is interrupted."""
    # A shell that starts a program in the background has it ignore interrupts. That stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupts.handle)


def begin_work(meaning: str) -> None:
    """From now on, an interrupt is a KeyboardInterrupt, except during an import.

    Parameters
    ----------
    meaning
        What an interrupt during an import means for the user: a sentence.
    """
    _interrupts.meaning = meaning
    _interrupts.at_work = True


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
