"""NumPy arrays in extended memory: DRAM is a cache over a drive.

The C interface (``libinterleaf_memory.so``, docs/extend-library.md) serves the page faults of the
array in this process.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._errors import InputError, InputTypeError
from ._options import items, path_of, whole

LIBRARY = "libinterleaf_memory.so"

#: The names of hints, with their numbers in ``interleaf.h``.
ADVICE = {"normal": 0, "random": 1, "sequential": 2, "will_need": 3, "done_with": 4}

#: The address space of a process, bytes.
BYTES_MAX = 1 << 47

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_UNITS |= {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


_SHAPE = "give whole numbers from 0"


class ExtendedMemoryError(OSError):
    """Extended memory that cannot be had here; the message says why, and what to do."""


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("dram_bytes", ctypes.c_uint64),
        ("address_bytes", ctypes.c_uint64),
        ("stores", ctypes.POINTER(ctypes.c_char_p)),
        ("store_count", ctypes.c_size_t),
    )


class _Statistics(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "faults",
            "minor_faults",
            "read",
            "written",
            "prefetched",
            "prefetch_hits",
            "prefetch_wasted",
        )
    )


@dataclass(frozen=True)
class MemoryStatistics:
    """Counters since the array was made, in pages of 4096 bytes.

    Attributes:
        faults: Page faults.
        minor_faults: Those of them whose page was in DRAM.
        read: Pages read from the stores.
        written: Pages written back to them.
        prefetched: Prefetched pages.
        prefetch_hits: Prefetched pages that were touched.
        prefetch_wasted: Prefetched pages that were evicted untouched.
    """

    faults: int
    minor_faults: int
    read: int
    written: int
    prefetched: int
    prefetch_hits: int
    prefetch_wasted: int


def _library() -> ctypes.CDLL:
    named = os.environ.get("INTERLEAF_MEMORY")
    candidates = [Path(named)] if named else []
    candidates += [
        Path(sys.prefix) / "lib" / "interleaf" / LIBRARY,
        Path(__file__).parents[3] / "interleaf" / LIBRARY,
    ]
    for candidate in candidates:
        if candidate.is_file():
            library = ctypes.CDLL(str(candidate))
            library.interleaf_message.restype = ctypes.c_char_p
            return library
    raise ExtendedMemoryError(
        f"{LIBRARY} is not beside this package; "
        "hint: install the wheel, or name the library in INTERLEAF_MEMORY"
    )


def _check(library: ctypes.CDLL, status: int) -> None:
    if status != 0:
        message = library.interleaf_message()
        raise ExtendedMemoryError((message or b"extended memory failed").decode())


def parse_size(name: str, value: int | str) -> int:
    """Return a size in bytes: a whole number of bytes, or text with a unit such as ``8GiB``.

    Text is read as by the command (crates/model/src/units.rs).
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*(\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([A-Za-z]+)\s*", value)
        if match is None or match[2] not in _UNITS:
            raise InputError(
                f"{name} = {value!r}", f"write a number with one of {', '.join(_UNITS)}"
            )
        bytes_ = min(float(match[1]) * _UNITS[match[2]], BYTES_MAX + 1.0)
        if not bytes_.is_integer():
            raise InputError(f"{name} = {value!r}", "write a whole number of bytes")
        size = int(bytes_)
    else:
        raise InputTypeError(f"{name} is of type {type(value).__name__}", "write a size: 8GiB")
    if not 0 < size <= BYTES_MAX:
        raise InputError(f"{name} = {value!r}", "give a size above 0 and at most 128TiB")
    return size


#: The least budget, bytes.
_BUDGET_MIN = 4 << 20


class ExtendedMemory:
    """A budget of DRAM over stores, and the arrays in it.

    Args:
        dram: The budget of DRAM for all arrays, such as ``8GiB``; 4 MiB at least.
        store: A folder on a drive, or several, which are striped.

    Raises:
        ExtendedMemoryError: The kernel does not allow userfaultfd, is older than Linux 6.8, or a
            store cannot be used.
    """

    def __init__(
        self,
        dram: int | str,
        store: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    ) -> None:
        budget = parse_size("dram", dram)
        if budget < _BUDGET_MIN:
            raise InputError(f"dram = {dram!r}", "give a budget of at least 4MiB, such as 8GiB")
        is_one = isinstance(store, (str, os.PathLike))
        given = [store] if is_one else items("store", store, "name a folder on a drive")
        stores = [path_of("store", name) for name in given]
        if not stores:
            raise InputError("store is empty", "name a folder on a drive")
        self._library = _library()
        names = (ctypes.c_char_p * len(stores))(*(os.fsencode(name) for name in stores))
        options = _Options(ctypes.sizeof(_Options), budget, 0, names, len(stores))
        self._pager = ctypes.c_void_p()
        opened = self._library.interleaf_open(ctypes.byref(options), ctypes.byref(self._pager))
        _check(self._library, opened)
        # The pager must outlive its arrays, so each array refers to this object.
        self._finalizer = weakref.finalize(self, self._library.interleaf_close, self._pager)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> ExtendedArray:
        """Return a new array of zeros in extended memory.

        Args:
            shape: The shape of the array.
            dtype: The type of its elements; no Python objects.
        """
        try:
            kind = np.dtype(dtype)
        except (TypeError, ValueError) as why:
            raise InputTypeError(f"dtype: {why}", "give a type of numbers") from None
        if kind.hasobject:
            raise InputTypeError(f"dtype {kind} has Python objects", "give a type of numbers")
        listed = [shape] if hasattr(shape, "__index__") else items("shape", shape, _SHAPE)
        lengths = tuple(whole("shape", length) for length in listed)
        if any(length < 0 for length in lengths):
            raise InputError(f"shape = {shape!r}", _SHAPE)
        count = 1
        for length in lengths:
            count *= length
        bytes_ = max(count * kind.itemsize, 1)
        if bytes_ > BYTES_MAX:
            raise InputError(f"shape = {shape!r}: {bytes_} bytes", "give at most 128TiB")
        address = ctypes.c_void_p()
        status = self._library.interleaf_alloc(
            self._pager, ctypes.c_size_t(bytes_), ctypes.c_size_t(0), ctypes.byref(address)
        )
        _check(self._library, status)
        region = _Region(self, address, bytes_)
        array: ExtendedArray = ExtendedArray(lengths, kind, region.buffer())
        return array

    def stats(self) -> MemoryStatistics:
        """Return the counters of all arrays."""
        found = _Statistics()
        size = ctypes.c_size_t(ctypes.sizeof(found))
        status = self._library.interleaf_get_statistics(self._pager, ctypes.byref(found), size)
        _check(self._library, status)
        return MemoryStatistics(*(int(getattr(found, field[0])) for field in found._fields_))

    def advise(self, array: NDArray[Any], advice: str) -> None:
        """Give a hint about the pages of an array of this memory, or of a contiguous part of it."""
        if not isinstance(array, np.ndarray):
            raise InputTypeError(f"array is of type {type(array).__name__}", "give an array")
        if not isinstance(advice, str) or advice not in ADVICE:
            raise InputError(f"advice = {advice!r}", f"write one of {', '.join(ADVICE)}")
        if not array.flags.c_contiguous:
            raise InputError("the array is not contiguous", "give a contiguous part")
        address = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        status = self._library.interleaf_advise(self._pager, address, size, ADVICE[advice])
        _check(self._library, status)


class _Region:
    """A region of extended memory, freed with the last array that uses it."""

    def __init__(self, memory: ExtendedMemory, address: ctypes.c_void_p, size: int) -> None:
        self.memory = memory
        self._address = address
        self._size = size
        library, pager = memory._library, memory._pager
        self._finalizer = weakref.finalize(self, library.interleaf_free, pager, address)

    def buffer(self) -> Any:
        """Return the bytes of the region, as an object that keeps it alive."""
        kind: Any = type("RegionBytes", (ctypes.c_char * self._size,), {})
        found: Any = kind.from_address(self._address.value or 0)
        found.region = self
        return found


class ExtendedArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array in extended memory.

    It works like any other array; what is computed from it is ordinary memory.
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return what is computed from the array as an ordinary array or a number."""
        found = np.asarray(array)
        return found[()] if return_scalar or found.ndim == 0 else found

    @property
    def memory(self) -> ExtendedMemory:
        """The extended memory of the array.

        Raises:
            InputError: The array is not in extended memory.
        """
        base: Any = self
        while base is not None:
            region = getattr(base, "region", None)
            if isinstance(region, _Region):
                return region.memory
            base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
        raise InputError("the array is not in extended memory", "give the array or a part of it")

    def advise(self, advice: str) -> None:
        """Give a hint: ``normal``, ``random``, ``sequential``, ``will_need`` or ``done_with``."""
        self.memory.advise(self, advice)

    def stats(self) -> MemoryStatistics:
        """Return the counters of the extended memory of the array."""
        return self.memory.stats()


def extended_array(
    shape: int | tuple[int, ...],
    dtype: DTypeLike = np.float64,
    *,
    store: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dram: int | str,
) -> ExtendedArray:
    """Return a new array of zeros in extended memory, with a budget of DRAM of its own.

    Args:
        shape: The shape of the array.
        dtype: The type of its elements; no Python objects.
        store: A folder on a drive, or several, which are striped.
        dram: The budget of DRAM, such as ``8GiB``; 4 MiB at least.

    Raises:
        InputError: A value cannot be used.
        ExtendedMemoryError: Extended memory cannot be had here, and why.
    """
    return ExtendedMemory(dram, store).empty(shape, dtype)
