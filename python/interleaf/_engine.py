"""Engines: where the batches of a sweep run.

An engine takes a function and its arguments, and returns a handle; it waits for the first of some
handles. Threads serve the local engine, because simulations release the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ._errors import InputError, InputTypeError
from ._options import whole

#: Settings of a Dask cluster that this module starts. By default a worker samples the stacks of
#: its threads, and nobody reads the samples. It also gives memory back to the kernel at each
#: ``free`` of 64 KiB, and the next simulation allocates it again. Both together take some 6 % of
#: the processors.
OWN_CLUSTER = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 26,
}

#: Seconds between checks for signals and progress while no batch ends.
WAIT_S = 0.5


class Engine(Protocol):
    """Runs batches."""

    #: The number of batches that run at once.
    slots: int

    def submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Start a call; returns a handle."""
        ...

    def finished(self, handles: Sequence[Any]) -> list[Any]:
        """Return those of ``handles`` that are done; waits at most half a second for one."""
        ...

    def result(self, handle: Any) -> Any:
        """Return the result of a handle that is done, or raise its exception."""
        ...

    def close(self, handles: Sequence[Any]) -> None:
        """Cancel the handles, and end what the engine started."""
        ...


class DoneQueue:
    """Futures in the order in which they end. Its cost does not grow with the futures that run."""

    def __init__(self) -> None:
        self._done: SimpleQueue[Any] = SimpleQueue()

    def watched(self, future: Any) -> Any:
        """Return a future, which enters the queue when it is done."""
        future.add_done_callback(self._done.put)
        return future

    def take(self) -> list[Any]:
        """Return the futures that are done; waits at most half a second for the first."""
        found = []
        try:
            found.append(self._done.get(timeout=WAIT_S))
            while True:
                found.append(self._done.get_nowait())
        except Empty:
            return found


class ExecutorEngine:
    """Any ``concurrent.futures.Executor``: threads, processes, ``mpi4py.futures``."""

    def __init__(self, executor: Executor, slots: int, is_own: bool) -> None:
        self._executor = executor
        self._is_own = is_own
        self._done = DoneQueue()
        self.slots = slots

    def submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Start a call."""
        return self._done.watched(self._executor.submit(function, *arguments))

    def finished(self, handles: Sequence[Future[Any]]) -> list[Any]:
        """Return the futures that are done."""
        return self._done.take()

    def result(self, handle: Future[Any]) -> Any:
        """Return the result of a future."""
        return handle.result()

    def close(self, handles: Sequence[Future[Any]]) -> None:
        """Cancel the futures."""
        for handle in handles:
            handle.cancel()
        if self._is_own:
            self._executor.shutdown(wait=not handles, cancel_futures=True)


class DaskEngine:
    """A ``distributed.Client``: processes, or a cluster (Slurm by ``dask_jobqueue``)."""

    def __init__(self, client: Any, is_own: bool) -> None:
        self._client = client
        self._is_own = is_own
        self._done = DoneQueue()
        self.slots = max(1, sum(client.nthreads().values()))

    def submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Start a call; equal calls are separate ones."""
        return self._done.watched(self._client.submit(function, *arguments, pure=False))

    def finished(self, handles: Sequence[Any]) -> list[Any]:
        """Return the futures that are done."""
        return self._done.take()

    def result(self, handle: Any) -> Any:
        """Return the result of a future."""
        return handle.result()

    def close(self, handles: Sequence[Any]) -> None:
        """Cancel the futures, and close a client of our own."""
        self._client.cancel(list(handles))
        if self._is_own:
            self._client.close()


class RayEngine:
    """Ray: a cluster that is connected, or one on this machine."""

    def __init__(self, ray: Any, slots: int, is_own: bool) -> None:
        self._ray = ray
        self._is_own = is_own
        self._remote: dict[Any, Any] = {}
        self.slots = slots

    def submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Start a call."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function].remote(*arguments)

    def finished(self, handles: Sequence[Any]) -> list[Any]:
        """Return the references that are ready."""
        ready, _ = self._ray.wait(list(handles), num_returns=1, timeout=WAIT_S)
        return list(ready)

    def result(self, handle: Any) -> Any:
        """Return the result of a reference."""
        return self._ray.get(handle)

    def close(self, handles: Sequence[Any]) -> None:
        """Cancel the references, and end a Ray of our own."""
        for handle in handles:
            self._ray.cancel(handle)
        if self._is_own:
            self._ray.shutdown()


def engine_of(engine: object, workers: int | None) -> Engine:
    """Return the engine of a name, an executor, or a Dask client.

    Raises:
        InputError: There is no engine of that name, or ``workers`` is below 1.
    """
    if workers is not None and whole("workers", workers) < 1:
        raise InputError(f"workers = {workers!r}", "give a whole number from 1")
    slots = workers or len(os.sched_getaffinity(0))
    if isinstance(engine, Executor):
        own = getattr(engine, "_max_workers", None)
        return ExecutorEngine(engine, workers or own or slots, is_own=False)
    if engine == "local":
        return ExecutorEngine(ThreadPoolExecutor(slots, "interleaf-sweep"), slots, is_own=True)
    if engine == "dask":
        return _dask(workers)
    if engine == "ray":
        return _ray(workers)
    if hasattr(engine, "nthreads") and hasattr(engine, "submit"):
        return DaskEngine(engine, is_own=False)
    hint = 'give "local", "dask", "ray", an executor, or a Dask client'
    if isinstance(engine, str):
        raise InputError(f"there is no engine {engine!r}", hint)
    raise InputTypeError(f"engine is of type {type(engine).__name__}", hint)


def _dask(workers: int | None) -> Engine:
    try:
        import distributed
        from dask import config
    except ImportError as why:
        raise ImportError('engine "dask" needs Dask: pip install "dask[distributed]"') from why
    dask: Any = distributed
    try:
        return DaskEngine(dask.get_client(), is_own=False)
    except ValueError:
        count = workers or len(os.sched_getaffinity(0))
        with config.set(OWN_CLUSTER):
            client = dask.Client(
                n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
            )
        return DaskEngine(client, is_own=True)


def _ray(workers: int | None) -> Engine:
    try:
        import ray
    except ImportError as why:
        raise ImportError('engine "ray" needs Ray: pip install ray') from why
    is_own = not ray.is_initialized()
    if is_own:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    cluster: Any = ray
    slots = max(1, int(cluster.cluster_resources().get("CPU", 1)))
    return RayEngine(ray, slots, is_own)
