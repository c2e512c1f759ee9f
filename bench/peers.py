"""The servers that are measured: how each is started, and the little that is needed to talk to one.

Every server listens on 127.0.0.1 only and dies with its Server object. It keeps nothing on disk, but for those of the sections `durable` and `cluster`.
"""
import dataclasses
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "bench", "log")
DATA = os.path.join(ROOT, "build", "bench", "data")


class ServerError(Exception):
    """A server that does not start, does not answer, or answers with an error."""


@dataclass(frozen=True)
class Peer:
    """One way of starting one server. `argv` may name {port}, {workers}, {value_bytes} and {data}, a folder."""
    name: str
    program: str
    argv: tuple
    stores: bool = True          # False: answers, but keeps nothing
    version_argv: tuple = ("--version",)
    note: str = ""

    def path(self):
        """The program's path, or None if it is not there."""
        return self.program if os.path.exists(self.program) else shutil.which(self.program)

    def version(self):
        if not self.version_argv or not self.path():
            return ""
        done = subprocess.run([self.path(), *self.version_argv], capture_output=True, text=True, timeout=10, check=False)
        found = re.search(r"v?=?(\d+\.\d+[\w.~+-]*)", done.stdout or done.stderr)
        return found.group(1) if found else ""


REDIS_LIKE = ("--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
              "--logfile", "", "--dir", LOGS, "--io-threads", "1")
LIMIT = os.path.join(ROOT, "build", "bench", "limit")
LIMIT_ARGV = ("--port", "{port}", "--threads", "{workers}", "--value-bytes", "{value_bytes}", "--io")

PEERS = {p.name: p for p in (
    Peer("limit-epoll", LIMIT, LIMIT_ARGV + ("epoll",), stores=False, version_argv=(),
         note="answers every command, stores nothing: the limit of the socket path, on epoll"),
    Peer("limit-uring", LIMIT, LIMIT_ARGV + ("uring",), stores=False, version_argv=(), note="the same on io_uring"),
    Peer("sherd", os.path.join(ROOT, "build", "sherd"),
         ("serve", "--ephemeral", "--port", "{port}", "--workers", "{workers}", "--log-level", "warning"),
         note="this project"),
    Peer("valkey", "valkey-server", REDIS_LIKE, note="one thread"),
    Peer("redis", "redis-server", REDIS_LIKE, note="one thread"),
)}
ORDER = list(PEERS)


POLICIES = {"EveryWrite": "always", "EverySecond": "everysec", "OsManaged": "no"}  # sherd's word, redis's word


def durable_peer(name, policy, log=True):
    """A peer of PEERS that keeps its data. Neither dumps by itself. log: with a log, as sherd always has one."""
    if name == "sherd":
        argv = ("serve", "--data", "{data}", "--port", "{port}", "--workers", "{workers}", "--log-level", "warning", "--sync-policy", policy,
                "--snapshot-interval", "0", "--max-wal-size", "1000gb")
    else:
        argv = ("--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--logfile", "", "--dir", "{data}", "--io-threads", "1",
                "--appendonly", "yes" if log else "no", "--appendfsync", POLICIES[policy], "--auto-aof-rewrite-percentage", "0")
    return dataclasses.replace(PEERS[name], argv=argv)


class Resp:
    """A minimal blocking client: one command, one reply."""

    def __init__(self, port, timeout=30.0):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    @staticmethod
    def encode(args):
        parts = [b"*%d\r\n" % len(args)]
        for a in args:
            a = a if isinstance(a, bytes) else str(a).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(a), a))
        return b"".join(parts)

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ServerError("connection closed")
        kind, rest = line[:1], line[1:-2]
        if kind in b"+:,#":
            return rest.decode()
        if kind == b"-":
            raise ServerError(rest.decode())
        if kind in b"$=":
            n = int(rest)
            return None if n < 0 else self.file.read(n + 2)[:-2].decode("latin-1")
        if kind in b"*~>":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return [self.read() for _ in range(2 * int(rest))]
        if kind == b"_":
            return None
        raise ServerError(f"unknown reply {line!r}")

    def call(self, *args):
        self.sock.sendall(self.encode(args))
        return self.read()

    def pipeline(self, commands):
        """Replies of many commands, sent in one go; an error reply becomes its ServerError."""
        self.sock.sendall(b"".join(self.encode(c) for c in commands))
        replies = []
        for _ in commands:
            try:
                replies.append(self.read())
            except ServerError as error:
                replies.append(error)
        return replies


@dataclass
class Server:
    """A running server. start() raises ServerError with the reason when it cannot run."""
    peer: Peer
    port: int
    workers: int = 2
    value_bytes: int = 256
    process: subprocess.Popen = field(default=None, repr=False)
    ready_at: float = 0.0  # time.monotonic() of its first answer

    @property
    def name(self):
        return self.peer.name

    @property
    def pid(self):
        return self.process.pid

    def log_path(self):
        return os.path.join(LOGS, f"{self.peer.name}-{self.port}.log")

    def data_path(self):
        return os.path.join(DATA, f"{self.peer.name}-{self.port}")

    def start(self, ready_seconds=10):
        path = self.peer.path()
        if not path:
            raise ServerError(f"{os.path.basename(self.peer.program)} is not installed or not built")
        os.makedirs(LOGS, exist_ok=True)
        values = {"port": self.port, "workers": self.workers, "value_bytes": self.value_bytes, "data": self.data_path()}
        argv = [path] + [a.format(**values) for a in self.peer.argv]
        with open(self.log_path(), "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=LOGS)
        try:
            self._wait_ready(time.monotonic() + ready_seconds)
        except ServerError:
            self.stop()
            raise
        return self

    def _wait_ready(self, deadline):
        """Ready is: the port is answered, by this process and not by an older one that still holds it."""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"ended at start with status {self.process.returncode}: {self._last_log_line()}")
            try:
                self.ask_ready()
                self.ready_at = time.monotonic()
                time.sleep(0.05)
                if self.process.poll() is None:
                    return
            except (OSError, ServerError):  # not there yet, or loading
                time.sleep(0.005)
        raise ServerError("was not ready in time")

    def ask_ready(self):
        """Raises OSError or ServerError while the server is not ready."""
        with Resp(self.port, timeout=2) as c:
            c.call("PING")

    def _last_log_line(self):
        with open(self.log_path(), "rb") as f:
            lines = f.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "(no message)"

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait(timeout=30)

    def client_args(self):
        """What bench/load must be told to measure this server."""
        return ["--port", str(self.port), "--server", str(self.pid)]

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def pause(self):
        if self.alive():
            self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        if self.alive():
            self.process.send_signal(signal.SIGCONT)

    def info(self):
        """INFO as a dictionary; empty for a server that has none."""
        try:
            with Resp(self.port) as c:
                text = c.call("INFO", "everything") or c.call("INFO")
        except (ServerError, OSError):
            return {}
        return dict(line.split(":", 1) for line in (text or "").splitlines() if ":" in line and not line.startswith("#"))

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1))

    def cpu_seconds(self):
        return time.clock_gettime(_cpu_clock(self.pid))


def _cpu_clock(pid):
    """The kernel's clock id of a process's CPU time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2
