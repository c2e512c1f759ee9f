"""A real S3 server for tests, and a proxy before it that makes the network bad.

The server is moto's, from PyPI, in a virtual environment of its own below build/. It checks signatures strictly: an IAM user is made while its first calls are still free.
`s3` is the fixture, one server for all tests of a session, each test with a bucket of its own (`s3.bucket`, `s3.url`); `s3.env` are the variables under which a program finds it. Where PyPI cannot be
reached the tests that want it are skipped with one line. `s3_open` is one that checks nothing, for proxies that change requests.
`Proxy(upstream_port)` passes requests on unless a rule says otherwise: proxy.on("PUT", "key", drop_after, times=1).
"""
import fcntl
import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from conftest import ROOT, free_port

VENV = os.path.join(ROOT, "build", "s3-server")
PYTHON = os.path.join(VENV, "bin", "python")
WANTED = "moto[server]>=5.2,<6"
START_SECONDS = 60

SET_UP = """
import json, sys, boto3
client = lambda kind: boto3.client(kind, endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="free", aws_secret_access_key="free")
iam = client("iam")
iam.create_user(UserName="tester")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(policy))
print(json.dumps(iam.create_access_key(UserName="tester")["AccessKey"], default=str))
"""

ASK = """
import json, sys, boto3
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
print(json.dumps(eval(sys.argv[2]), default=str))
"""


def install():
    """Gives None, or why there is no server."""
    done = os.path.join(VENV, "wanted")
    os.makedirs(os.path.dirname(VENV), exist_ok=True)
    with open(VENV + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(done) and open(done).read() == WANTED:
            return None
        for command in (["/usr/bin/python3", "-m", "venv", "--clear", VENV], [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", WANTED]):
            try:
                run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
            except (OSError, subprocess.TimeoutExpired) as e:
                return f"{command[0]}: {e}"
            if run.returncode != 0:
                return run.stdout.decode(errors="replace").strip().splitlines()[-1:]
        with open(done, "w") as f:
            f.write(WANTED)
    return None


class Server:
    """moto_server on a free port. strict: only the user's key opens it, and only with right signatures."""

    def __init__(self, folder, strict):
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = open(os.path.join(folder, "moto.log"), "w")
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
        if strict:
            env["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"
        self.process = subprocess.Popen([os.path.join(VENV, "bin", "moto_server"), "-H", "127.0.0.1", "-p", str(self.port)], env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.wait_ready()
        self.key = ("free", "free")
        if strict:
            made = json.loads(subprocess.run([PYTHON, "-c", SET_UP, self.endpoint], env=env, check=True, stdout=subprocess.PIPE, timeout=60).stdout)
            self.key = (made["AccessKeyId"], made["SecretAccessKey"])
        self.env = {"AWS_ACCESS_KEY_ID": self.key[0], "AWS_SECRET_ACCESS_KEY": self.key[1], "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"}
        self.buckets = itertools.count()
        self.use_new_bucket()

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self.process.poll() is None, "moto_server ended at start"
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/moto-api/")
                connection.getresponse().read()
                return
            except OSError:
                assert time.monotonic() < deadline, "moto_server does not answer"
                time.sleep(0.05)

    def ask(self, expression):
        """What boto3 answers to an expression on its client `s3`: an opinion that is not ours."""
        run = subprocess.run([PYTHON, "-c", ASK, self.endpoint, expression], env={**os.environ, **self.env}, stdout=subprocess.PIPE, check=True, timeout=60)
        return json.loads(run.stdout)

    def use_new_bucket(self):
        self.bucket = f"bucket-{next(self.buckets)}"
        self.url = f"s3://{self.bucket}/some/prefix"
        self.ask(f"s3.create_bucket(Bucket='{self.bucket}')")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def start(tmp_path_factory, strict):
    why = install()
    if why:
        pytest.skip(f"no S3 server: {WANTED} could not be installed from PyPI ({why})")
    return Server(tmp_path_factory.mktemp("s3"), strict)


@pytest.fixture(scope="session")
def s3_strict(tmp_path_factory):
    server = start(tmp_path_factory, strict=True)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_open(tmp_path_factory):
    server = start(tmp_path_factory, strict=False)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def s3(s3_strict):
    s3_strict.use_new_bucket()
    return s3_strict


# ---- faults: each gets the connection's socket and the request, and says whether the connection goes on


class Request:
    def __init__(self, method, path, headers, head, body):
        self.method, self.path, self.headers, self.head, self.body = method, path, headers, head, body


def error(status, code, **headers):
    """The store answers with an error of its own."""

    def fault(proxy, sock, request):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message><RequestId>FAULT</RequestId></Error>".encode()
        if request.method == "HEAD":
            body = b""
        extra = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
        sock.sendall(f"HTTP/1.1 {status} Injected\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body)
        return True

    return fault


def drop_before(proxy, sock, request):
    """The connection is lost and the request with it."""
    return False


def drop_after(proxy, sock, request):
    """The request is carried out, its answer is lost."""
    proxy.fetch(request)
    return False


def stall(proxy, sock, request):
    """Silence until the client gives up."""
    sock.settimeout(30)
    try:
        sock.recv(1)
    except OSError:
        pass
    return False


def cut_in_half(proxy, sock, request):
    """Half of the answer's body, then nothing."""
    head, body = proxy.fetch(request)
    sock.sendall(head + body[: len(body) // 2])
    return False


def without_headers(*names):
    """The request goes on without some headers, as if the store did not know them."""

    def fault(proxy, sock, request):
        lines = request.head.split(b"\r\n")
        kept = [l for l in lines if l.split(b":")[0].decode("latin-1").lower() not in names]
        head, body = proxy.fetch(Request(request.method, request.path, request.headers, b"\r\n".join(kept), request.body))
        sock.sendall(head + body)
        return True

    return fault


class Proxy:
    def __init__(self, upstream):
        self.upstream = upstream
        self.rules = []
        self.requests = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def on(self, method, path, fault, times=1, skip=0):
        """The next `times` requests (None: all) of a method whose path has a match of a pattern meet the fault, after `skip` that do not."""
        self.rules.append({"method": method, "path": re.compile(path), "fault": fault, "times": times, "skip": skip, "met": 0})
        return self.rules[-1]

    def count(self, method, path=""):
        return sum(r.method == method and re.search(path, r.path) is not None for r in self.requests)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with sock:
            try:
                while (request := self.read(sock)) and self.act(sock, request):
                    pass
            except OSError:
                pass

    def read(self, sock):
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return None
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        chunks = [body]
        have = len(body)
        while have < length:
            more = sock.recv(1 << 20)
            if not more:
                return None
            chunks.append(more)
            have += len(more)
        return Request(method, path, headers, head, b"".join(chunks))

    def act(self, sock, request):
        fault = None
        with self.lock:
            self.requests.append(request)
            for rule in self.rules:
                if request.method != rule["method"] or not rule["path"].search(request.path):
                    continue
                if rule["skip"] > 0:
                    rule["skip"] -= 1
                elif rule["times"] is None or rule["met"] < rule["times"]:
                    rule["met"] += 1
                    fault = rule["fault"]
                    break
        if fault:
            return fault(self, sock, request)
        head, body = self.fetch(request)
        sock.sendall(head + body)
        return True

    def fetch(self, request):
        """The server's answer as (head, body)."""
        with socket.create_connection(("127.0.0.1", self.upstream), timeout=60) as up:
            up.sendall(request.head + b"\r\n\r\n" + request.body)
            response = http.client.HTTPResponse(up, method=request.method)
            response.begin()
            body = response.read()
            headers = [(k, v) for k, v in response.getheaders() if k.lower() not in ("transfer-encoding", "connection", "content-length")]
            length = response.getheader("content-length") if request.method == "HEAD" else len(body)
            headers.append(("Content-Length", length or 0))
            head = f"HTTP/1.1 {response.status} {response.reason}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers) + "\r\n"
            return head.encode("latin-1"), body
