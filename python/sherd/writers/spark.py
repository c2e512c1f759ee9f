"""The writer for Spark data frames. Rows go from Spark to the C builder one by one, so a shard may be larger than a worker's memory."""
from __future__ import annotations

import itertools
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from pyspark import TaskContext
from pyspark.sql import DataFrame

from ..build import BuildJob, BuildResult, Publication, Shard, ShardBuilder
from ..config import WriteConfig
from ..router import Router, Token
from .frames import Columns, ValueSpec, inferred_router, is_open_ended

_CHUNK = 4096


def _chunks(rows: Iterable[Any]) -> Iterator[List[Any]]:
    source = iter(rows)
    while True:
        chunk = list(itertools.islice(source, _CHUNK))
        if not chunk:
            return
        yield chunk


def _plain_key(key: Any) -> Any:
    """Spark's binary columns are bytearrays, which are not hashable."""
    return bytes(key) if isinstance(key, bytearray) else key


def _keys_and_context(chunk: List[Any], columns: Columns) -> Tuple[List[Any], Optional[Dict[str, Any]]]:
    keys = [_plain_key(row[columns.key]) for row in chunk]
    return keys, {name: [row[name] for row in chunk] for name in columns.context} or None


def _route_rows(rows: Iterable[Any], columns: Columns, router: Router) -> Iterator[Tuple[int, Tuple[Any, Any]]]:
    for chunk in _chunks(rows):
        keys, context = _keys_and_context(chunk, columns)
        for shard, key, row in zip(router.route(keys, context), keys, chunk):
            yield shard, (key, columns.encode(row.asDict() if callable(columns.value) else row))


def _tokens(rows: Iterable[Any], columns: Columns, router: Router) -> Iterator[Token]:
    seen: set = set()
    for chunk in _chunks(rows):
        keys, context = _keys_and_context(chunk, columns)
        seen.update(router.tokens(keys, context))
    return iter(seen)


def _build_partition(db_id: int, rows: Iterable[Tuple[int, Tuple[Any, Any]]], job: BuildJob) -> Iterator[Shard]:
    builder = ShardBuilder(job, db_id)
    for _, (key, value) in rows:
        builder.add(key, value)
    task = TaskContext.get()
    # An attempt of Spark's, repeated or speculative, has its own number and so its own place in the store.
    shard = builder.finish(task.attemptNumber(), stage_id=task.stageId(), task_attempt_id=task.taskAttemptId())
    return iter([] if shard is None else [shard])


def _router(rows: Any, config: WriteConfig, columns: Columns) -> Router:
    if config.max_keys_per_shard is not None:
        return config.hash_router(rows.count())
    if not config.infer_routing_values:
        return config.scout() if config.num_dbs is None else config.router()
    scout = config.scout()
    return inferred_router(config, rows.mapPartitions(lambda part: _tokens(part, columns, scout)).distinct().collect())


def _identity(shard: int) -> int:
    return shard


def write_spark(frame: DataFrame, config: WriteConfig, *, key: str, value: ValueSpec) -> BuildResult:
    """Builds and publishes a snapshot from a Spark data frame.

    key: the column of keys. value: a column of bytes or text, several columns (they become one JSON object), or a function of
    a row. Columns that the routing expression names must be there under these names.

    One partition becomes one shard, built in the executor; the driver publishes. Which of several rows with one key stays is not
    defined here. The package must be installed on the executors.
    """
    columns = Columns.of(config, key, value)
    rows = frame.select(*columns.needed(frame.columns)).rdd
    router = _router(rows, config, columns)
    with Publication(config, "spark") as publication:
        job, first = publication.job, router
        routed = rows.mapPartitions(lambda part: _route_rows(part, columns, first))
        if is_open_ended(config):
            routed = routed.cache()
            router = config.router(config.found_shards(routed.keys().distinct().collect()))
        by_shard = routed.partitionBy(router.num_dbs, _identity)
        shards = by_shard.mapPartitionsWithIndex(lambda db_id, part: _build_partition(db_id, part, job)).collect()
        return publication.publish(router, shards)
