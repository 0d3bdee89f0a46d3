"""Ctrl-C and SIGTERM end a command with a sentence, also while it imports what it needs."""

from __future__ import annotations

import os
import signal
import sys

# This module is imported first, so it takes only what Python has at hand; see `twosample/__init__`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

NO_VERDICT = "there is no verdict."


# How a signal ends a command: the first word of its sentence, and the exit status, which is 128 +
# the number of the signal, as shells have it.
_ENDINGS = {
    signal.SIGINT: ("interrupted", 128 + signal.SIGINT),
    signal.SIGTERM: ("terminated", 128 + signal.SIGTERM),
}


class _Interrupts:
    """What a signal means at the moment."""

    def __init__(self) -> None:
        self.meaning = NO_VERDICT
        self.at_work = False
        self.done = False
        self.ending = _ENDINGS[signal.SIGINT]
        self.process = os.getpid()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt where a command is at work; before that, end the process."""
        if os.getpid() != self.process:  # a fork of ours that somebody ends
            os._exit(128 + number)
        if self.done:
            return
        self.ending = _ENDINGS[signal.Signals(number)]
        if self.at_work and not _is_importing(frame):
            raise KeyboardInterrupt
        self.end_at_once()

    def end_at_once(self) -> None:
        """Say the sentence and end the process, without giving anybody else a chance."""
        word, status = self.ending
        os.write(2, f"{word}: {self.meaning}\n".encode())
        temporary = sys.modules.get("twosample._data.temporary")
        if temporary is not None:
            temporary.remove_folders()
        # Not sys.exit: libraries whose import is cut short turn any exception into errors of their
        # own, or crash when the interpreter ends.
        os._exit(status)


_interrupts = _Interrupts()


def end_in_a_sentence() -> None:
    """From now on, end the process with a sentence when it is interrupted or terminated."""
    # A shell that starts a program in the background has it ignore interrupts. That stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupts.handle)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupts.handle)
    before = sys.unraisablehook

    def hook(unraisable: UnraisableHookArgs, /) -> None:
        # Where nobody can catch it, as when an object is removed, Python would print a traceback
        # and go on.
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _interrupts.end_at_once()
        before(unraisable)

    sys.unraisablehook = hook


def begin_work(meaning: str) -> None:
    """From now on, a signal is a KeyboardInterrupt, except during an import.

    Parameters
    ----------
    meaning
        What a signal during an import means for the user: a sentence.
    """
    _interrupts.meaning = meaning
    _interrupts.done = False
    _interrupts.at_work = True


def end_work() -> None:
    """From now on a signal changes nothing: all is said, and the process is about to end."""
    _interrupts.done = True


def ignore_from_now_on() -> None:
    """Let no signal cut the end of the process short, when its answer is out."""
    # Python takes its handlers away when it ends, and then a signal would end it without a word.
    for number in _ENDINGS:
        if signal.getsignal(number) == _interrupts.handle:
            signal.signal(number, signal.SIG_IGN)


def ending() -> tuple[str, int]:
    """How the last signal ends the command: the first word of a sentence, and the exit status."""
    return _interrupts.ending


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
