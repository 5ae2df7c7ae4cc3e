"""Workers that fill one array together, in memory that they share."""

import mmap
import multiprocessing

import numpy

COUNT = 5 << 20
WORKERS = 4


def work(number):
    part = array[number * COUNT // WORKERS : (number + 1) * COUNT // WORKERS]
    part[:] = numpy.arange(part.size) * (number + 1)
    # Another worker writes the next part at the same time. The first number of each part is 0 before
    # and after its worker has written the part.
    other = array[(number + 1) % WORKERS * COUNT // WORKERS]
    assert other == 0.0, other
    part[1:] += part[:-1]


array = numpy.frombuffer(mmap.mmap(-1, COUNT * 8))
assert not array.any()
context = multiprocessing.get_context("fork")
for _ in range(2):
    workers = [context.Process(target=work, args=(number,)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    print(array.sum(), array[:: COUNT // 16].tolist())
