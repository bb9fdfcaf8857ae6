"""The local ledger engine, made ready for tests/ledger_contract.py and for tests of faults.

Journal files here are tiny, so that they are switched and used again all the time.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from anabranch.runtime.system import system_world
from anabranch.runtime.world import World
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore

TINY = EngineConfig(
    journal_file_bytes=64 * 1024,
    journal_files=3,
    group_bytes=16 * 1024,
    cache_bytes=8 * 1024,
    reserve_bytes=0,
    open_files=3,
    indexes=2,
    retry_seconds=0.001,
)


async def abandon(store: FileLedgerStore) -> None:
    """As kill -9 would: nothing is finished, nothing is synced, only the lock is let go."""
    for task in store._tasks:
        task.cancel()
    await asyncio.gather(*store._tasks, return_exceptions=True)
    store._journal.stop("killed")
    store._lock.release()
    await store._handles.close()
    await store._journal_files.close()


class FileEngine:
    survives_restart = True

    def __init__(self, directory: Path, config: EngineConfig = TINY) -> None:
        self.directory = directory
        self.config = config
        self.world: World | None = None
        self.store: FileLedgerStore | None = None

    async def start(self) -> FileLedgerStore:
        if self.store is None:
            self.world = system_world(self.directory)
            self.store = await FileLedgerStore.start(self.world, self.config)
        return self.store

    async def kill_and_restart(self) -> FileLedgerStore:
        if self.store is not None:
            await abandon(self.store)
            self.store = None
        return await self.start()

    async def stop_and_restart(self) -> FileLedgerStore:
        await self.shut_down()
        return await self.start()

    async def shut_down(self) -> None:
        if self.store is not None:
            await self.store.close()
            self.store = None
