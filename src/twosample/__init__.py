"""Do two samples come from the same distribution, and if not, how do they differ?

>>> import numpy as np, twosample
>>> rng = np.random.default_rng(0)
>>> twosample.two_sample_test(rng.normal(size=(100, 3)), rng.normal(size=(80, 3)), rng=0).reject()
False
"""

import importlib

from ._version import __version__ as __version__

# Type checkers know it by its name. Not from `typing`, whose import would be most of the time
# before a command can answer to Ctrl-C.
TYPE_CHECKING = False

# `_public` lists the public names. They need torch, which takes seconds to import, so they are
# imported when the first of them is used; `twosample --help` does without them.
if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public import __all__ as __all__
else:

    def __getattr__(name: str) -> object:
        # Python itself asks for private names, for instance when it imports a part of the package.
        if name == "__all__" or not name.startswith("_"):
            public = importlib.import_module("._public", __name__)
            globals().update({each: getattr(public, each) for each in ("__all__", *public.__all__)})
            # Modules that were imported on the way, such as `errors`, are attributes by now, too.
            if name in globals():
                return globals()[name]
            if name in public.DEMOTED:
                return _demoted(name, f"{__name__}.{public.DEMOTED[name]}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _demoted(name: str, home: str) -> object:
        from .errors import warn

        warn(
            f"twosample.{name} is no longer public and will be removed. It lives in {home}, which "
            "may change.",
            DeprecationWarning,
        )
        return getattr(importlib.import_module(home), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")} - {"importlib"})


del TYPE_CHECKING  # no public name
