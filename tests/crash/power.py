"""Power loss for a process that only was killed: builds the directory that would be there if nothing had reached the disk but what was synced, and by chance some more.

tests/fault/preload.c keeps the ledger that this goes by. Bytes behind the last sync of a file are gone, there in part, or zeros; the names in a directory are those of its last
sync, or all that were made and deleted since. Files are only written to at their end or over zeros, so what is torn out is zeros."""
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_preload(folder):
    """Compiles the library that goes between server and disk; gives its path."""
    library = os.path.join(folder, "preload.so")
    subprocess.run(["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, os.path.join(ROOT, "tests", "fault", "preload.c"), "-ldl"],
                   check=True, timeout=60)
    return library


class Disk:
    """The data directory of a server whose machine may lose power."""

    def __init__(self, folder, data, r):
        self.library = build_preload(folder)
        self.ledger = os.path.join(folder, "ledger")
        self.data, self.r = data, r
        self.spare = data + ".rebuilt"
        self.torn_bytes = 0
        os.makedirs(data)
        self.begin()

    def env(self):
        return {"LD_PRELOAD": self.library, "FAULT_DIR": self.data, "FAULT_LEDGER": self.ledger}

    def begin(self):
        """All that is there is durable: a machine that has just started."""
        shutil.rmtree(self.ledger, ignore_errors=True)
        os.makedirs(self.ledger)
        with open(os.path.join(self.ledger, "ledger"), "w") as out:
            for path, _, files in os.walk(self.data):
                names = os.listdir(path)
                out.write(f"D {path} " + "".join(f"{os.lstat(os.path.join(path, n)).st_ino}:{n}/" for n in names) + "\n")
                for n in files:
                    st = os.stat(os.path.join(path, n))
                    out.write(f"S {st.st_ino} {st.st_size}\n")

    def lose_power(self):
        self.read_ledger()
        shutil.rmtree(self.spare, ignore_errors=True)
        self.rebuild(self.data, self.spare)
        shutil.rmtree(self.data)
        os.rename(self.spare, self.data)
        self.begin()

    # ---- building

    def read_ledger(self):
        self.sizes, self.listings, self.inodes, self.writes = {}, {}, {}, {}
        with open(os.path.join(self.ledger, "ledger")) as f:
            for line in f:
                if not line.endswith("\n"):
                    break
                kind, what, rest = line[:-1].split(" ", 2)
                if kind == "S":
                    self.sizes[int(what)] = int(rest)
                    self.writes[int(what)] = []
                elif kind == "W":
                    at, n = map(int, rest.split())
                    self.writes.setdefault(int(what), []).append((at, at + n))
                else:
                    self.listings[what] = [(int(i), n) for i, n in (entry.split(":", 1) for entry in rest.split("/") if entry)]
        for name in os.listdir(self.ledger):
            if name != "ledger":
                self.inodes[int(name)] = os.path.join(self.ledger, name)
        for path, _, files in os.walk(self.data):
            for n in files:
                self.inodes[os.stat(os.path.join(path, n)).st_ino] = os.path.join(path, n)

    def listing(self, path):
        """What is in a directory: as last synced, or as it was at the end."""
        if os.path.isdir(path) and self.r.random() < 0.5:
            return [(os.lstat(os.path.join(path, n)).st_ino, n) for n in os.listdir(path)]
        return self.listings.get(path, [])

    def rebuild(self, path, to):
        os.makedirs(to)
        for inode, name in self.listing(path):
            inner = os.path.join(path, name)
            if inner in self.listings or os.path.isdir(inner):
                self.rebuild(inner, os.path.join(to, name))
            elif inode in self.inodes:
                self.rebuild_file(inode, os.path.join(to, name))

    def tear(self, content, start, end):
        """Bytes that were written over zeros and not synced: all there, none, or some."""
        if start >= end or self.r.random() < 0.3:
            return
        cut = self.r.choice((start, self.r.randint(start, end)))
        content[cut:end] = bytes(end - cut)
        self.torn_bytes += end - cut

    def rebuild_file(self, inode, to):
        with open(self.inodes[inode], "rb") as f:
            content = bytearray(f.read())
        durable = min(self.sizes.get(inode, 0), len(content))
        for start, end in self.writes.get(inode, ()):
            self.tear(content, start, min(end, durable))
        rest = content[durable:]
        self.torn_bytes += len(rest)
        fate = self.r.randrange(4)
        if fate == 0:
            rest = b""
        elif fate == 1:
            rest = rest[:self.r.randint(0, len(rest))]
        elif fate == 2:
            rest = bytes(len(rest))
        with open(to, "wb") as f:
            f.write(content[:durable] + rest)
