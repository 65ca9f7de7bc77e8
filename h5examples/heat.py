"""The heat equation of the Python examples: a plate of WIDTH x HEIGHT, some rows for each rank. What differs between
the examples, and is in their own files, is how they checkpoint."""
import sys
import time

import h5py
import numpy
from mpi4py import MPI

WIDTH = HEIGHT = 256
world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
rows = HEIGHT // ranks + (rank < HEIGHT % ranks)
first_row = rank * (HEIGHT // ranks) + min(rank, HEIGHT % ranks)


def start_field():
    """The rows of this rank, between one line of each neighbour."""
    y, x = numpy.mgrid[first_row:first_row + rows, 0:WIDTH]
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


def run(restart, checkpoint):
    """Goes on from the step that `restart(field)` has read, and calls `checkpoint(field, step)` every few steps."""
    steps, every, output = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    pause = int(sys.argv[4]) / 1000 if len(sys.argv) > 4 else 0
    field = start_field()
    step = restart(field)
    if step > 0 and rank == 0:
        print(f"restarted from step {step}", flush=True)
    while step < steps:
        compute_step(field)
        step += 1
        time.sleep(pause)
        if step % every == 0:
            checkpoint(field, step)
            if rank == 0:
                print(f"step {step}: checkpoint written", flush=True)
    whole = world.gather(field[1:-1])
    if rank == 0:
        global result
        result = h5py.File(output, "w")  # closed when Python ends
        result["field"] = numpy.concatenate(whole)
        print(f"done: {steps} steps", flush=True)
