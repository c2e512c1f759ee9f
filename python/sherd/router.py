"""Which shard a row goes to and a key is found in: by hash or by a CEL expression, for whole columns at once."""
from __future__ import annotations

from array import array
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _sherd
from .errors import ConfigError, RoutingError, UnknownTokenError

Key = Union[int, str, bytes]
Token = Union[int, str]
Context = Mapping[str, Any]

#: Shards that a direct expression may name while their number is not known yet.
UNBOUNDED = 1 << 20


def _int64_bytes(values: Any) -> Optional[bytes]:
    """The bytes of an array of 64-bit integers (numpy, pandas, array.array, memoryview), or None if it is not one."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, (list, tuple, str, bytes, bytearray)):
        return None
    try:
        view = memoryview(values)
    except (TypeError, ValueError):
        return None
    if view.format in ("q", "l") and view.itemsize == 8 and view.ndim == 1:
        return view.tobytes()
    return None


def _key_column(keys: Any) -> Any:
    """Keys as the extension wants them: bytes of int64, or a sequence of Python objects."""
    if isinstance(keys, (str, bytes, bytearray)):
        raise ConfigError("keys are a sequence of keys; one key goes to get_shard()")
    numbers = _int64_bytes(keys)
    if numbers is not None:
        return numbers
    if hasattr(keys, "tolist"):
        return keys.tolist()
    return keys if isinstance(keys, (list, tuple)) else list(keys)


def _count(column: Any) -> int:
    return len(column) // 8 if isinstance(column, bytes) else len(column)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bytes, bytearray, int, float)) or not hasattr(value, "__len__")


def _context_column(value: Any) -> Any:
    """One value for all rows becomes a tuple of one; anything else is a list of values."""
    if _is_scalar(value):
        return (value,)
    return value.tolist() if hasattr(value, "tolist") else list(value)


class Router:
    """Routes keys to shards. Immutable, thread-safe and picklable.

    >>> Router.hash(8).get_shard("user-123")
    1
    >>> Router.cel("region", {"region": "string"}, routing_values=["eu", "us"]).get_shard("k", {"region": "us"})
    1

    The answers are those of the C library, the command line and every reader of a published snapshot.
    """

    def __init__(
        self,
        num_dbs: Optional[int] = None,
        *,
        cel_expr: Optional[str] = None,
        cel_columns: Optional[Mapping[str, str]] = None,
        routing_values: Optional[Iterable[Token]] = None,
    ) -> None:
        self.cel_expr = cel_expr
        self.cel_columns: Dict[str, str] = dict(cel_columns or {})
        self.routing_values: Optional[List[Token]] = None if routing_values is None else list(routing_values)
        self._check_tokens()
        if num_dbs is None:
            if self.routing_values is None:
                raise ConfigError("num_dbs is needed: the number of shards")
            num_dbs = max(1, len(self.routing_values))
        if not 1 <= num_dbs <= UNBOUNDED:
            raise ConfigError(f"num_dbs is a number from 1 to {UNBOUNDED}")
        self.num_dbs = num_dbs
        if cel_expr is None:
            if self.cel_columns or self.routing_values is not None:
                raise ConfigError("cel_columns and routing_values belong to a cel_expr")
            self._c = _sherd.Router(num_dbs)
        else:
            self._c = _sherd.Router(num_dbs, cel_expr, list(self.cel_columns), list(self.cel_columns.values()), self.routing_values)

    @classmethod
    def hash(cls, num_dbs: int) -> "Router":
        """By XXH3-64 of the key, modulo the number of shards."""
        return cls(num_dbs)

    @classmethod
    def cel(
        cls,
        expr: str,
        columns: Mapping[str, str],
        num_dbs: Optional[int] = None,
        routing_values: Optional[Iterable[Token]] = None,
    ) -> "Router":
        """By a CEL expression over columns, given as {name: type} with the types int, uint, double, bool, string and bytes.

        Direct: the result is the shard's number. With routing_values: the shard is the place of the result among them.
        If the only column is called ``key``, the key itself is its value and no context is needed.
        """
        return cls(num_dbs, cel_expr=expr, cel_columns=columns, routing_values=routing_values)

    def _check_tokens(self) -> None:
        values = self.routing_values or []
        if any(isinstance(v, bool) or not isinstance(v, (int, str)) for v in values) or len({type(v) for v in values}) > 1:
            raise ConfigError("routing_values are all int or all str")

    @property
    def strategy(self) -> str:
        """``hash`` or ``cel``."""
        return "hash" if self.cel_expr is None else "cel"

    @property
    def needs_context(self) -> bool:
        """Lookups and rows must bring columns besides the key."""
        return self._c.needs_context()

    def _columns(self, context: Optional[Context]) -> Optional[List[Any]]:
        if not self.needs_context:
            return None
        missing = [name for name in self.cel_columns if context is None or name not in context]
        if missing:
            raise RoutingError(f"the routing expression needs context: {', '.join(missing)}")
        assert context is not None
        return [_context_column(context[name]) for name in self.cel_columns]

    def _route(self, column: Any, context: Optional[Context]) -> "array[int]":
        shards = array("i")
        shards.frombytes(self._c.route(column, self._columns(context), _count(column)))
        return shards

    def route(self, keys: Any, context: Optional[Context] = None, *, allow_missing: bool = False) -> "array[int]":
        """Shards of many keys, as an ``array('i')`` (numpy.asarray takes it without copying).

        keys: a sequence of int, str or bytes, or an array of int64, which is the fast way. context: {column: values}, one
        value per key, or a single value for all. Unknown tokens raise UnknownTokenError, or are -1 with allow_missing.
        """
        shards = self._route(_key_column(keys), context)
        if not allow_missing and len(shards) and min(shards) < 0:
            raise UnknownTokenError(f"row {shards.index(-1)}: the routing expression names no shard")
        return shards

    def get_shard(self, key: Key, context: Optional[Context] = None) -> int:
        """The shard of one key."""
        return self.route([key], context)[0]

    def route_with_context(self, context: Context) -> Union[int, "array[int]"]:
        """The shard that columns alone decide; columns of many values give an array of shards."""
        if not self.needs_context:
            raise RoutingError("this router goes by the key: use get_shard() or route()")
        lengths = {len(context[name]) for name in self.cel_columns if name in context and not _is_scalar(context[name])}
        if len(lengths) > 1:
            raise RoutingError("routing columns differ in length")
        shards = self.route([None] * lengths.pop() if lengths else [None], context)
        return shards if any(not _is_scalar(context[name]) for name in self.cel_columns) else shards[0]

    def group_keys(self, keys: Sequence[Key], context: Optional[Context] = None) -> Dict[int, List[Key]]:
        """{shard: its keys, in the order given}. UnknownTokenError if one has no shard."""
        return self._grouped(keys, self.route(keys, context))[0]

    def group_keys_allow_missing(self, keys: Sequence[Key], context: Optional[Context] = None) -> Tuple[Dict[int, List[Key]], List[Key]]:
        """The same, and the keys that have no shard."""
        return self._grouped(keys, self.route(keys, context, allow_missing=True))

    @staticmethod
    def _grouped(keys: Sequence[Key], shards: "array[int]") -> Tuple[Dict[int, List[Key]], List[Key]]:
        groups: Dict[int, List[Key]] = {}
        missing: List[Key] = []
        for key, shard in zip(keys, shards):
            (missing if shard < 0 else groups.setdefault(shard, [])).append(key)
        return groups, missing

    def tokens(self, keys: Any, context: Optional[Context] = None) -> List[Token]:
        """What the CEL expression itself gives for each row, before it is looked up among the routing values."""
        if self.cel_expr is None:
            raise RoutingError("a hash router has no tokens")
        column = _key_column(keys)
        return self._c.tokens(column, self._columns(context), _count(column))

    def __reduce__(self):
        return (_unpickled, (self.num_dbs, self.cel_expr, self.cel_columns, self.routing_values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Router) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.num_dbs, self.cel_expr))

    def __repr__(self) -> str:
        if self.cel_expr is None:
            return f"Router.hash({self.num_dbs})"
        return f"Router.cel({self.cel_expr!r}, {self.cel_columns!r}, num_dbs={self.num_dbs}, routing_values={self.routing_values!r})"


def _unpickled(num_dbs: int, expr: Optional[str], columns: Dict[str, str], values: Optional[List[Token]]) -> Router:
    return Router(num_dbs, cel_expr=expr, cel_columns=columns, routing_values=values)
