"""The Python package against a real S3 server: build, publish and read, and what goes wrong there."""
import os
import pickle
import sys

import pytest

from conftest import ROOT
from s3server import s3, s3_strict  # noqa: F401

SITE = os.path.join(ROOT, "build", "python", "site")
sys.path.insert(0, SITE)
sherd = pytest.importorskip("sherd", reason="the Python package is not built: make python")

ROWS = {f"user-{i}": b"value %d" % i for i in range(3000)}


def options(server, **other):
    return sherd.StoreOptions(**{"endpoint": server.endpoint, "region": "us-east-1", "access_key": server.key[0], "secret_key": server.key[1], **other})


def config(server, **other):
    return sherd.WriteConfig(server.url, num_dbs=3, key_encoding="utf8", store=options(server), **other)


@pytest.mark.parametrize("mode", ["download", "range"])
def test_what_is_published_is_read(s3, mode, tmp_path):
    result = sherd.write(ROWS.items(), config(s3, reuse=False))
    assert result.row_count == len(ROWS) and result.guard == "store"
    with sherd.Reader(s3.url, mode=mode, cache_dir=str(tmp_path), store=options(s3)) as reader:
        assert reader.multi_get(list(ROWS)) == ROWS
        assert dict(reader.scan()) == ROWS
        assert reader.info().mode == mode and reader.get("nobody") is None
        sherd.write({**ROWS, "user-1": b"new"}.items(), config(s3))
        assert reader.get("user-1") == b"value 1" and reader.refresh() and reader.get("user-1") == b"new"


def test_unchanged_shards_are_used_again(s3):
    sherd.write(ROWS.items(), config(s3))
    assert sherd.write({**ROWS, "user-1": b"other"}.items(), config(s3)).reused == 2


def test_of_two_publishers_the_second_is_refused(s3):
    with sherd.Publication(config(s3)) as late:
        sherd.write(ROWS.items(), config(s3))
        with pytest.raises(sherd.PublishRaceError):
            late.publish(sherd.Router.hash(3), [])


def test_wrong_credentials_and_missing_buckets_have_their_own_exceptions(s3):
    with pytest.raises(sherd.AccessDeniedError):
        sherd.Reader(s3.url, store=options(s3, secret_key="wrong"))
    with pytest.raises(sherd.NotFoundError):
        sherd.Publication(sherd.WriteConfig("s3://no-such-bucket/p", num_dbs=1, store=options(s3)))
    with pytest.raises(sherd.StoreError) as caught:
        sherd.Reader(s3.url, store=options(s3, endpoint="http://127.0.0.1:1", attempts_max=1))
    assert caught.value.retryable and pickle.loads(pickle.dumps(caught.value)).code == caught.value.code
