"""Work on the processes of a Dask cluster, on as many machines as it has.

`DaskWorkers` is what the products take as `workers`. The caller cuts its work into pieces, in a way
that does not depend on who does them, and adds up the results in the order of the pieces. So the
number of workers, and which of them did what, changes no bit of a result. Everything that a piece
needs is itself the outcome of a task that the scheduler can run again: when a worker dies, another
one does its pieces, and nothing else happens.

The scheduler and its workers must have the same versions of this library, of torch and of Python as
the client.
"""

from __future__ import annotations

import io
import pickle
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, takewhile
from typing import Any

import torch
from torch import Tensor

from .errors import ClusterError, InputError, MissingDependency

# Seconds to wait for a result before checking whether any worker is left.
_LOOK = 1.0
# Seconds in which a scheduler has to answer when a client connects.
_ANSWER = 5.0
# Bytes of results fetched in one round trip, and the most results: one at a time would cost a round
# trip for each, but this process and the scheduler need memory for those that travel together.
_BYTES_AT_ONCE = 64 * 2**20
_MOST_AT_ONCE = 64
# Pieces that are under way for each worker, and at least: enough that no worker waits for its next.
# The scheduler keeps what they take, so that there must not be too many.
_UNDER_WAY = 4
_LEAST_UNDER_WAY = 16


@dataclass(frozen=True)
class _Packed:
    """A pickled argument: bytes that neither Dask nor the scheduler looks into."""

    content: bytes


class DaskWorkers:
    """The workers of a Dask cluster, seen through its client.

    Parameters
    ----------
    client
        A `distributed.Client`, not an asynchronous one.
    patience
        Seconds without a worker, or without an answer of the scheduler, before giving up with a
        `ClusterError`.
    """

    def __init__(self, client: Any, *, patience: float = 30.0) -> None:
        distributed = _distributed()
        kind = None
        if not isinstance(client, distributed.Client):
            kind = f"a {type(client).__name__}"
        elif client.asynchronous:
            kind = "an asynchronous client"
        if kind is not None:
            raise InputError(
                f"client is {kind}; it must be a distributed.Client, such as "
                "Client('tcp://host:8786')."
            )
        self.client = client
        self.patience = patience

    def share(self, value: Any) -> Any:
        """Return a future of `value`, which the scheduler keeps too: it outlives its workers."""
        return self._submit(_unpacked, _packed(value))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a future of `function(*arguments)`.

        A worker computes it and keeps it. If that worker dies, another one computes it again.
        """
        travelling = [self._argument(value) for value in arguments]
        return self._submit(_piece, function, *travelling)

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Yield `function(*each)` for each of `arguments`, in order; arguments may be futures.

        Arguments are taken as workers get on, so that few pieces are in memory at a time.
        """
        futures: deque[Any] = deque()
        waiting = iter(arguments)
        at_once = None  # how many results are fetched together, once it is known how large one is
        try:
            while True:
                most = max(_LEAST_UNDER_WAY, _UNDER_WAY * self._workers())
                next_ones = islice(waiting, max(0, most - len(futures)))
                futures.extend(self.call(function, *each) for each in next_ones)
                if not futures:
                    return
                results = self._first_results(futures, at_once or 1)
                if at_once is None:
                    at_once = _fetched_together(results[0])
                for result in results:
                    futures.popleft()  # without a future, its worker forgets the result
                    yield result
        finally:
            if futures and self.client.status == "running":
                self.client.cancel(list(futures))

    def _argument(self, value: Any) -> Any:
        # A future stays as it is: Dask only replaces futures that it can see.
        return value if isinstance(value, _distributed().Future) else _packed(value)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        import dask

        if self.client.status != "running":
            raise ClusterError(
                f"the client is {self.client.status}, so nothing can be computed through it."
            )
        # Dask warns about large arguments, because its scheduler keeps them. Here it has to keep
        # them: a lost piece is computed again from its arguments.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
            # Not pure: a pure task would share its result with any other of the same arguments.
            return self.client.submit(function, *arguments, pure=False)

    def _first_results(self, futures: Sequence[Any], most: int) -> Any:
        """Wait for the first of these tasks; return its result and those of the next that are done.

        Raises a `ClusterError` when nobody is left who could give them.
        """
        alone_since = None
        while True:
            results = self._gathered(futures, most)
            if results is not None:
                return results
            if self._workers():
                alone_since = None
                continue
            if alone_since is None:
                alone_since = time.monotonic()
            if time.monotonic() - alone_since >= self.patience:
                address = self._address()
                raise ClusterError(
                    f"the scheduler at {address} has had no worker for {self.patience:g} s; "
                    f"start one with 'dask worker {address}'."
                )

    def _gathered(self, futures: Sequence[Any], most: int) -> Any:
        """Return results of the leading futures that are done, or None if the first is not."""
        distributed = _distributed()
        try:
            futures[0].exception(timeout=_LOOK)  # returns when the task is done, however it ended
            leading = takewhile(lambda future: future.done(), futures)
            ready = list(islice(leading, most))
            gather = partial(self.client.gather, ready, asynchronous=True)
            return self.client.sync(gather, callback_timeout=self.patience)
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other of the same piece "
                "of work, most likely for want of memory; give workers more of it, or the test "
                "less (memory=...)."
            ) from error
        except distributed.CancelledError as error:
            raise ClusterError(self._gone()) from error
        except TimeoutError:
            # Nothing yet, or a result was lost with the worker that had just finished it. But a
            # TimeoutError of the piece itself is an error like any other.
            if futures[0].status == "error":
                raise
            return None

    def _workers(self) -> int:
        """Return how many workers there are; raise an error when the scheduler does not say."""
        if self.client.status != "running":
            raise ClusterError(self._gone())
        try:
            cores = self.client.sync(self.client.scheduler.ncores, callback_timeout=self.patience)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler at {self._address()} has not answered for {self.patience:g} s "
                f"({error!r})."
            ) from error
        return len(cores)

    def _gone(self) -> str:
        return f"the scheduler at {self._address()} is gone, and the work with it."

    def _address(self) -> str:
        scheduler = self.client.scheduler
        return "an unknown address" if scheduler is None else str(scheduler.address)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to the scheduler at an address such as tcp://192.168.0.1:8786; close at the end."""
    distributed = _distributed()
    try:
        # Checked before Dask sees it: a client that fails to parse an address complains a second
        # time when the garbage collector finds it.
        if re.fullmatch(r"(\w+://)?[^/\s]*[^/\s:]:\d{1,5}/?", address) is None:
            raise ValueError("no host and port")
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r}; start one with 'dask scheduler', which "
            "says its address (tcp://HOST:8786), and workers with 'dask worker ADDRESS'."
        ) from error
    with client:
        yield client


def _packed(value: Any) -> _Packed:
    file = io.BytesIO()
    _pickler()(file).dump(value)
    return _Packed(file.getvalue())


@cache
def _pickler() -> type[Any]:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # has no types of its own
        """Lets a tensor that is a part of a larger one travel without the rest."""

        def reducer_override(self, value: Any) -> Any:
            if type(value) is Tensor and _is_part(value):
                # Torch would pickle the numbers of the whole: all rows with every few of them.
                return value.clone().__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
            return super().reducer_override(value)

    return Pickler


def _is_part(tensor: Tensor) -> bool:
    """Whether there are more numbers in the memory that a tensor looks at than its own."""
    if tensor.layout is not torch.strided or tensor.requires_grad:
        return False
    return tensor.untyped_storage().nbytes() > tensor.nbytes


def _fetched_together(result: Any) -> int:
    """How many results of this size are fetched in one round trip."""
    size = len(_packed(result).content)
    return min(_MOST_AT_ONCE, max(1, _BYTES_AT_ONCE // size))


def _unpacked(value: Any) -> Any:
    import cloudpickle

    return cloudpickle.loads(value.content) if isinstance(value, _Packed) else value


def _piece(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker, in one thread.

    Each core has its own worker. And the number of threads changes how a product is rounded.
    """
    torch.set_num_threads(1)
    values = [_unpacked(argument) for argument in arguments]
    with torch.no_grad():
        return function(*values)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingDependency(
            "work on a cluster takes Dask; pip install 'twosample[dask]'."
        ) from None
    return distributed
