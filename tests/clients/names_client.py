"""Changes names in all ways that the system has, and prints what it finds under them.

  names_client.py

Knows nothing of h5scr: with and without it the lines and the files in the end must be the same."""
import ctypes
import os
import shutil

import h5py

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, HERE = 1, 2, -100


def write(name, value):
    with h5py.File(name, "w") as file:
        file["value"] = [value] * 1000


def show(*names):
    for name in names:
        try:
            with h5py.File(name, "r") as file:
                print(name, int(file["value"][7]), flush=True)
        except OSError:
            print(name, "cannot be opened", os.path.exists(name), flush=True)


def rename(old, new, flags):
    done = libc.renameat2(HERE, old.encode(), HERE, new.encode(), flags)
    print("renameat2", old, new, done, os.strerror(ctypes.get_errno()) if done else "", flush=True)


# A backup by a hard link.
write("a.h5", 1)
os.link("a.h5", "a.bak.h5")
os.unlink("a.h5")
write("a.h5", 2)
show("a.h5", "a.bak.h5")

# Directories that rotate.
os.mkdir("cur")
write("cur/c.h5", 3)
write("cur/d.h5", 4)
os.rename("cur", "old")
os.mkdir("cur")
write("cur/c.h5", 5)
show("old/c.h5", "old/d.h5", "cur/c.h5", "cur/d.h5")
shutil.rmtree("old")
os.rename("cur", "old")
show("old/c.h5", "cur/c.h5", "old/d.h5")
os.mkdir("step2")
write("step2/c.h5", 6)
shutil.rmtree("step2")
show("step2/c.h5")
print("step2", os.path.exists("step2"))

# Names below a directory that is open.
os.mkdir("sub")
write("sub/e.h5", 7)
directory = os.open("sub", os.O_RDONLY)
os.rename("e.h5", "f.h5", src_dir_fd=directory, dst_dir_fd=directory)
show("sub/e.h5", "sub/f.h5")
os.link("f.h5", "g.h5", src_dir_fd=directory, dst_dir_fd=directory)
os.unlink("f.h5", dir_fd=directory)
os.close(directory)
show("sub/f.h5", "sub/g.h5")

# Flags of renameat2.
write("h.h5", 8)
write("i.h5", 9)
rename("h.h5", "i.h5", NOREPLACE)
rename("h.h5", "j.h5", NOREPLACE)
rename("i.h5", "j.h5", EXCHANGE)
show("h.h5", "i.h5", "j.h5")

# Commands.
for value in (10, 11):
    write("t.h5", value)
    os.system("mv t.h5 m.h5")
    show("t.h5", "m.h5")
write("r.h5", 12)
os.system("rm r.h5; cp m.h5 n.h5; ln m.h5 o.h5")
show("r.h5", "n.h5", "o.h5")

# A file that is renamed while it is open.
with h5py.File("p.h5", "w") as file:
    file["value"] = [13] * 1000
    os.rename("p.h5", "q.h5")
    file["more"] = 14
show("p.h5", "q.h5")
