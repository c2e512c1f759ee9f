"""Steers tests/fault/preload.c: a server whose disk fails when the test says so."""
import errno
import mmap
import os
import struct
import subprocess

from conftest import ROOT

KINDS = ("write", "sync", "sync_dir", "create", "rename", "unlink", "truncate")
FAULT = struct.Struct("<QQQiI32s")
FOREVER = 2**63


def build_library(folder):
    """Gives its path."""
    library = os.path.join(folder, "preload.so")
    source = os.path.join(ROOT, "tests", "fault", "preload.c")
    subprocess.run(["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    return library


class Faults:
    """Calls are counted from 1 by kind; those from `first` to `last` fail."""

    def __init__(self, folder, data, library):
        self.library = library
        self.path = os.path.join(folder, "faults")
        self.data = str(data)
        with open(self.path, "wb") as f:
            f.write(bytes(FAULT.size * len(KINDS) + 8))
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)

    def env(self):
        return {"LD_PRELOAD": self.library, "FAULT_DIR": self.data, "FAULT_CONTROL": self.path}

    def at(self, kind):
        return KINDS.index(kind) * FAULT.size

    def calls(self, kind):
        return struct.unpack_from("<Q", self.map, self.at(kind))[0]

    def set(self, kind, first, last, error, match):
        struct.pack_into("<QQi", self.map, self.at(kind) + 8, first, last, error)
        struct.pack_into("32s", self.map, self.at(kind) + 32, match.encode())

    def fail(self, kind, after=0, times=FOREVER, error=errno.EIO, match=""):
        """The calls behind the next `after` ones fail, `times` of them."""
        first = self.calls(kind) + after + 1
        self.set(kind, first, first + times - 1, error, match)

    def mend(self):
        for kind in KINDS:
            self.set(kind, 0, 0, 0, "")
            self.delay(kind, 0)

    def delay(self, kind, ms):
        struct.pack_into("<I", self.map, self.at(kind) + 28, ms)

    def set_clock(self, ahead_s):
        """The server's clock of the world is so far ahead of ours from now on."""
        struct.pack_into("<q", self.map, FAULT.size * len(KINDS), ahead_s)
