"""Clients at work beside a block of a test.

    class Counting(Beside):
        def work(self, c, number):
            while not self.stop.is_set():
                c.incr("counter")

    with Counting([server.client] * 2):
        ...
"""
import threading


class Beside:
    """A thread for each of these functions, which give a client: it works until the end of the block. What goes wrong in one of them fails the test at the end of the block."""

    def __init__(self, connects):
        self.stop = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self.run, args=(connect, number)) for number, connect in enumerate(connects)]

    def run(self, connect, number):
        try:
            with connect() as c:
                self.work(c, number)
        except Exception as e:  # told in __exit__
            self.errors.append(e)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for t in self.threads:
            t.join()
        assert not self.errors


class Pounding(Beside):
    """Sets the same keys again and again."""

    def __init__(self, connects, keys):
        super().__init__(connects)
        self.keys = keys

    def work(self, c, number):
        p = c.pipeline(transaction=False)
        while not self.stop.is_set():
            for key in self.keys:
                p.set(key, "y")
            p.execute()
