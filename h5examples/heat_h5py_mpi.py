#!/usr/bin/python3
"""A 2-D heat equation with h5py and mpi4py, one HDF5 file per process; it knows nothing of h5scr.

    heat_h5py_mpi.py STEPS CHECKPOINT_EVERY OUTPUT.h5 [MILLISECONDS_PER_STEP]

Each rank owns some rows of the plate and writes them to ckpt_<step>.<rank>.h5 at each checkpoint. Started
again, it looks for its files and goes on from the newest step of which every rank finds one. At the end rank 0
writes the whole field, and leaves closing that file to Python.

    without h5scr:  mpirun -n 4 /usr/bin/python3 heat_h5py_mpi.py 200 20 heat.h5
    with h5scr:     . build/env.sh
                    mpirun -n 4 -x HDF5_DRIVER=scr -x LD_PRELOAD=libscr_mpiio.so:libscr_hdf5_legacy.so \
                        /usr/bin/python3 heat_h5py_mpi.py 200 20 heat.h5
"""
import glob
import re

import h5py
from heat import MPI, rank, run, world


def checkpoint(field, step):
    with h5py.File(f"ckpt_{step:04d}.{rank}.h5", "w") as file:
        file["field"] = field[1:-1]
        file.attrs["step"] = step
    world.Barrier()


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
    return common


run(restart, checkpoint)
