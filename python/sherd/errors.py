"""Exceptions of this package. All of them are SherdError."""
from __future__ import annotations

from typing import Optional


class SherdError(Exception):
    """Base of every exception that this package raises.

    ``code`` is the name of the error in Sherd's own table (``ERR_OBJECT_DENIED``, ``ENOENT``), or None.
    ``retryable`` says whether the same call may succeed later without anything being changed.
    """

    code: Optional[str] = None
    retryable: bool = False

    def __reduce__(self):
        # Exceptions travel from workers to the driver; what was set on them after their creation has to come along.
        return (_rebuilt, (type(self), self.args, self.__dict__))


class ConfigError(SherdError, ValueError):
    """A setting, a routing expression or the order of calls is wrong."""


class InvalidKeyError(SherdError, ValueError):
    """A key is of the wrong type or out of range for the snapshot's encoding or routing."""


class RoutingError(SherdError, ValueError):
    """A row or lookup cannot be routed: a column is missing or of the wrong type, or the expression failed."""


class UnknownTokenError(RoutingError):
    """The routing expression gave something that is no shard: not among the routing values, or no number of a shard."""


class ReaderClosedError(SherdError):
    """The reader was closed."""


class StoreError(SherdError, OSError):
    """The object store, or a local disk, failed or refused a request."""


class NotFoundError(StoreError):
    """There is no such object or bucket."""


class AccessDeniedError(StoreError):
    """Credentials are missing, wrong or not sufficient."""


class SnapshotError(SherdError):
    """A snapshot cannot be read or published."""


class NoSnapshotError(SnapshotError):
    """Nothing is published here, or not what was asked for."""


class ManifestError(SnapshotError):
    """A manifest, a pointer or a run record is malformed."""


class DamagedError(SnapshotError):
    """A shard file or its sidecar is missing or damaged."""


class PublishError(SnapshotError):
    """A snapshot was not published; readers stay with the old one."""


class PublishManifestError(PublishError):
    """The manifest could not be written: nothing is published."""


class PublishCurrentError(PublishError):
    """The manifest is written, but ``_CURRENT`` could not be: readers stay with the old snapshot."""


class PublishRaceError(PublishError):
    """Somebody else has published meanwhile; theirs counts."""


class PublishUncertainError(PublishError):
    """The store stopped answering while ``_CURRENT`` was written: readers see the old snapshot or the new one."""


class CoverageError(PublishError):
    """The shards that were built are not those of the snapshot."""


_BY_CODE = {
    "ERR_OBJECT_URL": ConfigError,
    "ERR_OBJECT_KEY": ConfigError,
    "ERR_OBJECT_NOT_FOUND": NotFoundError,
    "ERR_OBJECT_NO_BUCKET": NotFoundError,
    "ERR_OBJECT_DENIED": AccessDeniedError,
    "ERR_OBJECT_CREDENTIALS": AccessDeniedError,
    "ERR_OBJECT_SIGNATURE": AccessDeniedError,
    "ERR_SNAPSHOT_MANIFEST": PublishManifestError,
    "ERR_SNAPSHOT_CURRENT": PublishCurrentError,
    "ERR_SNAPSHOT_RACE": PublishRaceError,
    "ERR_SNAPSHOT_UNCERTAIN": PublishUncertainError,
    "ERR_SNAPSHOT_COVERAGE": CoverageError,
    "ERR_SNAPSHOT_LEASE": PublishError,
    "ERR_SNAPSHOT_OPTIONS": ConfigError,
    "ERR_SNAPSHOT_ASSIGN": RoutingError,
    "ERR_SNAPSHOT_NO_CURRENT": NoSnapshotError,
    "ERR_SNAPSHOT_NO_REF": NoSnapshotError,
    "ERR_SNAPSHOT_NO_VALID": NoSnapshotError,
    "ERR_SNAPSHOT_BAD_CURRENT": ManifestError,
    "ERR_SNAPSHOT_BAD_MANIFEST": ManifestError,
    "ERR_SNAPSHOT_BAD_RUN": ManifestError,
    "ERR_SNAPSHOT_DAMAGED": DamagedError,
    "ERR_SNAPSHOT_SHARD": DamagedError,
    "ERR_SNAPSHOT_KEY": InvalidKeyError,
    "ERR_SNAPSHOT_ROUTE": RoutingError,
}
_BY_GROUP = (
    ("ERR_OBJECT_", StoreError),
    ("ERR_SHARD_", DamagedError),
    ("ERR_SIDECAR_", DamagedError),
    ("ERR_SNAPSHOT_", SnapshotError),
    ("ERR_", SherdError),
)
_RETRYABLE = {
    "ERR_OBJECT_TIMEOUT",
    "ERR_OBJECT_CONNECTION",
    "ERR_OBJECT_BUSY",
    "ERR_OBJECT_REPLY",
    "ERR_OBJECT_CHANGED",
    "ERR_SNAPSHOT_MANIFEST",
    "ERR_SNAPSHOT_CURRENT",
}


def _class_of(code: str) -> type:
    if code in _BY_CODE:
        return _BY_CODE[code]
    for prefix, kind in _BY_GROUP:
        if code.startswith(prefix):
            return kind
    return StoreError  # an errno of a local file


def _from_code(code: str, number: int, text: str) -> SherdError:
    """Makes the exception of one of Sherd's error codes; the extension calls this."""
    error = _class_of(code)(text)
    error.code = code
    error.retryable = code in _RETRYABLE
    if isinstance(error, OSError) and number > -5000:
        error.errno = -number
    return error


def _rebuilt(kind: type, args: tuple, state: dict) -> SherdError:
    error = kind(*args)
    error.__dict__.update(state)
    return error
