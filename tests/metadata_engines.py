"""The engines at hand, made ready for tests/metadata_contract.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from anabranch.metadata.cache import CachedStore
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.sqlite_shared import SharedSqlite
from anabranch.metadata.store import MetadataStore
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.system import SystemClock, system_world
from anabranch.runtime.system_disk import SystemDatabase, SystemDisk, SystemLock
from anabranch.runtime.world import World


class MemoryEngine:
    loses_sessions = True
    survives_restart = False

    def __init__(self) -> None:
        self.tree = MemoryTree(SystemClock())

    async def open_session(self) -> MetadataStore:
        return self.tree.open_session()

    async def kill_and_restart(self) -> None:
        self.tree = MemoryTree(SystemClock())

    async def disconnect(self, store: MetadataStore) -> None:
        self.tree.disconnect(cast(TreeSession, store))

    async def expire(self, store: MetadataStore) -> None:
        self.tree.expire(cast(TreeSession, store))

    async def reconnect(self, store: MetadataStore) -> None:
        self.tree.reconnect(cast(TreeSession, store))

    async def shut_down(self) -> None:
        pass


class CachedMemoryEngine(MemoryEngine):
    """The cache must keep the contract of what it wraps."""

    def __init__(self) -> None:
        super().__init__()
        self._wrapped: dict[MetadataStore, MetadataStore] = {}

    async def open_session(self) -> MetadataStore:
        store = await super().open_session()
        cached = CachedStore(store)
        self._wrapped[cached] = store
        return cached

    async def disconnect(self, store: MetadataStore) -> None:
        await super().disconnect(self._wrapped[store])

    async def expire(self, store: MetadataStore) -> None:
        await super().expire(self._wrapped[store])

    async def reconnect(self, store: MetadataStore) -> None:
        await super().reconnect(self._wrapped[store])


class MortalDisk(SystemDisk):
    """A disk whose process can die: what it opened is let go of, as the kernel would."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.databases: list[SystemDatabase] = []
        self.locks: list[SystemLock] = []

    async def open_database(self, path: str) -> SystemDatabase:
        self.databases.append(await super().open_database(path))
        return self.databases[-1]

    async def open_shared_database(self, path: str) -> SystemDatabase:
        self.databases.append(await super().open_shared_database(path))
        return self.databases[-1]

    def lock(self, path: str) -> SystemLock:
        self.locks.append(super().lock(path))
        return self.locks[-1]

    async def die(self) -> None:
        databases, self.databases = self.databases, []
        for database in databases:
            await database.close()
        for lock in self.locks:
            lock.release()
        self.locks.clear()


class SqliteEngine:
    loses_sessions = False
    survives_restart = True

    def __init__(self, directory: Path) -> None:
        self.disk = MortalDisk(directory)
        real = system_world(directory)
        self.world = World(real.clock, real.random, self.disk, real.network)
        self._tree: SqliteTree | None = None

    async def open_session(self) -> MetadataStore:
        if self._tree is None:
            self._tree = await SqliteTree.open("meta/store.db", self.world)
        return self._tree.open_session()

    async def kill_and_restart(self) -> None:
        self._tree = None
        await self.disk.die()

    async def disconnect(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def expire(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def reconnect(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def shut_down(self) -> None:
        await asyncio.sleep(0)
        await self.kill_and_restart()


class SharedSqliteEngine:
    """Every session is what a process of its own would be: its own disk, database and locks."""

    loses_sessions = False
    survives_restart = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ends: list[tuple[SharedSqlite, MortalDisk]] = []

    async def open_session(self) -> MetadataStore:
        real = system_world(self._directory)
        disk = MortalDisk(self._directory)
        world = World(real.clock, real.random, disk, real.network)
        end = await SharedSqlite.open("meta/store.db", world)
        self.ends.append((end, disk))
        return end.session

    async def kill(self, store: MetadataStore) -> None:
        """The process of one session dies; the others go on."""
        for end, disk in [pair for pair in self.ends if pair[0].session is store]:
            end._follower.cancel()
            await disk.die()
            self.ends.remove((end, disk))

    async def kill_and_restart(self) -> None:
        for end, _ in list(self.ends):
            await self.kill(end.session)

    async def disconnect(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def expire(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def reconnect(self, store: MetadataStore) -> None:
        raise NotImplementedError

    async def shut_down(self) -> None:
        await asyncio.sleep(0)
        await self.kill_and_restart()
