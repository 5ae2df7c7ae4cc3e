"""Arrays in extended memory, where the kernel allows userfaultfd."""

import gc

import interleaf
import numpy as np
import pytest
from interleaf._memory import parse_size

ROWS, COLUMNS = 48, 1 << 16


@pytest.fixture
def array(tmp_path):
    """Return an array of 24 MiB with 8 MiB of DRAM."""
    try:
        return interleaf.extended_array((ROWS, COLUMNS), store=tmp_path, dram="8MiB")
    except interleaf.ExtendedMemoryError as why:
        assert str(why)
        pytest.skip(f"no extended memory here: {why}")


def test_an_array_larger_than_its_budget_keeps_its_values(array):
    array.advise("sequential")
    for number, row in enumerate(array):
        row[:] = number
    for number in range(0, ROWS, 5):
        np.testing.assert_array_equal(array[number], np.full(COLUMNS, float(number)))
    seen = array.stats()
    assert seen.written > 0, "dirty pages of the first rows were written back"
    assert seen.read + seen.prefetched > 0, "the first rows were read back"
    assert array.memory.stats() == array.stats()


def test_results_are_ordinary_arrays(array):
    array[0] = 3.0
    doubled = array[0] * 2
    assert type(doubled) is np.ndarray
    assert doubled[0] == 6.0
    assert isinstance(array[:2], interleaf.ExtendedArray)
    assert float(array[0].sum()) == 3.0 * COLUMNS


def test_a_part_outlives_the_array(array):
    array[7] = 7.0
    part = array[7, :10]
    del array
    gc.collect()
    assert part.tolist() == [7.0] * 10


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((1 << 40, 1 << 40), "float64", "shape"),
        ((-1,), "float64", "shape"),
        ("12", "float64", "shape is of type str"),
        ((2.5,), "float64", "shape is of type float"),
        (3, object, "Python objects"),
        (3, "nonsense", "dtype"),
    ],
)
def test_shapes_and_types_that_cannot_be_used(array, shape, dtype, message):
    with pytest.raises(interleaf.InputError, match=message):
        array.memory.empty(shape, dtype)


def test_hints_that_cannot_be_used(array):
    with pytest.raises(interleaf.InputError, match="advice"):
        array.advise("soon")
    with pytest.raises(interleaf.InputError, match="not contiguous"):
        array.memory.advise(array[:, 0], "random")
    with pytest.raises(interleaf.InputError, match="not in extended memory"):
        interleaf.ExtendedArray((2,), float).advise("random")


def test_a_budget_that_is_too_small(tmp_path):
    with pytest.raises(interleaf.InputError, match="at least 4MiB"):
        interleaf.extended_array(3, store=tmp_path, dram="1MiB")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096B", 4096),
        ("2 kB", 2000),
        ("1.5KiB", 1536),
        (" +64 MiB ", 64 << 20),
        ("2GB", 2 * 10**9),
        ("128TiB", 1 << 47),
    ],
)
def test_sizes_of_the_command_are_sizes(text, size):
    assert parse_size("dram", text) == size


@pytest.mark.parametrize("text", ["2KB", "2Kb", "768", "GiB", "1.2.3GiB", "0.3B", "-1GiB", "0B"])
def test_other_sizes_are_refused(text):
    with pytest.raises(interleaf.InputError, match="dram = "):
        parse_size("dram", text)
