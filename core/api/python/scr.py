"""The native API of h5scr for Python: the calls of scr.h, with exceptions instead of error codes.

Initialise MPI first (``from mpi4py import MPI``). The library libscr.so is found as the system finds
libraries (LD_LIBRARY_PATH; ``. build/env.sh`` sets it), or where the variable SCR_LIBRARY says.

    import scr
    scr.init()
    if (name := scr.have_restart()) is not None:
        scr.start_restart()
        state = open(scr.route_file(f"ckpt/rank_{rank}.npy"), "rb").read()
        scr.complete_restart(True)
    ...
    scr.start_output("step 10", scr.FLAG_CHECKPOINT)
    with open(scr.route_file(f"ckpt/rank_{rank}.npy"), "wb") as file: ...
    scr.complete_output(True)
    scr.finalize()
"""
import ctypes
import os

SUCCESS = 0
MAX_FILENAME = 1024
FLAG_NONE = 0
FLAG_CHECKPOINT = 1
FLAG_OUTPUT = 2


class Error(RuntimeError):
    """A call failed; the reason is on standard error, on the rank it concerns."""


def _load():
    library = ctypes.CDLL(os.environ.get("SCR_LIBRARY", "libscr.so.0"))
    text, number, flag = ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    bytes_of = ctypes.POINTER(ctypes.c_ulonglong)
    for name, arguments, result in [
        ("Init", [], number), ("Finalize", [], number), ("Get_version", [], text),
        ("Config", [text], text), ("Should_exit", [flag], number),
        ("Route_file", [text, text], number), ("Have_restart", [flag, text], number),
        ("Start_restart", [text], number), ("Complete_restart", [number], number),
        ("Need_checkpoint", [flag], number), ("Start_checkpoint", [], number),
        ("Complete_checkpoint", [number], number), ("Start_output", [text, number], number),
        ("Complete_output", [number], number), ("Current", [text], number),
        ("Drop", [text], number), ("Delete", [text], number),
        ("Flush_progress", [text, bytes_of, bytes_of], number), ("Flush_wait", [text], number),
    ]:
        function = getattr(library, "SCR_" + name)
        function.argtypes, function.restype = arguments, result
    return library


_library = _load()


def _call(name, *arguments):
    if getattr(_library, "SCR_" + name)(*arguments) != SUCCESS:
        raise Error(f"SCR_{name} failed")


def _ask(name):
    flag = ctypes.c_int(0)
    _call(name, ctypes.byref(flag))
    return bool(flag.value)


def get_version():
    return _library.SCR_Get_version().decode()


def config(setting):
    """Sets ("SCR_DEBUG=1"), takes back ("SCR_DEBUG=") or asks ("SCR_DEBUG"); before init()."""
    answer = _library.SCR_Config(os.fsencode(setting))
    return None if answer is None else os.fsdecode(answer)


def init():
    _call("Init")


def finalize():
    _call("Finalize")


def should_exit():
    return _ask("Should_exit")


def route_file(name):
    path = ctypes.create_string_buffer(MAX_FILENAME)
    _call("Route_file", os.fsencode(name), path)
    return os.fsdecode(path.value)


def have_restart():
    """The name of the checkpoint to restart from, or None."""
    flag, name = ctypes.c_int(0), ctypes.create_string_buffer(MAX_FILENAME)
    _call("Have_restart", ctypes.byref(flag), name)
    return os.fsdecode(name.value) if flag.value else None


def start_restart():
    name = ctypes.create_string_buffer(MAX_FILENAME)
    _call("Start_restart", name)
    return os.fsdecode(name.value)


def complete_restart(valid):
    _call("Complete_restart", int(valid))


def need_checkpoint():
    return _ask("Need_checkpoint")


def start_checkpoint():
    _call("Start_checkpoint")


def complete_checkpoint(valid):
    _call("Complete_checkpoint", int(valid))


def start_output(name, flags=FLAG_NONE):
    _call("Start_output", os.fsencode(name), flags)


def complete_output(valid):
    _call("Complete_output", int(valid))


def current(name):
    _call("Current", os.fsencode(name))


def drop(name):
    _call("Drop", os.fsencode(name))


def delete(name):
    _call("Delete", os.fsencode(name))


def flush_progress(name):
    """Bytes of this rank that have reached the prefix directory, and all of them."""
    done, total = ctypes.c_ulonglong(0), ctypes.c_ulonglong(0)
    _call("Flush_progress", os.fsencode(name), ctypes.byref(done), ctypes.byref(total))
    return done.value, total.value


def flush_wait(name=""):
    """Returns when the dataset is in the prefix directory; without a name, when all are."""
    _call("Flush_wait", os.fsencode(name))
