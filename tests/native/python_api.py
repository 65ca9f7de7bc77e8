"""Checkpoint and restart from Python.

    python_api.py write | python_api.py restart
"""
import sys

from mpi4py import MPI

import scr

rank = MPI.COMM_WORLD.rank
content = bytes((i * (rank + 3)) % 251 for i in range(5000))


def expect_error(call, *arguments):
    try:
        call(*arguments)
    except scr.Error:
        return
    raise AssertionError(f"{call.__name__}{arguments} must fail")


assert scr.get_version().startswith("v")
expect_error(scr.start_checkpoint)
assert scr.config("SCR_SET_SIZE=5") is None
assert scr.config("SCR_SET_SIZE") == "5"
scr.init()
if sys.argv[1] == "write":
    assert scr.have_restart() is None
    scr.need_checkpoint()
    scr.start_output("python step 1", scr.FLAG_CHECKPOINT)
    with open(scr.route_file(f"data/rank_{rank}"), "wb") as file:
        file.write(content)
    scr.complete_output(True)
    assert scr.flush_progress("python step 1") == (0, len(content))
    scr.flush_wait("python step 1")
    assert scr.flush_progress("python step 1") == (len(content), len(content))
    expect_error(scr.flush_progress, "no such step")
    scr.flush_wait()
    scr.start_output("python step 2", scr.FLAG_CHECKPOINT)
    expect_error(scr.route_file, "/elsewhere/file")
    expect_error(scr.complete_output, rank != 1)
else:
    assert scr.have_restart() == "python step 1"
    assert scr.start_restart() == "python step 1"
    with open(scr.route_file(f"data/rank_{rank}"), "rb") as file:
        assert file.read() == content
    scr.complete_restart(True)
assert scr.should_exit() is False
expect_error(scr.complete_output, True)
scr.finalize()
if rank == 0:
    print("PASSED")
