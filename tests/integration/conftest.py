"""Real servers for tests over real sockets.

Fixtures: `server` is a running Sherd, parametrised where needed by
    @pytest.mark.parametrize("server", [{"workers": 4, "args": ["--maxmemory", "1mb"]}], indirect=True)
`make_server(workers=2, args=[...], data=path)` starts as many as a test wants; `redis_reference` is a real Redis to compare with.
SHERD_BIN chooses the binary (a sanitizer build, for instance); TEST_PATIENCE=6 waits six times as long for it. A server's log is shown when its test fails.
"""
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import redis

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHERD = os.environ.get("SHERD_BIN") or os.path.join(ROOT, "build", "sherd")
# How long something that should come is waited for: more where a slow build runs on a busy machine.
PATIENCE = int(os.environ.get("TEST_PATIENCE", 1))
START_SECONDS = 60 * PATIENCE
ANSWER_SECONDS = 20 * PATIENCE
STOP_SECONDS = 20 * PATIENCE
FIRST_PORT, LAST_PORT = 12000, 32000


def clean_env():
    """The environment without SHERD_* variables: they are options, and a test names its own."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SHERD_")}


def free_port(taken=set()):
    """A port that stays free until its server is there, and while it is away. Those that the kernel gives to outgoing connections do not: a client could get it for its own end."""
    while True:
        port = random.randrange(FIRST_PORT, LAST_PORT)
        if port in taken:
            continue
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        taken.add(port)
        return port


class Raw:
    """A socket with bytes on it, for what no client library would send."""

    def __init__(self, port, timeout=10):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def command(self, *words):
        """Sends one command as an array of bulk strings."""
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.send(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def read(self, n):
        """Exactly n bytes; fails if the server closes before."""
        while len(self.pending) < n:
            more = self.sock.recv(65536)
            assert more, f"closed after {self.pending!r}, {n} bytes wanted"
            self.pending += more
        out, self.pending = self.pending[:n], self.pending[n:]
        return out

    def line(self):
        while b"\r\n" not in self.pending:
            more = self.sock.recv(65536)
            assert more, f"closed after {self.pending!r}, a line wanted"
            self.pending += more
        out, self.pending = self.pending.split(b"\r\n", 1)
        return out

    def expect(self, data):
        assert self.read(len(data)) == data

    def read_to_end(self):
        """Everything up to the close by the server."""
        out, self.pending = self.pending, b""
        try:
            while more := self.sock.recv(65536):
                out += more
        except ConnectionResetError:
            pass
        return out

    def close(self):
        self.sock.close()


class Process:
    """A server process with its port and its log."""

    name = "server"

    def __init__(self, command, executable, port, log_path):
        self.port = port
        self.log_path = log_path
        self.last_log = ""
        self.command = command
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(command, executable=executable, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_env())
        self.pid = self.process.pid

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode} at start:\n{self.log()}")
            try:
                with Raw(self.port, timeout=2) as s:
                    s.send(b"PING\r\n")
                    if s.line().startswith((b"+PONG", b"-NOAUTH")):
                        return self
            except (OSError, AssertionError):
                pass
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} did not answer within {START_SECONDS} s:\n{self.log()}")
            time.sleep(0.02)

    def log(self):
        """What the server wrote so far; after its folder is gone, what it had written then."""
        try:
            with open(self.log_path, errors="replace") as f:
                self.last_log = f.read()
        except FileNotFoundError:
            pass
        return self.last_log

    def client(self, **options):
        options.setdefault("decode_responses", True)
        options.setdefault("socket_timeout", ANSWER_SECONDS)
        return redis.Redis(host="127.0.0.1", port=self.port, **options)

    def raw(self, timeout=10):
        return Raw(self.port, timeout)

    def running(self):
        return self.process.poll() is None

    def stop(self, timeout=STOP_SECONDS):
        """SIGTERM; gives the exit code."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError(f"{self.name} did not end on SIGTERM:\n{self.log()}")
        return self.process.returncode

    def kill(self):
        """SIGKILL: what a crash looks like from outside."""
        if self.running():
            self.process.kill()
        self.process.wait()


class Sherd(Process):
    name = "sherd"


class RedisReference(Process):
    name = "redis"


def start_sherd(folder, workers=2, args=(), data=None, port=None):
    """A running server; ephemeral unless it is given a data directory."""
    port = port or free_port()
    storage = ["--data", str(data)] if data else ["--ephemeral"]
    command = [SHERD, "serve", "--port", str(port), "--workers", str(workers), *storage, *map(str, args)]
    return Sherd(command, SHERD, port, os.path.join(folder, f"sherd-{port}.log")).wait_ready()


def start_redis(folder, args=()):
    """Debian's redis-tools carry the server under the name of its file checker, so no package that starts a service is needed."""
    executable = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    assert executable, "redis-tools is not installed"
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder, *map(str, args)]
    return RedisReference(command, executable, port, os.path.join(folder, f"redis-{port}.log")).wait_ready()


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what its servers logged; on CI a skipped test is a failed one: what CI does not run, nobody runs."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
    if report.failed:
        for process in getattr(item, "servers", []):
            report.sections.append((f"log of {process.name} on port {process.port}", process.log()[-20000:]))


@pytest.fixture
def processes(request):
    """Starts servers that end with the test, in a folder of their own."""
    folder = tempfile.mkdtemp(prefix="sherd-test-")
    request.node.servers = []

    def start(starter, **options):
        process = starter(folder, **options)
        request.node.servers.append(process)
        return process

    start.folder = folder
    yield start
    broken = []
    for process in request.node.servers:
        ended_alone = not process.running() and process.process.returncode not in (0, -signal.SIGKILL, -signal.SIGTERM)
        code = process.stop()
        process.log()
        if ended_alone or code not in (0, -signal.SIGKILL, -signal.SIGTERM):
            broken.append(f"{process.name} on port {process.port} ended with {code}; its log is below")
    shutil.rmtree(folder, ignore_errors=True)
    assert not broken, "\n".join(broken)


@pytest.fixture
def make_server(processes):
    return lambda **options: processes(start_sherd, **options)


@pytest.fixture
def server(request, make_server):
    return make_server(**getattr(request, "param", {}))


@pytest.fixture
def client(server):
    with server.client() as c:
        yield c


@pytest.fixture
def redis_reference(processes):
    return processes(start_redis)


def pytest_configure(config):
    config.addinivalue_line("markers", "plain_build: measures memory, which sanitizers have of their own; the plain build runs it")


def pytest_collection_modifyitems(config, items):
    """What means nothing in a sanitizer build is no part of its run."""
    if "san" not in os.path.basename(os.path.dirname(os.environ.get("SHERD_BIN", ""))):
        return
    left_out = [item for item in items if item.get_closest_marker("plain_build")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
