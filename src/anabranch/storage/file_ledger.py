"""Ledgers on one machine's disk: the local engine, put together from its parts.

docs/decisions/0003-local-ledger-engine.md has the design. In short: `submit` packs records into
the next group of the journal; the journal commits it and calls `_confirm`; readers see the
entries, and the write-back brings them to the ledger's own file some time later.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from anabranch.errors import Busy, Full, Unavailable
from anabranch.runtime.build_mode import loaded_mode
from anabranch.runtime.world import DirectoryLock, Disk, World
from anabranch.storage.checkpoint import Checkpoint
from anabranch.storage.disk_room import NO_ROOM, DiskRoom
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.journal import CommitFuture, Group, Journal
from anabranch.storage.journal_files import JournalFiles
from anabranch.storage.ledger import Draft, Entry, LedgerEnd, Submission
from anabranch.storage.ledger_file import LedgerFiles
from anabranch.storage.ledger_table import Access, LedgerState, LedgerTable
from anabranch.storage.record_codec import CLOSE, CREATE, DELETE, HEADER_BYTES, Run, measure
from anabranch.storage.recovery import Recovered, recover_storage
from anabranch.storage.tail_cache import TailCache
from anabranch.storage.write_back import WriteBack

log = logging.getLogger(__name__)


class FileLedgerReader:
    def __init__(self, store: FileLedgerStore, state: LedgerState) -> None:
        self._store = store
        self._state = state

    @property
    def ledger(self) -> int:
        return self._state.ledger

    @property
    def last_confirmed(self) -> int:
        return self._state.last_confirmed

    async def read(self, first: int, *, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        return await self._store.files.read(self._state, first, max_entries, max_bytes)

    async def find_by_time(self, time_ms: int) -> int:
        return await self._store.files.find_by_time(self._state, time_ms)


class FileLedgerWriter(FileLedgerReader):
    def submit(self, drafts: Sequence[Draft]) -> Submission:
        state = self._state
        if state.access is not Access.OPEN:
            raise state.refusal()
        return self._store.submit(state, drafts)

    async def append(self, drafts: Sequence[Draft]) -> int:
        await self._store.wait_for_room(measure(drafts, self._store.largest_entry_bytes))
        submission = self.submit(drafts)
        await submission.durable
        return submission.first_entry

    async def close(self) -> LedgerEnd:
        if self._state.access not in (Access.OPEN, Access.CLOSED):
            raise self._state.refusal()
        return await self._store.end_ledger(self._state, Access.CLOSED)


class FileLedgerStore:
    """Use `start`; a store must be closed, or its process ended."""

    def __init__(
        self, world: World, config: EngineConfig, lock: DirectoryLock, recovered: Recovered
    ) -> None:
        self._config = config
        self._lock = lock
        self._disk: Disk = world.disk
        self._table: LedgerTable = recovered.table
        self._room = DiskRoom(
            world.disk,
            reserve_bytes=config.reserve_bytes,
            retry_seconds=config.retry_seconds,
            on_change=self._wake_waiting,
        )
        self._handles = FileHandles(world.disk, config.open_files)
        self._cache = TailCache(config.cache_bytes)
        self.files = LedgerFiles(config, self._handles)
        self._write_back = WriteBack(
            config,
            self._handles,
            self._cache,
            self._room,
            on_room=self._wake_waiting,
            on_error=self._fail,
        )
        self._journal_files = JournalFiles(
            world.disk,
            config,
            self._room,
            next_generation=recovered.next_generation,
            free=recovered.free,
            on_ready=self._wake_waiting,
            on_switch=self._request_checkpoint,
            on_error=self._fail,
        )
        self._journal = Journal(
            config,
            self._journal_files,
            generation=recovered.next_generation,
            on_commit=self._confirm,
            on_room=self._wake_waiting,
            on_error=self._fail,
        )
        self._checkpoint = Checkpoint(
            world.disk,
            config,
            self._table,
            self._handles,
            self.files,
            self._write_back,
            self._journal_files,
            self._room,
            on_error=self._fail,
        )
        self.largest_entry_bytes = config.largest_entry_bytes
        self._ending: dict[int, CommitFuture] = {}  # ledgers that are being closed
        self._waiting: asyncio.Future[None] | None = None
        self._is_closed = False
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, world: World, config: EngineConfig | None = None) -> FileLedgerStore:
        """Recover what is there; Corrupt if acknowledged entries are damaged.

        Unavailable if another process has the directory.
        """
        config = config or EngineConfig()
        await world.disk.make_directory(config.journal_directory)
        await world.disk.make_directory(config.ledger_directory)
        lock = world.disk.lock(config.lock_path)
        try:
            recovered = await recover_storage(world.disk, config)
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise Full(f"no room to recover {config.directory}: {error}") from error
            raise
        store = cls(world, config, lock, recovered)
        store._start()
        await store.wait_for_room()  # a disk too full for a journal file can still be read
        return store

    def _start(self) -> None:
        for work in (
            self._journal_files.run_preparing,
            self._journal.run_commits,
            self._write_back.run_writing,
            self._checkpoint.run_checkpoints,
        ):
            task = asyncio.create_task(work(), name=f"storage {work.__name__}")
            task.add_done_callback(self._note_end)
            self._tasks.append(task)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """A mistake of ours must not leave everybody waiting for a task that is gone."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task ended name=%s", task.get_name(), exc_info=error)
            self._fail(f"{task.get_name()} ended: {error!r}")

    async def create(self, properties: Mapping[str, str]) -> FileLedgerWriter:
        body = json.dumps(dict(properties)).encode()
        await self.wait_for_room(HEADER_BYTES + len(body))
        self._refuse_entries_if_unable()
        state = LedgerState(self._table.take_id(), dict(properties))

        def apply() -> None:
            self._table.ledgers[state.ledger] = state

        await self._journal.submit_operation(CREATE, state.ledger, 0, 0, body, apply)
        return FileLedgerWriter(self, state)

    async def open(self, ledger: int) -> FileLedgerReader:
        return FileLedgerReader(self, self._table.find(ledger))

    async def recover(self, ledger: int) -> LedgerEnd:
        return await self.end_ledger(self._table.find(ledger), Access.FENCED)

    async def delete(self, ledger: int) -> None:
        state = self._table.ledgers.get(ledger)
        if state is None:
            return
        if state.access is Access.OPEN:
            state.access = Access.FENCED

        def apply() -> None:
            self._forget(state)

        await self._wait_for_journal()
        await self._journal.submit_operation(DELETE, ledger, 0, 0, b"", apply)
        async with self._write_back.lock:
            for path in (self._config.ledger_path(ledger), self._config.index_path(ledger)):
                await self._handles.drop(path)
                with contextlib.suppress(FileNotFoundError):
                    await self._disk.remove(path)

    async def ledgers(self) -> AsyncIterator[int]:
        for ledger in sorted(self._table.ledgers):
            yield ledger

    async def properties(self, ledger: int) -> Mapping[str, str]:
        return dict(self._table.find(ledger).properties)

    async def wait_for_room(self, size: int = 1) -> None:
        """Until `size` bytes of records would not be refused because too much waits for the disk.

        Returns at once if it would be refused for another reason: that is for `submit` to say.
        """
        while self._room.reason is None and self._journal.refusal is None:
            if self._journal.has_room(size) and not self._write_back.is_full:
                return
            await self._next_change()

    def submit(self, state: LedgerState, drafts: Sequence[Draft]) -> Submission:
        """For the writers of this store."""
        if self._room.reason is not None or self._write_back.is_full:
            self._refuse_entries_if_unable()
        size = measure(drafts, self.largest_entry_bytes)
        first = state.next_entry
        group = self._journal.group_for(size)
        run = group.runs.get(state.ledger)
        if run is None:
            run = group.runs[state.ledger] = Run(state.ledger, first, group.generation)
        run.pack(drafts)
        state.next_entry = first + len(drafts)
        state.submitted_bytes += size
        return Submission(first, group.durable)

    async def end_ledger(self, state: LedgerState, access: Access) -> LedgerEnd:
        """Take no more entries, and close behind those that were submitted."""
        if state.access is Access.OPEN:
            state.access = access
        while state.end is None:
            if state.ledger not in self._ending:
                await self._wait_for_journal()
            await self._submit_close(state)
        return state.end

    def _submit_close(self, state: LedgerState) -> CommitFuture:
        closing = self._ending.get(state.ledger)
        if closing is not None:
            return closing
        end = state.submitted_end

        def apply() -> None:
            state.end = end
            self._ending.pop(state.ledger, None)
            self.files.note_closed(state)

        closing = self._ending[state.ledger] = self._journal.submit_operation(
            CLOSE, state.ledger, end.last_entry, end.length_bytes, b"", apply
        )
        return closing

    async def close(self) -> None:
        """Make everything durable, and write it down so that the next start replays nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._room.is_patient = False
        # First: the last manifest must know everything that the journal holds.
        self._journal.refuse("the store is being closed")
        try:
            if self._journal.failure is None:
                await self._journal.drain()
            if self._journal.failure is None and self._room.reason is None:
                await self._checkpoint.take(self._journal.generation + 1)
        except (OSError, Unavailable) as error:
            log.warning("closed without a checkpoint, the next start replays reason=%r", error)
        finally:
            await self._stop()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._journal.stop("the store was closed")
        await self._handles.close()
        await self._journal_files.close()
        self._lock.release()

    def stats(self) -> dict[str, Any]:
        """For people and metrics. `state` is writing, full or failed, and `reason` says why."""
        reason = self._journal.failure or self._room.reason
        state = "failed" if self._journal.failure else "full" if self._room.reason else "writing"
        return {
            "state": state,
            "reason": reason,
            "build_mode": loaded_mode(),
            "ledgers": len(self._table.ledgers),
            "pending_bytes": self._journal.pending_bytes,
            "owed_bytes": self._write_back.owed_bytes,
            "cache_bytes": self._cache.bytes,
            "groups": self._journal.groups,
            "journal_bytes": self._journal.bytes_written,
            "journal_files": self._journal_files.count,
            "checkpoints": self._checkpoint.count,
            "open_files": len(self._handles),
        }

    def _confirm(self, group: Group) -> None:
        """The journal has synced a group: its entries exist from here on."""
        for ledger, run in group.runs.items():
            state = self._table.ledgers[ledger]
            state.confirm(run)
            self._write_back.owe(state, run.size)
        for _, apply in group.operations:
            apply()

    def _forget(self, state: LedgerState) -> None:
        if self._table.ledgers.pop(state.ledger, None) is not None:
            state.access = Access.DELETED
            self._write_back.forget(state)
            self._cache.forget(state)
            self.files.forget(state)

    def _refuse_entries_if_unable(self) -> None:
        if self._journal.refusal is not None:
            raise Unavailable(self._journal.refusal)
        if self._room.reason is not None:
            raise Full(self._room.reason)
        if self._write_back.is_full:
            raise Busy(
                f"{self._write_back.owed_bytes} bytes wait to be written to ledger files, the "
                f"bound is {self._config.owed_bytes}: wait for room"
            )

    async def _wait_for_journal(self) -> None:
        """For closing and deleting, which a full disk allows as long as a journal file does."""
        while self._journal.refusal is None:
            if self._journal.has_place_for_operation(HEADER_BYTES):
                return
            if self._room.reason is not None:
                raise Full(self._room.reason)
            await self._next_change()

    async def _next_change(self) -> None:
        if self._waiting is None:
            self._waiting = CommitFuture()
        await self._waiting

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set_result(None)

    def _request_checkpoint(self) -> None:
        self._checkpoint.request()

    def _fail(self, reason: str) -> None:
        """The disk broke a promise: refuse writes for good, go on reading."""
        if self._journal.failure is None and not self._is_closed:
            log.critical("storage takes no more writes reason=%r", reason)
            self.files.distrust_unsynced(reason)
            self._journal.stop(
                f"{reason}; this process takes no more writes, restart it to recover what is on "
                "disk"
            )
