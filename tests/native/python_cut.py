"""Writes a checkpoint, or reads the one there is, and ends before it could be flushed."""
import os

from mpi4py import MPI

import scr

rank = MPI.COMM_WORLD.rank
content = bytes((i * (rank + 3)) % 251 for i in range(5000))
file = f"folder/rank_{rank}"
scr.init()
name = scr.have_restart()
if name is None:
    scr.start_output("python step", scr.FLAG_CHECKPOINT)
    path = scr.route_file(file)
    with open(path, "wb") as written:
        written.write(content)
    scr.complete_output(True)
else:
    scr.start_restart()
    with open(scr.route_file(file), "rb") as read:
        assert read.read() == content
    scr.complete_restart(True)
    os.write(1, f"RESTARTED {name}\n".encode())  # whole, whatever the other ranks print
MPI.COMM_WORLD.Barrier()
os._exit(3)
