"""Building and publishing: shards are made by ShardBuilder, anywhere; a Publication makes them visible, once, from one place.

    with Publication(config) as publication:
        shards = [build(publication.job, db_id) for db_id in ...]      # in threads, processes, workers of an engine
        result = publication.publish(router, shards)
"""
from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _sherd
from .config import StoreOptions, WriteConfig
from .errors import SherdError
from .router import Key, Router, _key_column

Value = Union[bytes, str]

#: Rows that add() collects before they go to the C builder.
_BATCH = 4096


@dataclass(frozen=True)
class BuildJob:
    """What a worker has to know to build shards of one run. Picklable; Publication.job gives it."""

    url: str
    run_id: str
    key_encoding: str
    page_size: Union[int, str]
    memory_bytes: int
    temp_dir: Optional[str]
    max_retries: int
    store: StoreOptions
    known: Mapping[bytes, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Shard:
    """One attempt at one shard, as the driver needs it to publish. Picklable."""

    db_id: int
    attempt: int
    db_url: str
    row_count: int
    db_bytes: int
    min_key: Optional[str]
    max_key: Optional[str]
    sha256: bytes
    reused: bool = False
    duration_ms: int = 0
    stage_id: Optional[int] = None
    task_attempt_id: Optional[int] = None

    def _to_c(self) -> Dict[str, Any]:
        info = {"attempt": self.attempt, "duration_ms": self.duration_ms, "stage_id": self.stage_id, "task_attempt_id": self.task_attempt_id}
        return {**asdict(self), "writer_info": json.dumps(info, sort_keys=True)}


@dataclass(frozen=True)
class BuildResult:
    """A snapshot that was published. guard: ``store`` if the store itself excluded races, else ``reread``."""

    run_id: str
    manifest_ref: str
    run_record_ref: Optional[str]
    num_dbs: int
    row_count: int
    shards: List[Shard]
    attempts: int
    reused: int
    guard: str
    duration_ms: int


class Buckets:
    """Rows of many shards in one bounded memory: ``add`` them with the bucket of each, ``finish``, then ``build`` each bucket.

    One thread adds. Afterwards any number of threads build different buckets at once.
    """

    def __init__(self, job: BuildJob, threads: int = 1) -> None:
        self.job = job
        self._c = _sherd.Builder(job.key_encoding, job.temp_dir, job.memory_bytes, threads)

    def add(self, keys: Any, values: Sequence[Value], buckets: Any = None) -> None:
        """Adds rows; of equal keys in one bucket the one added last stays. buckets: an ``array('i')``, as Router.route gives."""
        self._c.add(_key_column(keys), values, None if buckets is None else buckets.tobytes())

    def finish(self) -> int:
        """No more rows come. The highest bucket in use, plus one."""
        return self._c.finish()

    def rows(self, bucket: int) -> int:
        """Rows that were added to a bucket, after finish()."""
        return self._c.rows(bucket)

    def cancel(self) -> None:
        """Builds that are under way end soon, with an error."""
        self._c.cancel()

    def build(self, bucket: int, db_id: int, attempt: Optional[int] = None, **info: Any) -> Optional[Shard]:
        """Writes the shard and its sidecar to the store; None if the bucket has no rows.

        attempt None: the first number that is free. What a store's passing weakness has spoiled is tried again under the next one.
        """
        started = time.monotonic()
        for retry in range(self.job.max_retries + 1):
            try:
                told = self._build_once(bucket, db_id, -1 if attempt is None else attempt)
                break
            except SherdError as error:
                if not error.retryable or retry == self.job.max_retries or attempt is not None:
                    raise
                time.sleep(min(2**retry, 30))
        if told is None:
            return None
        return Shard(**told, **info, duration_ms=int((time.monotonic() - started) * 1000))

    def _build_once(self, bucket: int, db_id: int, attempt: int) -> Optional[Dict[str, Any]]:
        job = self.job
        page_size = 0 if job.page_size == "auto" else int(job.page_size)
        told = self._c.build(bucket, db_id, job.url, job.store.to_dict(), job.run_id, attempt, page_size, dict(job.known))
        if told is not None and job.known.get(told["sha256"]) == told["db_url"]:
            number = re.search(r"/attempt=(\d+)$", told["db_url"])
            told.update(reused=True, attempt=int(number.group(1)) if number else 0)
        return told


class ShardBuilder:
    """Builds one shard from rows in any order, within a bound of memory.

    >>> builder = ShardBuilder(job, db_id=3)
    >>> builder.add("user-1", b"...")
    >>> shard = builder.finish()
    """

    def __init__(self, job: BuildJob, db_id: int) -> None:
        self.db_id = db_id
        self._buckets = Buckets(job)
        self._keys: List[Key] = []
        self._values: List[Value] = []

    def add(self, key: Key, value: Value) -> None:
        """Adds a row; of equal keys the one added last stays."""
        self._keys.append(key)
        self._values.append(value)
        if len(self._keys) >= _BATCH:
            self._flush()

    def add_many(self, keys: Any, values: Sequence[Value]) -> None:
        """Adds rows; keys may be an array of int64."""
        self._flush()
        self._buckets.add(keys, values)

    def _flush(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = [], []
        if keys:
            self._buckets.add(keys, values)

    def finish(self, attempt: Optional[int] = None, **info: Any) -> Optional[Shard]:
        """Writes shard and sidecar to the store; None if there were no rows. info: stage_id and task_attempt_id of an engine."""
        self._flush()
        self._buckets.finish()
        return self._buckets.build(0, self.db_id, attempt, **info)


class Publication:
    """One run: its record in the store, its job for workers, and in the end its manifest and ``_CURRENT``.

    While the block runs, the run record is renewed, so that no cleanup takes the shards. A block that is left by an exception, or
    without publish(), marks the run as failed; readers never see anything of it.
    """

    def __init__(self, config: WriteConfig, writer_type: str = "python") -> None:
        self.config = config = config.with_run_id()
        self._started = time.monotonic()
        self._c = _sherd.Publication(config.url, config.store.to_dict(), config.run_id or "", writer_type)
        self.run_record_ref = self._c.run_record_ref()
        self.job = BuildJob(
            url=config.url,
            run_id=config.run_id or "",
            key_encoding=config.key_encoding,
            page_size=config.page_size,
            memory_bytes=config.memory_bytes,
            temp_dir=config.temp_dir,
            max_retries=config.max_retries,
            store=config.store,
            known=self._c.known() if config.reuse else {},
        )

    def __enter__(self) -> "Publication":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None:
            self.fail("Abandoned", "the block ended without publish()")
        else:
            self.fail(type(error).__name__, str(error))

    def fail(self, error_type: str, message: str) -> None:
        """Ends the run record as failed; nothing happens if the run has ended already."""
        self._c.fail(error_type, message.replace("\0", " "))

    def _custom(self) -> List[Tuple[str, str]]:
        sidecar = {"codec": "zstd", "filename": "shard.sidecar", "format_version": 8, "page_size": self.config.page_size}
        fields = {**self.config.custom, "sqlite_sidecar": sidecar}
        return [(name, json.dumps(value, sort_keys=True)) for name, value in fields.items()]

    def publish(self, router: Router, shards: Iterable[Optional[Shard]]) -> BuildResult:
        """Chooses the winner of each shard, writes the manifest, swaps ``_CURRENT`` to it, deletes the losers, ends the run record.

        shards: all attempts that workers report, in any order, None for empty ones. PublishRaceError if somebody else has published
        since this publication began.
        """
        attempts = [shard for shard in shards if shard is not None]
        told = self._c.publish(
            router.num_dbs,
            self.config.key_encoding,
            self.config.key_col,
            router.cel_expr,
            list(router.cel_columns),
            list(router.cel_columns.values()),
            router.routing_values,
            self._custom(),
            [shard._to_c() for shard in attempts],
        )
        winners = sorted((shard for shard, wins in zip(attempts, told["wins"]) if wins), key=lambda shard: shard.db_id)
        return BuildResult(
            run_id=self.job.run_id,
            manifest_ref=told["manifest_ref"],
            run_record_ref=self.run_record_ref,
            num_dbs=router.num_dbs,
            row_count=sum(shard.row_count for shard in winners),
            shards=winners,
            attempts=len(attempts),
            reused=sum(shard.reused for shard in winners),
            guard=told["guard"],
            duration_ms=int((time.monotonic() - self._started) * 1000),
        )


def publish(config: WriteConfig, router: Router, shards: Iterable[Optional[Shard]], writer_type: str = "python") -> BuildResult:
    """Publishes shards that exist already, as a run of their own: Publication in one call."""
    with Publication(config, writer_type) as publication:
        return publication.publish(router, shards)
