"""A client that shows replies as they stand on the wire, RESP2 or RESP3."""
from conftest import Raw


class Push(list):
    """A message that nobody asked for."""


class Error(str):
    """An error as a value."""


class Wire(Raw):
    def __init__(self, server, protocol=2, timeout=20):
        super().__init__(server.port, timeout)
        if protocol == 3:
            assert self.ask("HELLO", 3)["proto"] == 3

    def ask(self, *words):
        self.command(*words)
        return self.reply()

    def reply(self):
        line = self.line()
        mark, rest = line[:1], line[1:].decode()
        if mark in b"$=":
            return self.bulk(int(rest), mark)
        if mark in b"*>~%":
            return self.aggregate(mark, int(rest))
        simple = {b"+": str, b"-": Error, b":": int, b",": float, b"(": int, b"#": lambda t: t == "t", b"_": lambda _: None}
        return simple[mark](rest)

    def bulk(self, n, mark):
        if n < 0:
            return None
        text = self.read(n + 2)[:-2].decode("latin-1")
        return text[4:] if mark == b"=" else text

    def aggregate(self, mark, n):
        if n < 0:
            return None
        if mark == b"%":
            return {self.reply(): self.reply() for _ in range(n)}
        items = [self.reply() for _ in range(n)]
        return Push(items) if mark == b">" else items

    def silent(self, seconds=0.2):
        """True if nothing comes for a while."""
        old = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            more = self.sock.recv(65536)
            self.pending += more
            return False
        except TimeoutError:
            return not self.pending
        finally:
            self.sock.settimeout(old)

    def closed(self):
        """True once the server has closed, whatever it sent before."""
        try:
            while self.sock.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
