"""A server process and a connection to it: as little as a crash test needs between itself and the socket."""
import os
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHERD = os.environ.get("SHERD_BIN") or os.path.join(ROOT, "build", "sherd")
START_SECONDS = 60


class Gone(Exception):
    """The server closed the connection, or was never there."""


class Refused(str):
    """An error reply."""


def encode(words):
    parts = [b"*%d\r\n" % len(words)]
    for w in words:
        if not isinstance(w, bytes):
            w = str(w).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(w), w))
    return b"".join(parts)


class Connection:
    def __init__(self, port, timeout=30):
        try:
            self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        except OSError as e:
            raise Gone(str(e))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb", 1 << 16)

    def send(self, commands):
        try:
            self.sock.sendall(b"".join(map(encode, commands)))
        except OSError as e:
            raise Gone(str(e))

    def reply(self):
        try:
            line = self.file.readline()
        except OSError as e:
            raise Gone(str(e))
        if not line.endswith(b"\r\n"):
            raise Gone("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"-":
            return Refused(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.exactly(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        raise AssertionError(f"not a reply: {line!r}")

    def exactly(self, n):
        try:
            data = self.file.read(n)
        except OSError as e:
            raise Gone(str(e))
        if len(data) != n:
            raise Gone("closed")
        return data

    def many(self, commands):
        self.send(commands)
        return [self.reply() for _ in commands]

    def ask(self, *words):
        return self.many([words])[0]

    def close(self):
        self.file.close()
        self.sock.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    """One life of a server. Its log goes behind that of the lives before it."""

    def __init__(self, args, log_path, env=None):
        self.port = free_port()
        self.log_path = log_path
        self.log_from = os.path.getsize(log_path) if os.path.exists(log_path) else 0
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SHERD_")}
        command = [SHERD, "serve", "--port", str(self.port), *map(str, args)]
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**clean, **(env or {})})

    def log(self):
        with open(self.log_path, errors="replace") as f:
            f.seek(self.log_from)
            return f.read()

    def wait_ready(self):
        """Until a command that needs the data is answered."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode} at start:\n{self.log()}")
            try:
                c = Connection(self.port, timeout=5)
                answer = c.ask("GET", "ready?")
                c.close()
                if not (isinstance(answer, Refused) and answer.startswith("LOADING")):
                    return self
            except Gone:
                pass
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"the server did not answer within {START_SECONDS} s:\n{self.log()}")

    def connect(self):
        return Connection(self.port)

    def kill(self):
        """SIGKILL. Gives the moment at which it was sent, and whether there was something to kill."""
        was_running = self.process.poll() is None
        at = time.monotonic()
        if was_running:
            self.process.kill()
        self.process.wait()
        return at, was_running

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(START_SECONDS) != 0:
            raise RuntimeError(f"the server ended with {self.process.returncode} on SIGTERM:\n{self.log()}")
