"""What the writers for data frames share: which columns make the key, the value and the routing context of a row."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ..build import BuildJob, Buckets, Shard
from ..config import WriteConfig
from ..errors import ConfigError, RoutingError
from ..router import Router, Token

ValueSpec = Union[str, Sequence[str], Callable[[Mapping[str, Any]], Union[bytes, str]]]

#: The column that the writers add.
SHARD = "_shard_id"


def _one_value(value: Any) -> Union[bytes, str]:
    return b"" if value is None else value if isinstance(value, (bytes, str)) else bytes(value)


def _plain(value: Any) -> Any:
    """numpy's numbers as Python's."""
    return value.item() if hasattr(value, "item") else str(value)


@dataclass(frozen=True)
class Columns:
    """How a row becomes key and value. value: the name of a column of bytes or text; or names of columns, which become one JSON object
    (keys sorted, compact, ASCII); or a function of the row as a mapping. Picklable if that function is."""

    key: str
    value: ValueSpec
    context: Sequence[str] = ()

    @classmethod
    def of(cls, config: WriteConfig, key: str, value: ValueSpec) -> "Columns":
        names = list(config.cel_columns or {}) if config.scout().needs_context else []
        return cls(key, value if callable(value) or isinstance(value, str) else tuple(value), tuple(names))

    def needed(self, all_names: Iterable[str]) -> List[str]:
        """The columns that have to travel; a function may look at any."""
        names = list(all_names)
        used = {self.key, *self.context}
        if callable(self.value):
            used.update(names)
        else:
            used.update([self.value] if isinstance(self.value, str) else self.value)
        missing = used.difference(names)
        if missing:
            raise ConfigError(f"no such column: {', '.join(sorted(missing))}")
        return [name for name in names if name in used]

    def encode(self, row: Mapping[str, Any]) -> Union[bytes, str]:
        if callable(self.value):
            return self.value(row)
        if isinstance(self.value, str):
            return _one_value(row[self.value])
        return json.dumps({name: row[name] for name in self.value}, sort_keys=True, separators=(",", ":"), default=_plain)

    # For pandas' data frames.

    def frame_context(self, frame: Any) -> Optional[Dict[str, Any]]:
        return {name: frame[name] for name in self.context} or None

    def frame_values(self, frame: Any) -> List[Union[bytes, str]]:
        if isinstance(self.value, str):
            return [_one_value(value) for value in frame[self.value].tolist()]
        names = list(frame.columns) if callable(self.value) else list(self.value)
        rows = zip(*(frame[name].tolist() for name in names))
        return [self.encode(dict(zip(names, row))) for row in rows]

    def frame_routed(self, frame: Any, router: Router) -> Any:
        """The frame with the shard of each row."""
        return frame.assign(**{SHARD: list(router.route(frame[self.key], self.frame_context(frame)))})

    def frame_tokens(self, frame: Any, router: Router) -> List[Token]:
        return sorted(set(router.tokens(frame[self.key], self.frame_context(frame))), key=repr)


def build_frame(frame: Any, columns: Columns, job: BuildJob, **info: Any) -> List[Shard]:
    """Builds the shards of a frame that holds all rows of each: one, or several where an engine has put them together."""
    shards: List[Optional[Shard]] = []
    for db_id, rows in frame.groupby(SHARD, sort=True):
        buckets = Buckets(job)
        buckets.add(rows[columns.key], columns.frame_values(rows))
        buckets.finish()
        shards.append(buckets.build(0, int(db_id), **info))
    return [shard for shard in shards if shard is not None]


def inferred_router(config: WriteConfig, tokens: Iterable[Token]) -> Router:
    distinct = set(tokens)
    if len({type(token) for token in distinct}) > 1:
        raise RoutingError("the routing expression gave both numbers and text; routing values are of one type")
    return config.router(routing_values=sorted(distinct))  # type: ignore[type-var]


def is_open_ended(config: WriteConfig) -> bool:
    """The number of shards shows only when all rows have been routed."""
    return config.is_direct and config.num_dbs is None
