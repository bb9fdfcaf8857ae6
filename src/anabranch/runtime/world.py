"""The world as the rest of Anabranch sees it: everything a simulation must replace.

Code above this folder asks a `World` for time, randomness, files and sockets, and asks nobody
else; tests/test_architecture.py holds it to that. Timers and tasks come from asyncio, whose event
loop belongs to the world too: under simulation it keeps virtual time, so `asyncio.sleep` and
`asyncio.timeout` need no wrapper here. `runtime/system.py` is the real world; the simulated one
lives in tests/simulation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

Buffer: TypeAlias = bytes | bytearray | memoryview
SqlValue: TypeAlias = int | str | bytes | float | None
T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, for records and people. It may jump, back as well."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start. Never goes back: for deadlines and cooldowns."""
        ...


class File(Protocol):
    """One open file. Offsets are explicit; calls may run at the same time unless they overlap.

    Errors arrive as OSError with the errno of the operating system.
    """

    async def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    async def write(self, offset: int, pieces: Sequence[Buffer], *, sync: bool = False) -> None:
        """Write all pieces one behind the other; with `sync` return once they are on disk.

        Either all is written or an error is raised; after an error any part may be there.
        The pieces must not change before this returns.
        """
        ...

    async def sync(self) -> None:
        """Return once everything written to this file before the call is on disk.

        After an error nothing may be assumed of any unsynced write, and asking again would lie.
        """
        ...

    async def truncate(self, size: int) -> None: ...

    async def size(self) -> int: ...

    async def close(self) -> None: ...


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class SqlConnection(Protocol):
    def execute(
        self, sql: str, parameters: Sequence[SqlValue] = ()
    ) -> list[tuple[SqlValue, ...]]: ...


class Database(Protocol):
    """A SQLite file. Committed means on disk (WAL, synchronous=FULL)."""

    async def transact(self, work: Callable[[SqlConnection], T]) -> T:
        """Run `work` in one write transaction, off the loop; commit if it returns, else roll back.

        Calls run one at a time, in the order they were made. Full: no room, and rolled back;
        Corrupt: damaged, or no database; Unavailable: failed, perhaps only after the commit.
        """
        ...

    async def close(self) -> None: ...


class Disk(Protocol):
    """A directory that belongs to one process. Paths are relative to it, with '/' between."""

    async def open(self, path: str, *, create: bool = False, own_thread: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError unless it exists or `create` is set.

        `own_thread` gives the file a thread of its own, so that its syncs wait for nothing else.
        """
        ...

    async def exists(self, path: str) -> bool: ...

    async def make_directory(self, path: str) -> None:
        """Create it and its parents, durably; it may be there already."""
        ...

    async def list_directory(self, path: str) -> list[str]:
        """The names in it, sorted; empty if there is no such directory."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` in one step. Durable after `sync_directory`."""
        ...

    async def remove(self, path: str) -> None:
        """FileNotFoundError if it is not there. Durable after `sync_directory`."""
        ...

    async def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory durable."""
        ...

    async def free_bytes(self) -> int: ...

    def lock(self, path: str) -> DirectoryLock:
        """Hold `path` for this process until released or dead; Unavailable if another holds it."""
        ...

    async def open_database(self, path: str) -> Database: ...


@runtime_checkable
class SharingDisk(Protocol):
    """What a disk may offer besides: a database that several processes of one machine use."""

    async def open_shared_database(self, path: str) -> Database: ...


class Listener(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    async def close(self) -> None:
        """Accept no more; connections that exist go on."""
        ...


class Network(Protocol):
    """Connections as asyncio transports and protocols; BufferedProtocol works too."""

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> Listener:
        """Port 0 picks a free one; the listener says which."""
        ...

    async def connect(
        self, factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        """ConnectionError (or another OSError) if nobody answers."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    clock: Clock
    random: Random
    disk: Disk
    network: Network
