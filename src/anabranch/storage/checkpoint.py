"""Making journal files dispensable: ledger files synced, then the manifest, then they are free.

A checkpoint covers every generation below the one in use when it starts: their last group was
committed before the switch, so the table already knows all they say. The steps in their order:

1. write what the ledgers owe their files          a crash here loses nothing: the journal has it
2. sync the files that changed, and the directory  the same
3. save the manifest with the new `replay_from`    before: the old one and all its journal files
4. free the journal files below it                 after: files below `replay_from` are known free
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from anabranch.runtime.world import Disk
from anabranch.storage.disk_room import DiskRoom
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.journal_files import JournalFiles
from anabranch.storage.ledger_file import LedgerFiles
from anabranch.storage.ledger_table import LedgerState, LedgerTable
from anabranch.storage.manifest import LedgerRow, Manifest, save_manifest
from anabranch.storage.write_back import WriteBack

log = logging.getLogger(__name__)


class Checkpoint:
    def __init__(
        self,
        disk: Disk,
        config: EngineConfig,
        table: LedgerTable,
        handles: FileHandles,
        ledger_files: LedgerFiles,
        write_back: WriteBack,
        files: JournalFiles,
        room: DiskRoom,
        *,
        on_error: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._config = config
        self._table = table
        self._handles = handles
        self._ledger_files = ledger_files
        self._write_back = write_back
        self._files = files
        self._room = room
        self._on_error = on_error
        self._wanted = asyncio.Event()
        self._lock = asyncio.Lock()
        # The first error is the last word: after a failed sync the next one would succeed without
        # the pages that the kernel has dropped, and the manifest would vouch for them.
        self._failure: OSError | None = None
        self.count = 0

    def request(self) -> None:
        self._wanted.set()

    async def run_checkpoints(self) -> None:
        """One whenever it is asked for; never returns, the owner cancels it."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.take(self._files.generation)
            except OSError as error:
                self._on_error(f"a checkpoint failed: {error}")
                return

    async def take(self, replay_from: int) -> None:
        """Cover every journal generation below `replay_from`."""
        async with self._lock:
            if self._failure is not None:
                raise self._failure
            try:
                await self._take(replay_from)
            except OSError as error:
                self._failure = error
                raise

    async def _take(self, replay_from: int) -> None:
        for state in [state for state in self._table.ledgers.values() if state.is_dirty]:
            await self._sync_ledger(state)
        await self._disk.sync_directory(self._config.ledger_directory)
        manifest = manifest_of(self._table, replay_from)
        await self._room.insist(
            "the manifest",
            lambda: save_manifest(self._disk, self._config.manifest_path, manifest),
        )
        self._files.release_below(replay_from)
        async with self._write_back.lock:
            await self._ledger_files.save_indexes()
        self.count += 1
        log.debug("checkpoint replay_from=%d ledgers=%d", replay_from, len(manifest.ledgers))

    async def _sync_ledger(self, state: LedgerState) -> None:
        await self._write_back.write_all(state)
        entries, size = state.written_entries, state.written_bytes
        if state.is_deleted or size == state.synced_bytes:
            return
        async with self._handles.use(self._config.ledger_path(state.ledger)) as file:
            await file.sync()
        state.synced_entries, state.synced_bytes = entries, size


def manifest_of(table: LedgerTable, replay_from: int) -> Manifest:
    rows = tuple(
        LedgerRow(
            ledger=state.ledger,
            entries=state.synced_entries,
            file_bytes=state.synced_bytes,
            last_entry=None if state.end is None else state.end.last_entry,
            properties=state.properties,
        )
        for state in table.ledgers.values()
    )
    return Manifest(table.next_ledger, replay_from, rows)
