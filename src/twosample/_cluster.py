"""Work on the processes of a Dask cluster, on as many machines as it has.

`DaskWorkers` is what the products take as `workers`: whoever has work cuts it into pieces in a way
that does not depend on who does them, and adds up what comes back in the order of the pieces. So
the number of workers, and which of them did what, changes no bit of a result. Everything that a
piece needs is itself the outcome of a task of the graph, which the scheduler can run again: when a
worker dies, its pieces are done by another one, and nothing else happens.

The scheduler and its workers must have the same versions of this library, of torch and of Python as
the client.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from typing import Any

import torch

from .errors import ClusterError, InputError, MissingDependency

# Seconds without a result after which it is asked whether there is still somebody to wait for.
_LOOK = 1.0
_ANSWER = 5.0  # seconds in which a scheduler has to answer
_AT_ONCE = 64  # results are fetched so many at a time, if there are as many


@dataclass(frozen=True)
class _Packed:
    """An argument as it travels: bytes, which neither Dask nor the scheduler looks into."""

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
        if not isinstance(client, distributed.Client) or client.asynchronous:
            kind = (
                "an asynchronous client"
                if isinstance(client, distributed.Client)
                else f"a {type(client).__name__}"
            )
            raise InputError(
                f"client is {kind}; it must be a distributed.Client, such as "
                "Client('tcp://host:8786')."
            )
        self.client, self.patience = client, patience

    def share(self, value: Any) -> Any:
        """A future of `value`. The scheduler keeps it too: it outlives the workers that have it."""
        return self._submit(_unpacked, _packed(value))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future of `function(*arguments)`: computed on a worker, kept there, and computed again if that one dies."""
        return self._submit(_piece, function, *map(self._argument, arguments))

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """`function(*each)` for each of `arguments`, in their order; some of these may be futures."""
        futures: deque[Any] = deque()
        try:
            futures.extend(self.call(function, *each) for each in arguments)
            while futures:
                for result in self._first_results(futures):
                    futures.popleft()  # and its worker may forget it
                    yield result
        finally:
            if futures and self.client.status == "running":
                self.client.cancel(list(futures))

    def _argument(self, value: Any) -> Any:
        return value if isinstance(value, _distributed().Future) else _packed(value)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        import dask

        if self.client.status != "running":
            raise ClusterError(
                f"the client is {self.client.status}, so nothing can be computed through it."
            )
        # Dask warns of large arguments, since its scheduler keeps them. Here it should: they are
        # what a lost piece is computed from again.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
            return self.client.submit(function, *arguments, pure=False)

    def _first_results(self, futures: Sequence[Any]) -> Any:
        """The results of the first of these tasks, of as many as there are; a sentence when nobody can give them."""
        distributed = _distributed()
        alone_since = None
        while True:
            try:
                futures[0].exception(timeout=_LOOK)  # waits until it is done, however it ends
                ready = list(islice(takewhile(lambda future: future.done(), futures), _AT_ONCE))
                gather = partial(self.client.gather, ready, asynchronous=True)
                return self.client.sync(gather, callback_timeout=self.patience)
            except distributed.KilledWorker as error:
                raise ClusterError(
                    f"{error.allowed_failures + 1} workers died one after the other of the same "
                    "piece of work, most "
                    "likely for want of memory; give workers more of it, or the test less "
                    "(memory=...)."
                ) from error
            except distributed.CancelledError as error:
                raise ClusterError(
                    f"the scheduler at {self._address()} is gone, and the work with it."
                ) from error
            except TimeoutError:  # nothing yet, or lost with a worker that had just finished it
                if futures[0].status == "error":  # the piece itself ran out of some time
                    raise
            if self._workers():
                alone_since = None
                continue
            alone_since = time.monotonic() if alone_since is None else alone_since
            if time.monotonic() - alone_since >= self.patience:
                raise ClusterError(
                    f"the scheduler at {self._address()} has had no worker for {self.patience:g} "
                    "s; start one with "
                    f"'dask worker {self._address()}'."
                )

    def _workers(self) -> int:
        """How many workers there are; an error when the scheduler does not say."""
        if self.client.status != "running":
            raise ClusterError(f"the scheduler at {self._address()} is gone, and the work with it.")
        try:
            return len(
                self.client.sync(self.client.scheduler.ncores, callback_timeout=self.patience)
            )
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler at {self._address()} has not answered for {self.patience:g} s "
                f"({error!r})."
            ) from error

    def _address(self) -> str:
        return (
            str(self.client.scheduler.address)
            if self.client.scheduler is not None
            else "an unknown address"
        )


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address such as tcp://192.168.0.1:8786, closed at the end."""
    distributed = _distributed()
    try:
        if re.fullmatch(r"(\w+://)?[^/\s]*[^/\s:]:\d{1,5}/?", address) is None:
            raise ValueError(
                "no host and port"
            )  # a client that fails over this complains again when it is collected
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r}; start one with 'dask scheduler', which "
            "says its address "
            "(tcp://HOST:8786), and workers with 'dask worker ADDRESS'."
        ) from error
    with client:
        yield client


def _packed(value: Any) -> _Packed:
    import cloudpickle

    return _Packed(cloudpickle.dumps(value))


def _unpacked(value: Any) -> Any:
    import cloudpickle

    return cloudpickle.loads(value.content) if isinstance(value, _Packed) else value


def _piece(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run on a worker, in one thread: each core has its worker, and a product rounds as its threads share it."""
    torch.set_num_threads(1)
    with torch.no_grad():
        return function(*map(_unpacked, arguments))


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingDependency(
            "work on a cluster takes Dask; pip install 'twosample[dask]'."
        ) from None
    return distributed
