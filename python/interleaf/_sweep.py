"""Sweeps: many cases of a prediction or a simulation, on an engine, into Parquet."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ._case import TARGETS, Target, run_batch, run_part, target_of
from ._design import Case, Design, cases, design_of_file
from ._engine import Engine, engine_of
from ._errors import InputError, InputTypeError
from ._hash import Hasher
from ._options import called, path_of, whole
from ._part import Row, encoded, part_name
from ._store import Store

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

#: Batches queued in the engine per slot, so that no slot is idle.
QUEUED = 2

#: Batches of a large sweep: enough for progress and load balance, few for the engine's overhead.
BATCHES = 500

#: The most cases of a batch: after a kill, the unfinished batches are computed again.
BATCH_MAX = 1000

#: Seconds between two lines of progress.
REPORT_S = 0.5


@dataclass(frozen=True)
class Progress:
    """The state of a sweep.

    Attributes:
        done: Cases whose rows are stored, with those of earlier runs.
        total: All cases.
        computed: Cases that this run has computed.
        elapsed_s: Time since the start of this run, s.
    """

    done: int
    total: int
    computed: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Cases per second of this run."""
        return self.computed / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float:
        """Time that the other cases take at this rate, s; infinite before the first."""
        return (self.total - self.done) / self.rate if self.rate > 0 else float("inf")


@dataclass(frozen=True)
class SweepResult:
    """The rows of a sweep.

    Attributes:
        path: The folder with the parts. A temporary folder is removed with this object.
        parts: The names of the parts of this sweep, in the order of the design.
        computed: Cases that this run computed; the others were there.
    """

    path: str
    parts: tuple[str, ...]
    computed: int
    _store: Store

    def to_arrow(self) -> pyarrow.Table:
        """Return all rows, in the order of the design."""
        return self._store.joined([self._store.read(name) for name in self.parts])

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a Polars data frame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        if not isinstance(frame, polars.DataFrame):
            raise TypeError("an Arrow table became no data frame")
        return frame

    def plot(
        self,
        x: str,
        y: str,
        line: str | None = None,
        *,
        where: Mapping[str, object] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw column ``y`` against ``x``, a line for each value of ``line``.

        As :func:`interleaf.plot.sweep`.
        """
        from . import plot

        return plot.sweep(self, x, y, line, where=where, ax=ax)

    def errors(self) -> list[Row]:
        """Return the rows of the cases that failed."""
        rows: list[Row] = self.to_arrow().to_pylist()
        return [row for row in rows if row.get("error") is not None]


def sweep(
    function: str | os.PathLike[str] | Target,
    design: Design | Iterable[Mapping[str, object]] | None = None,
    *,
    engine: object = "local",
    workers: int | None = None,
    output: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    progress: bool | Callable[[Progress], object] = False,
    **fixed: object,
) -> SweepResult:
    """Compute each case of a design, and store its rows.

    Args:
        function: ``simulate.machine``, ``simulate.dimm``, ``simulate.card``, ``predict``,
            ``plan``, or a function of your own that returns a record or a dictionary. Without a
            design, the sweep file of ``interleaf simulate machine --sweep`` or
            ``simulate dimm --sweep``.
        design: The cases: :func:`grid`, :func:`random_design`, :func:`latin_hypercube`,
            :func:`read_design`, or a list of dictionaries.
        engine: ``local`` (threads), ``dask``, ``ray``, any ``concurrent.futures.Executor``, or a
            Dask client.
        workers: The number of cases that run at once. Default: one for each core.
        output: The folder of the Parquet files, also as ``s3://...``. A sweep with the same folder
            goes on where it was stopped. Default: a temporary folder, which is removed with the
            result.
        batch: Cases of a call of the engine, and of a Parquet file. Default: a five-hundredth of
            the cases, at most 1000. The content of the files does not depend on the engine.
        progress: True for a line on stderr, or a function that gets a :class:`Progress`.
        **fixed: Arguments that all cases have.

    Returns:
        The rows: ``case`` (content hash), the arguments as text, the results, and ``error``, which
        is null unless the case failed. A result that is called as another column has ``result_``
        before its name.

    Raises:
        InputError: The design, the engine or the output cannot be used.
    """
    if design is None:
        function, design = _of_file(function)
    target = target_of(function)
    plan = _Plan(target, design if isinstance(design, Design) else cases(design), fixed, batch)
    if not isinstance(progress, bool):
        called("progress", progress)
    run = partial(_swept, plan, engine, workers, _reporter(progress))
    if output is not None:
        return run(path_of("output", output))
    folder = tempfile.mkdtemp(prefix="interleaf-sweep-")
    try:
        result = run(folder)
    except BaseException:
        _remove(folder, os.getpid())
        raise
    weakref.finalize(result, _remove, folder, os.getpid())
    return result


def _swept(
    plan: _Plan,
    engine: object,
    workers: int | None,
    report: Callable[[Progress], object] | None,
    folder: str | os.PathLike[str],
) -> SweepResult:
    store = Store(folder)
    run = _Run(plan, store, report)
    missing = run.missing()
    if missing:
        run.compute(missing, engine_of(engine, workers))
    return SweepResult(store.path, tuple(plan.parts), run.computed, store)


def _remove(folder: str, owner: int) -> None:
    """Remove a temporary folder, unless this process is a forked child of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _of_file(function: object) -> tuple[str, Design]:
    if isinstance(function, os.PathLike) or (isinstance(function, str) and function not in TARGETS):
        return design_of_file(function)
    raise InputTypeError("there is no design", "give the cases, or a sweep file in place of both")


class _Plan:
    """The cases of a sweep in batches, with their hashes and the names of their parts."""

    def __init__(
        self, target: Target, design: Design, fixed: Mapping[str, object], batch: int | None
    ) -> None:
        twice = set(design.names) & set(fixed)
        if twice:
            raise InputError(
                f"{', '.join(sorted(twice))} is in the design and beside it", "leave one out"
            )
        if batch is not None and not 1 <= whole("batch", batch) <= 1_000_000:
            raise InputError(f"batch = {batch!r}", "give a whole number from 1 to 1000000")
        self.target = target
        self.names = design.names + tuple(fixed)
        constant = tuple(fixed.values())
        hasher = Hasher(target)
        size = batch or max(1, min(BATCH_MAX, -(-len(design) // BATCHES)))
        self.total = len(design)
        self.batches: list[list[tuple[str, tuple[object, ...]]]] = []
        for start in range(0, len(design), size):
            rows = (row + constant for row in design.rows[start : start + size])
            self.batches.append([(hasher.case(self._case(row)), row) for row in rows])
        self.parts = [
            part_name(number, [digest for digest, _ in cases_of])
            for number, cases_of in enumerate(self.batches)
        ]

    def _case(self, row: Sequence[object]) -> Case:
        return dict(zip(self.names, row, strict=True))


class _Run:
    """One run of a sweep."""

    def __init__(
        self, plan: _Plan, store: Store, report: Callable[[Progress], object] | None
    ) -> None:
        self._plan = plan
        self._store = store
        self._report = report
        self._done = 0
        self.computed = 0
        self._began = time.monotonic()
        self._reported = 0.0

    def missing(self) -> list[int]:
        """Return the numbers of the batches without a part."""
        there = self._store.names()
        missing = [at for at, name in enumerate(self._plan.parts) if name not in there]
        self._done = self._plan.total - sum(len(self._plan.batches[at]) for at in missing)
        return missing

    def compute(self, missing: Sequence[int], engine: Engine) -> None:
        """Compute the batches on ``engine``, and store the rows of each as it ends."""
        plan = self._plan
        known = self._known(missing)
        queue = iter(missing)
        running: dict[object, int] = {}
        try:
            while True:
                while len(running) < QUEUED * engine.slots:
                    number = next(queue, None)
                    if number is None:
                        break
                    whole = plan.batches[number]
                    batch = [case for case in whole if case[0] not in known]
                    # If some rows are known already, the part is encoded here, otherwise by the
                    # worker.
                    run = run_part if len(batch) == len(whole) else run_batch
                    handle = engine.submit(run, plan.target, plan.names, batch)
                    running[handle] = number
                if not running:
                    break
                for handle in engine.finished(list(running)):
                    number = running.pop(handle)
                    self._stored(number, engine.result(handle), known)
                self._tell(is_last=False)
        finally:
            engine.close(list(running))
        self._tell(is_last=True)

    def _known(self, missing: Sequence[int]) -> dict[str, list[Row]]:
        """Return rows of missing cases that are in parts of another sweep in the same folder."""
        wanted = {digest for at in missing for digest, _ in self._plan.batches[at]}
        found: dict[str, list[Row]] = {}
        for name in sorted(self._store.names() - set(self._plan.parts)):
            here = wanted & self._store.cases(name)
            if not here:
                continue
            for row in self._store.read(name).to_pylist():
                if row["case"] in here:
                    found.setdefault(row["case"], []).append(row)
            # Several older parts can have the same case: its rows are taken from the first.
            wanted -= here
        # A design can have a case twice, and so can its part. Such a case is computed again,
        # because its rows do not tell whether the part has them once or twice.
        return {digest: rows for digest, rows in found.items() if _are_distinct(rows)}

    def _stored(
        self, number: int, result: bytes | list[list[Row]], known: Mapping[str, list[Row]]
    ) -> None:
        plan = self._plan
        batch = plan.batches[number]
        if isinstance(result, bytes):
            part = result
            self.computed += len(batch)
        else:
            new = iter(result)
            rows: list[Row] = []
            for digest, _ in batch:
                rows += known[digest] if digest in known else next(new)
            part = encoded(rows, ("case", *plan.names))
            self.computed += len(result)
        self._store.write(plan.parts[number], part)
        self._done += len(batch)

    def _tell(self, *, is_last: bool) -> None:
        now = time.monotonic()
        if self._report is None or not (is_last or now - self._reported >= REPORT_S):
            return
        self._reported = now
        self._report(Progress(self._done, self._plan.total, self.computed, now - self._began))


def _are_distinct(rows: Sequence[Row]) -> bool:
    return len({tuple(row.items()) for row in rows}) == len(rows)


def _reporter(
    progress: bool | Callable[[Progress], object],
) -> Callable[[Progress], object] | None:
    if callable(progress):
        return progress
    return _line if progress else None


def _line(state: Progress) -> None:
    left = "" if state.left_s == float("inf") else f", {state.left_s:.0f} s left"
    text = f"{state.done}/{state.total} cases, {state.rate:.1f} a second{left}"
    end = "\n" if state.done == state.total else ""
    sys.stderr.write(f"\r{text:<70}{end}")
    sys.stderr.flush()
