"""The journal's files: filled with zeros ahead of time, taken in turn, used again.

A sync of a file that grows must also commit its new size, which costs half as much again; so a
file is written full of zeros before its first use. When a checkpoint has made a file dispensable,
renaming it to the next generation is all it needs: records of its former life carry their old
generation.

The next file is always prepared in the background, and the rename is durable before the first
group is written to it. Names are generations in hexadecimal; a name below the manifest's
`replay_from` marks a file that is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from anabranch.runtime.world import Disk, File
from anabranch.storage.disk_room import DiskRoom
from anabranch.storage.engine_config import EngineConfig

log = logging.getLogger(__name__)
_FILL_BYTES = 1024 * 1024
_KEPT_BYTES = 64 * 1024


class JournalFiles:
    def __init__(
        self,
        disk: Disk,
        config: EngineConfig,
        room: DiskRoom,
        *,
        next_generation: int,
        free: list[int],
        on_ready: Callable[[], None],
        on_switch: Callable[[], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._config = config
        self._room = room
        self._on_ready = on_ready
        self._on_switch = on_switch
        self._on_error = on_error
        self._free = free  # generations whose files may be used again
        self._filled: list[int] = []  # generations that a checkpoint must cover first
        self._freed = asyncio.Event()
        self._next = next_generation
        self._prepared: asyncio.Future[File] = asyncio.get_running_loop().create_future()
        self._taken = asyncio.Event()
        self._file: File | None = None
        self.generation = next_generation - 1  # of the file in use
        self.is_ahead = False
        self.entries_limit = 0
        self._limit_entries()

    @property
    def last_ready(self) -> int:
        return self.generation + self.is_ahead

    async def file_for(self, generation: int) -> File:
        if generation != self.generation or self._file is None:
            assert generation == self._next, f"generation {generation} after {self.generation}"
            file = await self._prepared
            await self._switch(file)
        assert self._file is not None
        return self._file

    async def run_preparing(self) -> None:
        """Keep one file ahead; never returns, the owner cancels it."""
        while True:
            try:
                await self._room.check_reserve()
                file = await self._room.insist("a journal file", self._prepare)
            except OSError as error:
                self._on_error(f"preparing a journal file failed: {error}")
                return
            self._taken.clear()
            self._prepared.set_result(file)
            self.is_ahead = True
            self._limit_entries()
            self._on_ready()
            await self._taken.wait()

    def release_below(self, generation: int) -> None:
        """A checkpoint covers these: their files may be used again, the oldest first."""
        self._free += [filled for filled in self._filled if filled < generation]
        self._filled = [filled for filled in self._filled if filled >= generation]
        self._freed.set()

    async def close(self) -> None:
        if self._file is not None:
            await self._file.close()
            self._file = None
        if self._prepared.done() and not self._prepared.cancelled():
            await self._prepared.result().close()

    @property
    def count(self) -> int:
        return len(self._free) + len(self._filled) + (self._file is not None)

    def _limit_entries(self) -> None:
        """Keep space for operations while no next file is ready.

        When the disk is full, deleting ledgers is the way out; that must not need a new file.
        """
        whole = self._config.journal_file_bytes
        kept = 0 if self.is_ahead else min(_KEPT_BYTES, whole // 16)
        self.entries_limit = whole - kept

    async def _switch(self, file: File) -> None:
        former, self._file = self._file, file
        if former is not None:
            self._filled.append(self.generation)
            await former.close()
        self.generation = self._next
        self.is_ahead = False
        self._limit_entries()
        self._next += 1
        self._prepared = asyncio.get_running_loop().create_future()
        self._taken.set()
        self._on_switch()

    async def _prepare(self) -> File:
        path = self._config.journal_path(self._next)
        while not self._free and self.count >= self._config.journal_files:
            self._freed.clear()
            await self._freed.wait()
        if self._free:
            await self._disk.rename(self._config.journal_path(self._free[0]), path)
            self._free.pop(0)
        else:
            await self._make(path)
        await self._disk.sync_directory(self._config.journal_directory)
        return await self._disk.open(path, own_thread=True)

    async def _make(self, path: str) -> None:
        beside = f"{self._config.journal_directory}/new"
        file = await self._disk.open(beside, create=True)
        zeros = bytes(min(_FILL_BYTES, self._config.journal_file_bytes))
        try:
            for offset in range(0, self._config.journal_file_bytes, len(zeros)):
                rest = min(len(zeros), self._config.journal_file_bytes - offset)
                await file.write(offset, [memoryview(zeros)[:rest]])
            await file.sync()
        except OSError:
            await file.close()
            with contextlib.suppress(FileNotFoundError):
                await self._disk.remove(beside)
            raise
        await file.close()
        await self._disk.rename(beside, path)
