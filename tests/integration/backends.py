"""Both event loops, for tests of what connections do."""
import pytest

WORKERS = 4


def on_both_backends(**options):
    """Runs a test once per event loop, against a server with several workers."""
    args = options.pop("args", [])
    params = [{"workers": WORKERS, **options, "args": ["--io-backend", name, *args]} for name in ("epoll", "uring")]
    return pytest.mark.parametrize("server", params, indirect=True, ids=["epoll", "uring"])


def shard_of(client, key):
    return client.execute_command("STATS.SHARD", key)


def keys_by_shard(client, stem, shards=WORKERS):
    """One key with this stem for each shard."""
    found = {}
    i = 0
    while len(found) < shards:
        key = f"{stem}{i}"
        found.setdefault(shard_of(client, key), key)
        i += 1
    return [found[s] for s in sorted(found)]


def bulk(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
