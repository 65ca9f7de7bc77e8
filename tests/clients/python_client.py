"""mpi4py in place of C: files y1.<rank>.h5 and y2.<rank>.h5, with barriers between. Argument: the library
that writes them, which Python loads for itself alone."""
import ctypes
import sys

from mpi4py import MPI

files = ctypes.CDLL(sys.argv[1])
world = MPI.COMM_WORLD
for step in (1, 2):
    if files.write_value(b"y%d.%d.h5" % (step, world.rank), step) != 0:
        print("WRONG")
    world.Barrier()
    world.allreduce(1)
if world.rank == 0:
    print("DONE")
