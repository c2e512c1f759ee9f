"""What a build is told: where to, how rows are routed and stored. Plain data, picklable."""
from __future__ import annotations

import math
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional, Union

from .errors import ConfigError
from .router import Router, Token, UNBOUNDED

KEY_ENCODINGS = ("u64be", "u32be", "utf8", "raw")
PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)


@dataclass(frozen=True)
class StoreOptions:
    """How an object store is reached. Everything that is None comes from the environment and the AWS files.

    ``file://`` needs none of them. style: ``auto``, ``path`` or ``virtual``.
    """

    endpoint: Optional[str] = None
    region: Optional[str] = None
    access_key: Optional[str] = None
    secret_key: Optional[str] = field(default=None, repr=False)
    session_token: Optional[str] = field(default=None, repr=False)
    profile: Optional[str] = None
    ca_file: Optional[str] = None
    style: str = "auto"
    anonymous: bool = False
    insecure_tls: bool = False
    attempts_max: Optional[int] = None
    connect_timeout_ms: Optional[int] = None
    stall_timeout_ms: Optional[int] = None

    def __post_init__(self) -> None:
        if self.style not in ("auto", "path", "virtual"):
            raise ConfigError("style is auto, path or virtual")

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class WriteConfig:
    """One build. Exactly one way of routing:

    - ``num_dbs``: by hash, into so many shards; or ``max_keys_per_shard``: by hash, into as many as that needs on average;
    - ``cel_expr`` with ``cel_columns`` ({name: type}): by the expression. Its result is the shard's number (``num_dbs`` may be left
      out: the numbers 0 to the highest must then all occur); or, with ``routing_values``, one of them; or, with
      ``infer_routing_values``, anything, and the routing values are what occurs, sorted.

    memory_bytes bounds what one builder holds in memory; what is more goes to a temporary file in temp_dir. reuse: shards that are
    the same, byte by byte, as in the snapshot before are not written again.
    """

    url: str
    num_dbs: Optional[int] = None
    max_keys_per_shard: Optional[int] = None
    cel_expr: Optional[str] = None
    cel_columns: Optional[Mapping[str, str]] = None
    routing_values: Optional[List[Token]] = None
    infer_routing_values: bool = False
    key_encoding: str = "u64be"
    page_size: Union[int, str] = 4096
    memory_bytes: int = 256 << 20
    temp_dir: Optional[str] = None
    run_id: Optional[str] = None
    key_col: str = "_key"
    custom: Mapping[str, Any] = field(default_factory=dict)
    reuse: bool = True
    max_retries: int = 3
    store: StoreOptions = field(default_factory=StoreOptions)

    def __post_init__(self) -> None:
        if self.key_encoding not in KEY_ENCODINGS:
            raise ConfigError(f"key_encoding is one of {', '.join(KEY_ENCODINGS)}")
        if self.page_size != "auto" and self.page_size not in PAGE_SIZES:
            raise ConfigError('page_size is "auto" or a power of two from 4096 to 65536')
        if "vector" in self.custom or "sqlite_sidecar" in self.custom:
            raise ConfigError("the custom fields vector and sqlite_sidecar are reserved")
        self._check_hash() if self.cel_expr is None else self._check_cel()

    def _check_hash(self) -> None:
        if self.cel_columns or self.routing_values is not None or self.infer_routing_values:
            raise ConfigError("cel_columns, routing_values and infer_routing_values belong to a cel_expr")
        if (self.num_dbs is None) == (self.max_keys_per_shard is None):
            raise ConfigError("either num_dbs or max_keys_per_shard is needed")
        if (self.num_dbs or self.max_keys_per_shard or 0) < 1:
            raise ConfigError("num_dbs and max_keys_per_shard are at least 1")

    def _check_cel(self) -> None:
        if self.max_keys_per_shard is not None:
            raise ConfigError("max_keys_per_shard is for routing by hash")
        if self.infer_routing_values and (self.routing_values is not None or self.num_dbs is not None):
            raise ConfigError("infer_routing_values finds routing_values and num_dbs by itself")
        self.scout()  # raises if the expression is faulty

    @property
    def is_direct(self) -> bool:
        """The CEL expression gives the number of the shard itself."""
        return self.cel_expr is not None and self.routing_values is None and not self.infer_routing_values

    def with_run_id(self) -> "WriteConfig":
        return self if self.run_id else replace(self, run_id=uuid.uuid4().hex)

    def router(self, num_dbs: Optional[int] = None, routing_values: Optional[List[Token]] = None) -> Router:
        """The router of the snapshot, once the numbers that a build may have to find out are known."""
        values = self.routing_values if routing_values is None else routing_values
        return Router(self.num_dbs or num_dbs, cel_expr=self.cel_expr, cel_columns=self.cel_columns, routing_values=values)

    def hash_router(self, count: int) -> Router:
        """The router of a hash build over so many rows."""
        per_shard = self.max_keys_per_shard
        return self.router(None if per_shard is None else max(1, math.ceil(count / per_shard)))

    def scout(self) -> Router:
        """A router for looking at rows before it is known how many shards there are."""
        if self.cel_expr is None:
            return self.router(1)
        return self.router(None if self.routing_values is not None else UNBOUNDED)

    def found_shards(self, ids: Any) -> int:
        """The number of shards of a direct build whose rows have these shard numbers."""
        numbers = sorted({int(i) for i in ids})
        if numbers != list(range(len(numbers))):
            raise ConfigError(f"shard numbers are not consecutive from 0: {numbers[:20]}; give num_dbs if that is meant")
        return max(1, len(numbers))
