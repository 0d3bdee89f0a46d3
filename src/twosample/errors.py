"""What can go wrong, by kind; every message says what was wrong, where, and what to do."""

from __future__ import annotations


class TwoSampleError(Exception):
    """Anything this library raises on purpose."""


class InputError(TwoSampleError, ValueError):
    """The samples cannot be tested as they are."""


class IncompatibleParts(TwoSampleError, ValueError):
    """Parts of a test, or an option and a method, that do not fit together."""


class TrainingError(TwoSampleError, RuntimeError):
    """Training produced a value that cannot be used, such as a non-finite objective."""


class ClusterError(TwoSampleError, RuntimeError):
    """A scheduler or all of its workers have gone, and the work with them."""


class MissingDependency(TwoSampleError, ImportError):
    """A package of an extra is needed and not installed."""


class InputWarning(UserWarning):
    """The samples can be tested, but something about them deserves a look."""


class TrainingWarning(UserWarning):
    """Training ended early or in an unusual way; what it had learned was kept."""
