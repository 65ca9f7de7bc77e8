"""A PyTables program that appends to a table, a file a step: tables_client.py STEPS [--die STEP]"""
import argparse
import glob
import os
import signal

import numpy
import tables


class Particle(tables.IsDescription):
    number = tables.Int64Col()
    energy = tables.Float64Col()


def write(step):
    with tables.open_file(f"particles_{step:04d}.h5", "w") as file:
        table = file.create_table("/", "particles", Particle, filters=tables.Filters(complevel=1))
        table.attrs.step = step
        for number in range(500):
            table.row["number"] = number * step
            table.row["energy"] = number / step
            table.row.append()
    # Opened again, to append and to index, as PyTables programs do.
    with tables.open_file(f"particles_{step:04d}.h5", "a") as file:
        table = file.root.particles
        table.row["number"] = -1
        table.row["energy"] = step
        table.row.append()
        table.flush()
        table.cols.number.create_index()
        file.create_array("/", "field", numpy.full((40, 50), step))


def newest():
    names = sorted(glob.glob("particles_*.h5"))
    if not names:
        return 0
    with tables.open_file(names[-1]) as file:
        return int(file.root.particles.attrs.step)


parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--die", type=int, default=0)
options = parser.parse_args()
first = newest() + 1
print(f"restarted from step {first - 1}", flush=True)
for step in range(first, options.steps + 1):
    write(step)
    if step == options.die:
        os.kill(os.getpid(), signal.SIGKILL)
with tables.open_file(f"particles_{options.steps:04d}.h5") as file:
    table = file.root.particles
    print("done", table.nrows, table.read_where("number == -1")["energy"][0], file.root.field[:].sum(), flush=True)
