#!/usr/bin/python3
"""A 2-D heat equation with h5py and mpi4py, one HDF5 file per process; it knows nothing of h5scr.

    heat_h5py_mpi.py STEPS CHECKPOINT_EVERY OUTPUT.h5 [MILLISECONDS_PER_STEP]

Each rank owns some rows of the plate and writes them to ckpt_<step>.<rank>.h5 at each checkpoint. Started
again, it looks for its files and goes on from the newest step of which every rank finds one. At the end rank 0
writes the whole field, and leaves closing that file to Python.

    without h5scr:  mpirun -n 4 /usr/bin/python3 heat_h5py_mpi.py 200 20 heat.h5
    with h5scr:     . build/env.sh
                    HDF5_DRIVER=scr LD_PRELOAD=libscr_mpiio.so:libscr_hdf5_legacy.so mpirun -n 4 ...
"""
import glob
import re
import sys
import time

import h5py
import numpy
from mpi4py import MPI

WIDTH = HEIGHT = 256
world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()


def start_field(rows):
    """The rows of this rank, between one line of each neighbour."""
    y, x = numpy.mgrid[rank * rows:(rank + 1) * rows, 0:WIDTH]
    hot = ((x - 80) ** 2 + (y - 90) ** 2 < 900) | ((x > 150) & (x < 220) & (y > 140) & (y < 160))
    field = numpy.zeros((rows + 2, WIDTH))
    field[1:-1][hot] = 255.0
    return field


def compute_step(field):
    above = rank - 1 if rank > 0 else MPI.PROC_NULL
    below = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL
    field[0], field[-1] = field[1], field[-2]  # where there is no neighbour
    world.Sendrecv(field[1].copy(), above, recvbuf=field[-1], source=below)
    world.Sendrecv(field[-2].copy(), below, recvbuf=field[0], source=above)
    wide = numpy.pad(field, ((0, 0), (1, 1)), mode="edge")
    around = wide[1:-1, :-2] + wide[1:-1, 2:] + field[:-2] + field[2:]
    field[1:-1] += 0.2 * (around - 4 * field[1:-1])


def checkpoint(field, step):
    with h5py.File(f"ckpt_{step:04d}.{rank}.h5", "w") as file:
        file["field"] = field[1:-1]
        file.attrs["step"] = step
    world.Barrier()
    if rank == 0:
        print(f"step {step}: checkpoint written", flush=True)


def newest_file(limit):
    """The newest step below `limit` of which this rank finds a file, 0 if there is none."""
    steps = [int(re.match(r"ckpt_(\d+)\.", name).group(1)) for name in glob.glob(f"ckpt_*.{rank}.h5")]
    return max((step for step in steps if step < limit), default=0)


def read_field(field, step):
    try:
        with h5py.File(f"ckpt_{step:04d}.{rank}.h5", "r") as file:
            field[1:-1] = file["field"]
        return True
    except OSError as error:
        print(f"rank {rank}: {error}", flush=True)
        return False


def restart(field):
    """The step of the checkpoint that was read, 0 if there is none."""
    step = newest_file(1 << 30)
    while True:
        common = world.allreduce(step, MPI.MIN)
        if common == 0:
            return 0
        mine = newest_file(common + 1) == common and read_field(field, common)
        if world.allreduce(mine, MPI.LAND):
            break
        step = newest_file(common)
    if rank == 0:
        print(f"restarted from step {common}", flush=True)
    return common


def main():
    steps, every, output = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    pause = int(sys.argv[4]) / 1000 if len(sys.argv) > 4 else 0
    field = start_field(HEIGHT // ranks)
    step = restart(field)
    while step < steps:
        compute_step(field)
        step += 1
        time.sleep(pause)
        if step % every == 0:
            checkpoint(field, step)
    whole = world.gather(field[1:-1])
    if rank == 0:
        global result
        result = h5py.File(output, "w")  # closed when Python ends
        result["field"] = numpy.concatenate(whole)
        print(f"done: {steps} steps", flush=True)


main()
