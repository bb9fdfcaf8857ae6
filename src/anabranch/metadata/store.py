"""The metadata store: small records that decide, and what every engine promises about them.

A record is a path, a value and a `Stat`. Rules every engine keeps (tests/metadata_contract.py is
these sentences as tests):

- **Paths** are `/a/b`, every element URL-encoded by the caller (records.py). The root holds no
  value. Parents appear on demand and may vanish when empty: never rely on `exists(parent)`, on a
  parent's value you did not write, nor on creating a record where others already lie below.
- **expected** of a put: None writes in any case, NEW (-1) only where no record is, a version only
  over that version. Every mismatch is `BadVersion`. A delete takes None or a version; an absent
  record is `NotFound`, one with children `NotEmpty`.
- **Versions** are opaque: compare them for equality only. One path never sees a version again,
  not even after it was deleted and made anew.
- **Ephemeral** records end with the session that created them, and have no children. An update
  changes neither that nor the owner, whoever makes it: what a record is, its creation decides.
- **Sequential** puts append `-` and 20 digits that grow for a given path; gaps are normal.
- **Times** are the engine's wall clock, which may jump.
- **Reads** see every write this session saw finished; a write is visible to nobody before it is
  durable. A call that ended in `Unavailable`, or was cancelled, may yet take effect.
- **Notifications** arrive in order per path, own writes included, and after the change they tell
  of can be read. They may be merged (re-read, never count) but never lost: where one could be,
  a `Resync` comes instead, and whoever gets it re-reads everything below its prefix.
- **Sessions**: after `SessionLost` every ephemeral of this session is or will be gone, and calls
  raise the error of that name until `SessionReestablished`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from anabranch.errors import InvalidInput

NEW: Final = -1
ROOT: Final = "/"
# What fits a ZooKeeper frame of 1,048,575 bytes beside the path, so that data can change engines.
MAX_VALUE_BYTES: Final = 1_000_000
MAX_PATH_LENGTH: Final = 4_096
_FORBIDDEN_ELEMENTS = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class Stat:
    path: str
    version: int
    created_ms: int
    modified_ms: int
    ephemeral: bool
    created_by_self: bool  # an ephemeral of this very session; False for all that persists
    first_version: bool  # never modified since it was created


@dataclass(frozen=True, slots=True)
class Created:
    path: str


@dataclass(frozen=True, slots=True)
class Modified:
    path: str


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class ChildrenChanged:
    """A name joined or left the direct children of `path`."""

    path: str


@dataclass(frozen=True, slots=True)
class Resync:
    """Anything at or below `path` may have changed: drop what you know and read again."""

    path: str


Notification: TypeAlias = Created | Modified | Deleted | ChildrenChanged | Resync
# May be a coroutine function; the next notification waits until it has returned.
Listener: TypeAlias = Callable[[Notification], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """Out of reach, the session may still live: ephemerals stay, watches are silent."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The same session goes on. Every watch gets a Resync besides."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Stop acting on what you held. (The error of this name, errors.SessionLost, is for calls.)"""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionReestablished:
    """A new session that owns nothing yet. Every watch gets a Resync besides."""


SessionEvent: TypeAlias = ConnectionLost | Reconnected | SessionLost | SessionReestablished
# Called at once, on the loop, and not awaited: who holds a lock must stop before anything else.
SessionListener: TypeAlias = Callable[[SessionEvent], None]


class Watch(Protocol):
    def close(self) -> None:
        """Deregister: no call of the listener begins after this. Idempotent."""
        ...


class MetadataStore(Protocol):
    """One session with a metadata engine."""

    async def get(self, path: str) -> tuple[bytes, Stat] | None: ...

    async def put(
        self,
        path: str,
        value: bytes,
        expected: int | None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        """The Stat of what was written; its path is the full name of a sequential record."""
        ...

    async def delete(self, path: str, expected: int | None = None) -> None: ...

    async def delete_recursive(self, path: str) -> None:
        """The record and all below. Need not be atomic; nothing there is fine, so repeat it."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """Direct names, sorted; empty if the path is absent."""
        ...

    def scan(self, path: str) -> AsyncIterator[tuple[bytes, Stat]]:
        """Direct children that are records, with their values, sorted; not one snapshot."""
        ...

    async def sync(self, path: str) -> None:
        """After this, reads see every write that anybody had finished before it.

        Also those that this session began and whose callers were cancelled or gave up: from here
        on they have taken effect or never will.
        """
        ...

    def watch(self, prefix: str, listener: Listener, *, recursive: bool = True) -> Watch:
        """Hear of `prefix` and all below it; with `recursive=False` of that one path."""
        ...

    def on_session(self, listener: SessionListener) -> Watch: ...

    async def close(self) -> None:
        """End the session: its ephemerals go, its watches fall silent. Idempotent."""
        ...


def check_path(path: str) -> None:
    """InvalidInput unless `path` is the root or a well-formed record path."""
    if path == ROOT:
        return
    if not path.startswith("/") or len(path) > MAX_PATH_LENGTH:
        raise InvalidInput(
            f"path {path[:100]!r} must start with '/' and have at most {MAX_PATH_LENGTH} characters"
        )
    if not path.isascii() or not path.isprintable() or " " in path:
        raise InvalidInput(f"path {path!r} has characters that must be URL-encoded")
    if not _FORBIDDEN_ELEMENTS.isdisjoint(path[1:].split("/")):
        raise InvalidInput(f"path {path!r} has an empty, '.' or '..' element")


def check_record_path(path: str) -> None:
    """InvalidInput unless a record can be at `path`: the root is none."""
    check_path(path)
    if path == ROOT:
        raise InvalidInput("the root '/' holds no value and cannot be written or deleted")


def check_put(path: str, value: bytes, expected: int | None, *, sequential: bool) -> None:
    check_record_path(path)
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidInput(
            f"value of {path} has {len(value)} bytes; at most {MAX_VALUE_BYTES} are allowed"
        )
    if sequential and expected not in (None, NEW):
        raise InvalidInput(f"a sequential put to {path} is always new; expected={expected} is not")


def parent_of(path: str) -> str:
    """`/` for `/a`, `/a` for `/a/b`. The root has none."""
    assert path != ROOT
    return path[: path.rindex("/")] or ROOT


def ancestors_of(path: str) -> list[str]:
    """Nearest first, the root last; empty for the root."""
    above = []
    while path != ROOT:
        path = parent_of(path)
        above.append(path)
    return above


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def is_within(path: str, prefix: str) -> bool:
    """At or below: `/a/b` lies within `/a`, `/ab` does not."""
    return prefix == ROOT or path == prefix or path.startswith(prefix + "/")
