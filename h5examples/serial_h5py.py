#!/usr/bin/python3
"""A serial computation with h5py, without MPI; it knows nothing of h5scr.

    serial_h5py.py STEPS [--how steps|restart|replace] [--die STEP] [--size N] [--hold]

A state of N numbers goes through STEPS steps, with a checkpoint after each:

    steps     a file of its own, ckpt_<step>.h5 (the last three are kept)
    restart   restart.h5, written anew
    replace   restart.h5, written under another name and put in its place

Started again, it goes on from the newest checkpoint. --die kills the process (kill -9) after that step's
checkpoint; --hold leaves the last file open, for Python to close.

    without h5scr:  /usr/bin/python3 serial_h5py.py 20
    with h5scr:     . build/env.sh
                    HDF5_DRIVER=scr LD_PRELOAD=libscr_hdf5_legacy.so /usr/bin/python3 serial_h5py.py 20
"""
import argparse
import glob
import os
import re
import signal

import h5py
import numpy

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("steps", type=int)
parser.add_argument("--how", choices=["steps", "restart", "replace"], default="steps")
parser.add_argument("--die", type=int, default=-1)
parser.add_argument("--size", type=int, default=1000)
parser.add_argument("--hold", action="store_true")
arguments = parser.parse_args()


def name_of(step):
    return f"ckpt_{step:04d}.h5" if arguments.how == "steps" else "restart.h5"


def candidates():
    """Names of checkpoints, the newest first."""
    if arguments.how == "steps":
        return sorted(glob.glob("ckpt_*.h5"), key=lambda name: -int(re.findall(r"\d+", name)[0]))
    return ["restart.h5"] if os.path.exists("restart.h5") else []


def restart():
    for name in candidates():
        try:
            with h5py.File(name, "r") as file:
                state, step = file["state"][:], int(file.attrs["step"])
                print(f"restarted from step {step} ({name})", flush=True)
                return state, step
        except OSError as error:
            print(f"cannot use {name}: {error}", flush=True)
    return numpy.arange(arguments.size, dtype="f8"), 0


def write(name, state, step):
    file = h5py.File(name, "w")
    file["state"] = state
    file.attrs["step"] = step
    return file


def checkpoint(state, step):
    if arguments.how == "replace":
        write("restart.h5.tmp", state, step).close()
        os.replace("restart.h5.tmp", "restart.h5")
        return
    global last
    last = write(name_of(step), state, step)
    if not (arguments.hold and step == arguments.steps):
        last.close()
    if arguments.how == "steps" and step > 3 and os.path.exists(name_of(step - 3)):
        os.remove(name_of(step - 3))


state, step = restart()
while step < arguments.steps:
    step += 1
    state = numpy.sqrt(state * state + step)
    checkpoint(state, step)
    if step == arguments.die:
        os.kill(os.getpid(), signal.SIGKILL)
print(f"done: {step} steps, sum {state.sum():.9e}", flush=True)
