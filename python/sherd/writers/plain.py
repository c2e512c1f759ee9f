"""The writer for plain Python: rows in one process, shards built by threads."""
from __future__ import annotations

import itertools
import os
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ..build import BuildResult, Buckets, Publication, Shard, Value
from ..config import WriteConfig
from ..errors import ConfigError, RoutingError
from ..router import Key, Router, Token

Row = Union[Tuple[Key, Value], Tuple[Key, Value, Mapping[str, Any]]]

#: Rows that are routed and handed over at once.
_CHUNK = 8192


class _Chunk(NamedTuple):
    keys: Any
    values: Sequence[Value]
    context: Optional[Dict[str, Any]]


class _Feed:
    """Gives each row its bucket, and in the end each bucket its shard.

    Where the routing values are inferred, buckets are tokens in the order in which they were first seen; shards are tokens in
    sorted order, so which bucket is which shard is known when all rows have been seen. Input is read once.
    """

    def __init__(self, config: WriteConfig, count: Optional[int]) -> None:
        self.config = config
        self.seen: Dict[Token, int] = {}
        if config.max_keys_per_shard is not None:
            if count is None:
                raise ConfigError("max_keys_per_shard needs input whose length is known")
            self.router = config.hash_router(count)
        else:
            self.router = config.scout() if config.num_dbs is None else config.router()

    def buckets(self, chunk: _Chunk) -> "array[int]":
        if not self.config.infer_routing_values:
            return self.router.route(chunk.keys, chunk.context)
        tokens = self.router.tokens(chunk.keys, chunk.context)
        return array("i", [self.seen.setdefault(token, len(self.seen)) for token in tokens])

    def finish(self, used: Sequence[int]) -> Tuple[Router, Dict[int, int]]:
        """The snapshot's router, and {bucket: shard} of the buckets in use."""
        if self.config.infer_routing_values:
            if len({type(token) for token in self.seen}) > 1:
                raise RoutingError("the routing expression gave both numbers and text; routing values are of one type")
            values = sorted(self.seen)  # type: ignore[type-var]
            return self.config.router(routing_values=values), {self.seen[token]: shard for shard, token in enumerate(values)}
        same = {bucket: bucket for bucket in used}
        if self.config.is_direct and self.config.num_dbs is None:
            return self.config.router(self.config.found_shards(used)), same
        return self.router, same


def _row_chunks(rows: Iterable[Row], names: Sequence[str]) -> Iterator[_Chunk]:
    source = iter(rows)
    while True:
        chunk: List[Any] = list(itertools.islice(source, _CHUNK))
        if not chunk:
            return
        context = None
        if names:
            if any(len(row) < 3 for row in chunk):
                raise RoutingError(f"rows are (key, value, context): the routing expression needs {', '.join(names)}")
            context = {name: [row[2][name] for row in chunk] for name in names}
        yield _Chunk([row[0] for row in chunk], [row[1] for row in chunk], context)


def _column_chunks(keys: Any, values: Any, context: Optional[Mapping[str, Any]], names: Sequence[str]) -> Iterator[_Chunk]:
    if len(keys) != len(values):
        raise ConfigError("keys and values differ in length")
    for at in range(0, len(keys), _CHUNK):
        part = slice(at, at + _CHUNK)
        columns = {name: (context or {})[name][part] for name in names}
        yield _Chunk(keys[part], values[part], columns or None)


def _build_all(buckets: Buckets, places: Dict[int, int], jobs: int) -> List[Optional[Shard]]:
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(buckets.build, bucket, shard) for bucket, shard in places.items()]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # One shard that fails, or Ctrl-C, ends the others too: nothing of this run will be seen.
            for future in futures:
                future.cancel()
            buckets.cancel()
            raise


def _write(chunks: Iterable[_Chunk], config: WriteConfig, count: Optional[int], jobs: Optional[int]) -> BuildResult:
    jobs = jobs or min(8, os.cpu_count() or 1)
    feed = _Feed(config, count)
    with Publication(config, "python") as publication:
        buckets = Buckets(publication.job, jobs)
        for chunk in chunks:
            buckets.add(chunk.keys, chunk.values, feed.buckets(chunk))
        used = range(buckets.finish())
        router, places = feed.finish([bucket for bucket in used if buckets.rows(bucket)])
        return publication.publish(router, _build_all(buckets, places, jobs))


def _context_names(config: WriteConfig) -> List[str]:
    return list(config.cel_columns or {}) if config.scout().needs_context else []


def write(rows: Iterable[Row], config: WriteConfig, *, jobs: Optional[int] = None) -> BuildResult:
    """Builds and publishes a snapshot from rows (key, value) in any order; of equal keys the last one stays.

    Where the routing expression needs more than the key, rows are (key, value, {column: value}). The input may be larger than
    memory (config.memory_bytes) and is read once. jobs: shards built at the same time.
    """
    count = len(rows) if hasattr(rows, "__len__") else None
    return _write(_row_chunks(rows, _context_names(config)), config, count, jobs)


def write_columns(keys: Any, values: Any, config: WriteConfig, *, context: Optional[Mapping[str, Any]] = None, jobs: Optional[int] = None) -> BuildResult:
    """The same from columns: keys may be an array of int64, context is {column: values}."""
    names = _context_names(config)
    missing = [name for name in names if name not in (context or {})]
    if missing:
        raise RoutingError(f"the routing expression needs context: {', '.join(missing)}")
    return _write(_column_chunks(keys, values, context, names), config, len(keys), jobs)
