"""The writer for Ray datasets."""
from __future__ import annotations

import pickle
from typing import Any, Dict, List

import pandas
import ray.data

from ..build import BuildJob, BuildResult, Publication
from ..config import WriteConfig
from ..router import Router, Token
from .frames import SHARD, Columns, ValueSpec, build_frame, inferred_router, is_open_ended

_PICKLED = "pickled"


def _route_batch(batch: pandas.DataFrame, columns: Columns, router: Router) -> pandas.DataFrame:
    return columns.frame_routed(batch, router)


def _token_batch(batch: pandas.DataFrame, columns: Columns, router: Router) -> Dict[str, List[bytes]]:
    return {_PICKLED: [pickle.dumps(columns.frame_tokens(batch, router))]}


def _build_group(group: pandas.DataFrame, columns: Columns, job: BuildJob) -> Dict[str, List[bytes]]:
    return {_PICKLED: [pickle.dumps(build_frame(group, columns, job))]}


def _taken(dataset: "ray.data.Dataset") -> List[Any]:
    return [item for row in dataset.take_all() for item in pickle.loads(row[_PICKLED])]


def _router(dataset: "ray.data.Dataset", config: WriteConfig, columns: Columns) -> Router:
    if config.max_keys_per_shard is not None:
        return config.hash_router(dataset.count())
    if not config.infer_routing_values:
        return config.scout() if config.num_dbs is None else config.router()
    arguments = {"columns": columns, "router": config.scout()}
    tokens: List[Token] = _taken(dataset.map_batches(_token_batch, batch_format="pandas", fn_kwargs=arguments))
    return inferred_router(config, tokens)


def write_ray(dataset: "ray.data.Dataset", config: WriteConfig, *, key: str, value: ValueSpec) -> BuildResult:
    """Builds and publishes a snapshot from a Ray dataset.

    key: the column of keys. value: a column of bytes or text, several columns (they become one JSON object), or a function of
    a row. Columns that the routing expression names must be there under these names.

    Rows are routed and grouped by shard inside Ray's tasks, each shard is built in one of them, and the driver publishes. Which of
    several rows with one key stays is not defined here. The package must be installed on the nodes.
    """
    columns = Columns.of(config, key, value)
    names = columns.needed(dataset.columns() or [])
    router = _router(dataset, config, columns)
    with Publication(config, "ray") as publication:
        arguments = {"columns": columns, "router": router}
        routed = dataset.select_columns(names).map_batches(_route_batch, batch_format="pandas", fn_kwargs=arguments)
        if is_open_ended(config):
            routed = routed.materialize()
            router = config.router(config.found_shards(routed.unique(SHARD)))
        groups = routed.groupby(SHARD, num_partitions=min(router.num_dbs, 4096)).map_groups(_build_group, batch_format="pandas", fn_kwargs={"columns": columns, "job": publication.job})
        return publication.publish(router, _taken(groups))
