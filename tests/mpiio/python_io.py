"""MPI-IO from mpi4py: every rank writes through a view and reads what the next one wrote. Prints DONE.

    mpirun -n N python3 python_io.py FILE
"""

import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
other = (rank + 1) % size
n = 50

info = MPI.Info.Create()
info["scr_type"] = "OUTPUT"
file = MPI.File.Open(comm, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_RDWR, info)
assert file.info["scr_type"] == "OUTPUT"
assert file.amode == MPI.MODE_CREATE | MPI.MODE_RDWR
filetype = MPI.INT.Create_vector(n, 1, size).Commit()
file.Set_view(4 * rank, MPI.INT, filetype)
filetype.Free()
status = MPI.Status()
file.Write_all(array("i", [1000 * rank + i for i in range(n)]), status)
assert status.Get_count(MPI.INT) == n
comm.Barrier()

file.Set_view(0, MPI.INT, MPI.INT)
for i in range(n):
    seen = array("i", [-1])
    request = file.Iread_at(i * size + other, seen)
    request.Wait(status)
    assert status.Get_count(MPI.INT) == 1 and seen[0] == 1000 * other + i, (i, seen)
file.Seek_shared(n * size)
file.Write_ordered(array("i", [rank]))
comm.send(None, dest=other)
comm.recv()
comm.Barrier()
seen = array("i", [-1])
file.Read_at_all(n * size + other, seen)
assert seen[0] == other, seen
assert file.size == 4 * (n + 1) * size
try:
    file.Set_view(0, MPI.INT, MPI.INT, "external32")
    raise AssertionError("a data representation that we do not have")
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_UNSUPPORTED_DATAREP
file.Close()
comm.Barrier()
if rank == 0:
    MPI.File.Delete(sys.argv[1])
    print("DONE")
