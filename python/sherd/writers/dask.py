"""The writer for Dask data frames."""
from __future__ import annotations

from typing import Any, List

import dask
import dask.dataframe as dd

from ..build import BuildResult, Publication, Shard
from ..config import WriteConfig
from ..router import Router
from .frames import SHARD, Columns, ValueSpec, build_frame, inferred_router, is_open_ended


def _router(frame: "dd.DataFrame", config: WriteConfig, columns: Columns) -> Router:
    """The router, as far as it can be known before rows are routed: for an open-ended build one without a bound."""
    if config.max_keys_per_shard is not None:
        return config.hash_router(len(frame))
    if not config.infer_routing_values:
        return config.scout() if config.num_dbs is None else config.router()
    scout = config.scout()
    found = dask.compute(*(dask.delayed(columns.frame_tokens)(part, scout) for part in frame.to_delayed()))
    return inferred_router(config, (token for part in found for token in part))


def _routed(frame: "dd.DataFrame", columns: Columns, router: Router) -> "dd.DataFrame":
    needed = frame[columns.needed(frame.columns)]
    meta = needed._meta.assign(**{SHARD: 0})
    return needed.map_partitions(columns.frame_routed, router, meta=meta)


def write_dask(frame: "dd.DataFrame", config: WriteConfig, *, key: str, value: ValueSpec) -> BuildResult:
    """Builds and publishes a snapshot from a Dask data frame.

    key: the column of keys. value: a column of bytes or text, several columns (they become one JSON object), or a function of
    a row. Columns that the routing expression names must be there under these names.

    Rows are routed and shuffled by shard inside the workers, each shard is built where its rows are, and this process publishes.
    Which of several rows with one key stays is not defined here.
    """
    columns = Columns.of(config, key, value)
    router = _router(frame, config, columns)
    with Publication(config, "dask") as publication:
        routed = _routed(frame, columns, router)
        if is_open_ended(config):
            routed = routed.persist()
            router = config.router(config.found_shards(routed[SHARD].unique().compute()))
        shuffled = routed.shuffle(on=SHARD, npartitions=min(router.num_dbs, 4096), ignore_index=True)
        built: List[List[Shard]] = dask.compute(*(dask.delayed(build_frame)(part, columns, publication.job) for part in shuffled.to_delayed()))
        return publication.publish(router, (shard for part in built for shard in part))


__all__: List[Any] = ["write_dask"]
