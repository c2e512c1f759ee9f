#!/usr/bin/env python3
"""Writes the golden HyperLogLog values of this folder from a real server: generate.py PORT (a Redis that may be flushed).

<n>.txt: the value in hex after PFADD of element-0 .. element-<n-1> one by one and a PFCOUNT, then that count."""
import pathlib
import sys

import redis

here = pathlib.Path(__file__).parent
r = redis.Redis(port=int(sys.argv[1]))
r.flushall()
for n in (1, 100, 800, 20000):
    pipe = r.pipeline(transaction=False)
    for i in range(n):
        pipe.pfadd(f"k{n}", f"element-{i}")
    pipe.execute()
    count = r.pfcount(f"k{n}")
    (here / f"{n}.txt").write_text(f"{r.get(f'k{n}').hex()}\n{count}\n")
