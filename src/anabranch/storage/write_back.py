"""Bringing what the journal has to the ledgers' own files: lazily, in large pieces, unsynced.

A ledger's turn comes when it owes 64 KB, or when all together owe half of what they may, and
it then gets one write of up to 1 MB before the next ledger's. One write is under way at a time,
so that the threads and the disk stay free for the journal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from anabranch.runtime.world import Buffer
from anabranch.storage.disk_room import DiskRoom
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.ledger_table import LedgerState
from anabranch.storage.record_codec import Chunk
from anabranch.storage.tail_cache import TailCache

_RIPE_BYTES = 64 * 1024
_WRITE_BYTES = 1024 * 1024
_CHECK_ROOM_BYTES = 32 * 1024 * 1024


class WriteBack:
    def __init__(
        self,
        config: EngineConfig,
        handles: FileHandles,
        cache: TailCache,
        room: DiskRoom,
        *,
        on_room: Callable[[], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._config = config
        self._handles = handles
        self._cache = cache
        self._room = room
        self._on_room = on_room
        self._on_error = on_error
        self._dirty: dict[int, LedgerState] = {}  # owing anything, longest first
        self._ripe: deque[LedgerState] = deque()
        self.lock = asyncio.Lock()  # held by whoever makes or removes files of ledgers
        self._wake = asyncio.Event()
        self._unchecked_bytes = 0
        self.owed_bytes = 0

    def owe(self, state: LedgerState, size: int) -> None:
        """`size` more bytes of this ledger are confirmed."""
        self.owed_bytes += size
        self._dirty[state.ledger] = state
        if state.owed_bytes - size < _RIPE_BYTES <= state.owed_bytes:
            self._ripe.append(state)
            self._wake.set()
        elif self.owed_bytes > self._config.owed_bytes // 2:
            self._wake.set()

    @property
    def is_full(self) -> bool:
        return self.owed_bytes > self._config.owed_bytes

    def forget(self, state: LedgerState) -> None:
        """The ledger is gone, and with it what it owed."""
        self._settle(state, state.owed_bytes)
        self._dirty.pop(state.ledger, None)

    async def run_writing(self) -> None:
        """Never returns; the owner cancels it."""
        while True:
            state = self._next()
            if state is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._write_some(state)
            except OSError as error:
                self._on_error(f"writing the file of ledger {state.ledger} failed: {error}")
                return

    async def write_all(self, state: LedgerState) -> None:
        """Until its file has everything that is confirmed now."""
        upto = state.last_confirmed
        while state.written_entries <= upto and not state.is_deleted:
            await self._write_some(state)

    def _next(self) -> LedgerState | None:
        while self._ripe:
            state = self._ripe.popleft()
            if state.owed_bytes >= _RIPE_BYTES:
                return state
        if self.owed_bytes > self._config.owed_bytes // 2:
            return next(iter(self._dirty.values()), None)
        return None

    async def _write_some(self, state: LedgerState) -> None:
        await self._room.insist("ledger files", lambda: self._try_to_write(state))
        if self._unchecked_bytes >= _CHECK_ROOM_BYTES:
            self._unchecked_bytes = 0
            await self._room.check_reserve()

    async def _try_to_write(self, state: LedgerState) -> None:
        # The lock is let go between attempts: deleting a ledger makes room, and needs it.
        async with self.lock:
            chunks = _take(state)
            if not chunks or state.is_deleted:
                return
            pieces: list[Buffer] = []
            for chunk in chunks:
                pieces.append(chunk.data)
                if chunk.body is not None:
                    pieces.append(chunk.body)
            path = self._config.ledger_path(state.ledger)
            async with self._handles.use(path, create=True) as file:
                await file.write(state.written_bytes, pieces)
            if not state.is_deleted:
                self._note_written(state, chunks)

    def _note_written(self, state: LedgerState, chunks: list[Chunk]) -> None:
        size = sum(chunk.size for chunk in chunks)
        state.written_bytes += size
        state.written_entries += sum(chunk.count for chunk in chunks)
        self._unchecked_bytes += size
        self._settle(state, size)
        if not state.owed_bytes:
            self._dirty.pop(state.ledger, None)
        elif state.owed_bytes >= _RIPE_BYTES:
            self._ripe.append(state)
            self._wake.set()
        for chunk in chunks:
            self._cache.add(state, chunk)

    def _settle(self, state: LedgerState, size: int) -> None:
        state.owed_bytes -= size
        self.owed_bytes -= size
        self._on_room()


def _take(state: LedgerState) -> list[Chunk]:
    """The next chunks that its file is owed, up to the size of one write."""
    taken: list[Chunk] = []
    size = 0
    for at in range(state.cached, len(state.chunks)):
        chunk = state.chunks[at]
        if taken and size + chunk.size > _WRITE_BYTES:
            break
        taken.append(chunk)
        size += chunk.size
    return taken
