#!/usr/bin/python3
"""A 2-D heat equation with h5py and parallel HDF5, one shared file per checkpoint; it knows nothing of h5scr.

    heat_h5py_shared.py STEPS CHECKPOINT_EVERY OUTPUT.h5 [MILLISECONDS_PER_STEP]

All ranks write their rows to ckpt_<step>.h5 together. Started again, on any number of ranks, it goes on from the
newest such file that can be read. It needs an h5py that was built with parallel HDF5 (Debian: python3-h5py-mpi).

    without h5scr:  mpirun -n 4 /usr/bin/python3 heat_h5py_shared.py 200 20 heat.h5
    with h5scr:     . build/env.sh
                    mpirun -n 4 -x LD_PRELOAD=libscr_mpiio.so /usr/bin/python3 heat_h5py_shared.py 200 20 heat.h5
"""
import glob
import re

import h5py
from heat import HEIGHT, MPI, WIDTH, first_row, rank, rows, run, world


def checkpoint(field, step):
    with h5py.File(f"ckpt_{step:04d}.h5", "w", driver="mpio", comm=world) as file:
        data = file.create_dataset("field", (HEIGHT, WIDTH), dtype="f8")
        file.attrs["step"] = step
        with data.collective:
            data[first_row:first_row + rows] = field[1:-1]


def newest_file(limit):
    """The newest step below `limit` of which there is a file, 0 if there is none."""
    steps = [int(re.match(r"ckpt_(\d+)\.", name).group(1)) for name in glob.glob("ckpt_*.h5")]
    return world.bcast(max((step for step in steps if step < limit), default=0))


def read_field(field, step):
    try:
        with h5py.File(f"ckpt_{step:04d}.h5", "r", driver="mpio", comm=world) as file:
            field[1:-1] = file["field"][first_row:first_row + rows]
        return True
    except OSError as error:
        print(f"rank {rank}: {error}", flush=True)
        return False


def restart(field):
    """The step of the checkpoint that was read, 0 if there is none."""
    step = newest_file(1 << 30)
    while step > 0 and not world.allreduce(read_field(field, step), MPI.LAND):
        step = newest_file(step)
    return step


run(restart, checkpoint)
