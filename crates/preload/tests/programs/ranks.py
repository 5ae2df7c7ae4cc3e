"""Ranks of MPI that exchange large arrays and add them up."""

import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
numbers = numpy.arange(int(sys.argv[1]), dtype=numpy.float64) % 1000 + world.rank
total, other = numpy.empty_like(numbers), numpy.empty_like(numbers)
for _ in range(2):
    world.Allreduce(numbers, total)
    world.Sendrecv(total, (world.rank + 1) % world.size, recvbuf=other)
    numbers = other % 1000
if world.rank == 0:
    print(world.size, numbers.sum(), total[:3])
