"""Reading published snapshots."""
from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from . import _sherd
from .config import StoreOptions
from .errors import ConfigError
from .router import Key, _key_column


@dataclass(frozen=True)
class SnapshotInfo:
    """What a reader reads. sharding: ``hash`` or ``cel``; mode: ``download`` (or in place) or ``range``."""

    run_id: str
    manifest_ref: str
    created_at: str
    num_dbs: int
    row_count: int
    db_bytes: int
    sharding: str
    cel_expr: Optional[str]
    key_encoding: str
    hash_algorithm: str
    custom: Dict[str, Any]
    mode: str
    pinned: bool
    fell_back: bool
    shards_open: int


@dataclass(frozen=True)
class ShardInfo:
    """One shard; db_url is None for an empty one. Keys are logical ones, None where they are not known."""

    db_id: int
    row_count: int
    db_bytes: int
    db_url: Optional[str]
    min_key: Any
    max_key: Any
    checkpoint_id: Optional[str]
    sha256: Optional[str]
    open: bool


@dataclass(frozen=True)
class Health:
    """status: ``healthy``, ``degraded`` or ``unhealthy``; reason says why, if it is not the first."""

    status: str
    reason: str
    age_seconds: float
    unchecked_seconds: float
    num_shards: int
    manifest_ref: str


def _decoded(text: Optional[str]) -> Any:
    return None if text is None else json.loads(text)


class Reader(_sherd.Reader):
    """Reads the current snapshot of a URL, or a pinned one. Any number of threads may share a reader.

    >>> with Reader("s3://bucket/prefix") as reader:
    ...     reader.get("user-17")
    ...     reader.multi_get(["user-17", "user-18"])
    ...     for key, value in reader.scan(prefix="user-"):
    ...         ...
    ...     reader.refresh()

    mode: ``download`` (shards come whole into cache_dir), ``range`` (pages come as they are needed) or ``auto``, which decides by their
    size. A pin is one of ref (a manifest's URL), run_id, or offset (0: the newest in history, 1: the one before it).
    Shards are opened when they are first needed, unless open_all is set.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: str = "auto",
        cache_dir: Optional[str] = None,
        cache_bytes: Optional[int] = None,
        page_cache_bytes: Optional[int] = None,
        auto_shard_bytes: Optional[int] = None,
        auto_total_bytes: Optional[int] = None,
        parallel: Optional[int] = None,
        max_fallback_attempts: int = 3,
        open_all: bool = False,
        ref: Optional[str] = None,
        run_id: Optional[str] = None,
        offset: Optional[int] = None,
        store: StoreOptions = StoreOptions(),
    ) -> None:
        if mode not in ("auto", "download", "range"):
            raise ConfigError("mode is auto, download or range")
        options = {
            **store.to_dict(),
            "mode": mode,
            "cache_dir": None if cache_dir is None else str(cache_dir),
            "cache_bytes": cache_bytes,
            "page_cache_bytes": page_cache_bytes,
            "auto_shard_bytes": auto_shard_bytes,
            "auto_total_bytes": auto_total_bytes,
            "parallel": parallel,
            "fallback_attempts": max_fallback_attempts,
            "no_fallback": max_fallback_attempts == 0,
            "open_all": open_all,
            "ref": ref,
            "run_id": run_id,
            "by_offset": offset is not None,
            "offset": offset,
        }
        super().__init__(url, options)

    def multi_get(self, keys: Sequence[Key], context: Optional[Mapping[str, Any]] = None) -> Dict[Key, Optional[bytes]]:
        """{key: value or None} in the order given, all from one snapshot."""
        return dict(zip(keys, self.get_list(keys, context)))

    def get_list(self, keys: Any, context: Optional[Mapping[str, Any]] = None) -> List[Optional[bytes]]:
        """The values of many keys, None where there is none; keys may be an array of int64."""
        return self._get_list(_key_column(keys), context)

    def scan(
        self,
        *,
        prefix: Optional[Key] = None,
        start: Optional[Key] = None,
        end: Optional[Key] = None,
        after_start: bool = False,
        with_end: bool = False,
        reverse: bool = False,
        shard: Optional[int] = None,
    ) -> Iterator[Tuple[Key, bytes]]:
        """An iterator of (key, value) in order of the stored keys, over all shards or one.

        From start (left out with after_start) up to end (included with with_end). It stays on the snapshot on which it began,
        whatever refreshes come. One thread at a time uses it.
        """
        return self._open_scan(_sherd.Cursor, start, end, prefix, after_start, with_end, reverse, -1 if shard is None else shard)

    def use(self, *, ref: Optional[str] = None, run_id: Optional[str] = None, offset: Optional[int] = None) -> bool:
        """Switches to a pinned snapshot, or without arguments back to the current one; True if that is another than before."""
        return self._use(ref, run_id, offset is not None, offset or 0)

    def info(self) -> SnapshotInfo:
        """What is read now."""
        told = self._info()
        return SnapshotInfo(**{**told, "custom": json.loads(told["custom"] or "{}")})

    def shards(self) -> List[ShardInfo]:
        """All shards, empty ones too."""
        return [ShardInfo(**{**told, "min_key": _decoded(told["min_key"]), "max_key": _decoded(told["max_key"])}) for told in self._shards()]

    def health(self, staleness_seconds: Optional[float] = None) -> Health:
        """How the reader is; degraded also if the snapshot is older than staleness_seconds. Makes no request."""
        return Health(**self._health(staleness_seconds or 0.0))

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()
