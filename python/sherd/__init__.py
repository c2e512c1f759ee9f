"""Sherd for Python: build, publish and read immutable, sharded snapshots in an object store.

- Router: which shard a key goes to, vectorised
- WriteConfig, write, write_columns: build and publish from plain Python; sherd.writers has Dask, Spark and Ray
- ShardBuilder, Publication, publish: the parts, for engines of one's own
- Reader: get, multi_get, scan, refresh
"""
from .build import BuildJob, BuildResult, Buckets, Publication, Shard, ShardBuilder, publish
from .config import StoreOptions, WriteConfig
from .errors import (
    AccessDeniedError,
    ConfigError,
    CoverageError,
    DamagedError,
    InvalidKeyError,
    ManifestError,
    NoSnapshotError,
    NotFoundError,
    PublishCurrentError,
    PublishError,
    PublishManifestError,
    PublishRaceError,
    PublishUncertainError,
    ReaderClosedError,
    RoutingError,
    SherdError,
    SnapshotError,
    StoreError,
    UnknownTokenError,
)
from .reader import Health, Reader, ShardInfo, SnapshotInfo
from .router import Router
from .writers.plain import write, write_columns

__all__ = [
    "AccessDeniedError",
    "BuildJob",
    "BuildResult",
    "Buckets",
    "ConfigError",
    "CoverageError",
    "DamagedError",
    "Health",
    "InvalidKeyError",
    "ManifestError",
    "NoSnapshotError",
    "NotFoundError",
    "Publication",
    "PublishCurrentError",
    "PublishError",
    "PublishManifestError",
    "PublishRaceError",
    "PublishUncertainError",
    "Reader",
    "ReaderClosedError",
    "Router",
    "RoutingError",
    "Shard",
    "ShardBuilder",
    "ShardInfo",
    "SherdError",
    "SnapshotError",
    "SnapshotInfo",
    "StoreError",
    "StoreOptions",
    "UnknownTokenError",
    "WriteConfig",
    "publish",
    "write",
    "write_columns",
]
