"""Reading a ledger: from memory where the entries still are, else from its file, verified.

A file is read in windows of up to 1 MB. Each record must carry the ledger and entry that were
asked for and pass both checksums, every time it is read. What lies behind a damaged record stays
readable: the index leads past it, or a search for its successor.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from anabranch.errors import AnabranchError, Corrupt, NotFound, Unavailable
from anabranch.runtime.world import File
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_handles import FileHandles
from anabranch.storage.ledger import Entry
from anabranch.storage.ledger_table import LedgerState
from anabranch.storage.record_codec import (
    MORE,
    Chunk,
    Scan,
    large_entry,
    scan_blocks,
    scan_entries,
)
from anabranch.storage.sparse_index import Point, SparseIndex, encode_index, parse_index

log = logging.getLogger(__name__)
_WINDOW_BYTES = 1024 * 1024
_BETWEEN_POINTS_BYTES = 256 * 1024  # an entry is found within this many bytes behind its point
_ANY = 1 << 62


class LedgerFiles:
    def __init__(self, config: EngineConfig, handles: FileHandles) -> None:
        self._config = config
        self._handles = handles
        self._distrusted: str | None = None
        self._unsaved: dict[int, LedgerState] = {}  # closed, and without an index on disk
        self._loaded: OrderedDict[int, LedgerState] = OrderedDict()  # whose index may be dropped

    async def read(
        self, state: LedgerState, first: int, max_entries: int, max_bytes: int
    ) -> Sequence[Entry]:
        if state.is_deleted:
            raise NotFound(f"ledger {state.ledger} was deleted")
        first = max(first, 0)
        if first > state.last_confirmed or max_entries <= 0:
            return []
        chunks = state.chunks
        if chunks and first >= chunks[0].first:
            return read_memory(state, first, max_entries, max_bytes)
        return await self._read_file(state, first, max_entries, max_bytes)

    async def find_by_time(self, state: LedgerState, time_ms: int) -> int:
        last = state.last_confirmed
        if last < 0:
            return 0
        entry = (await self.index_of(state)).locate_time(time_ms).entry
        while entry <= last:
            entries = await self.read(state, entry, _ANY, _WINDOW_BYTES)
            for found in entries:
                if found.time_ms >= time_ms:
                    return min(found.entry, last + 1)
            entry += len(entries)
        return last + 1

    async def index_of(self, state: LedgerState) -> SparseIndex:
        index = state.index
        if index is None:
            index = state.index = await self._load_index(state)
        if not state.is_growing:
            self._loaded[state.ledger] = state
            self._loaded.move_to_end(state.ledger)
            if len(self._loaded) > self._config.indexes:
                _, oldest = self._loaded.popitem(last=False)
                oldest.index = None
        return index

    def distrust_unsynced(self, reason: str) -> None:
        """The disk failed: what was written and not synced may be gone from files.

        The journal has it, so entries that cannot be read are not lost, and not `Corrupt`.
        """
        self._distrusted = reason

    def forget(self, state: LedgerState) -> None:
        self._loaded.pop(state.ledger, None)
        self._unsaved.pop(state.ledger, None)

    def note_closed(self, state: LedgerState) -> None:
        """Its index is to be saved, once its file is complete."""
        if state.last_confirmed >= 0:
            self._unsaved[state.ledger] = state

    async def save_indexes(self) -> None:
        """Not synced, and no harm if it fails: an index can be made again."""
        for state in list(self._unsaved.values()):
            if state.owed_bytes == 0 and not state.is_deleted:
                try:
                    await self._save_index(state)
                except OSError as error:
                    log.warning("index not saved ledger=%d error=%s", state.ledger, error)
                self._unsaved.pop(state.ledger, None)

    async def _save_index(self, state: LedgerState) -> None:
        index = await self.index_of(state)
        data = encode_index(index, state.ledger, state.written_entries, state.written_bytes)
        path = self._config.index_path(state.ledger)
        async with self._handles.use(path, create=True) as file:
            await file.truncate(0)
            await file.write(0, [data])
        await self._handles.drop(path)

    async def _load_index(self, state: LedgerState) -> SparseIndex:
        path = self._config.index_path(state.ledger)
        data = b""
        try:
            async with self._handles.use(path) as file:
                data = await file.read(0, await file.size())
            await self._handles.drop(path)
        except FileNotFoundError:
            pass  # of a ledger that was not closed when its process ended
        index = parse_index(data, state.ledger, state.written_entries, state.written_bytes)
        if index is None:
            log.info("making index again ledger=%d bytes=%d", state.ledger, state.written_bytes)
            index = await self._make_index(state)
            if state.end is not None:
                self._unsaved[state.ledger] = state
        return index

    async def _make_index(self, state: LedgerState) -> SparseIndex:
        """Walk over the whole file. Damage that cannot be stepped over ends the walk."""
        index = SparseIndex()
        point = Point(0, 0)
        try:
            async with self._handles.use(self._config.ledger_path(state.ledger)) as file:
                while point.entry < state.written_entries:
                    window = await _read_window(file, state, point, _WINDOW_BYTES)
                    scan = scan_blocks(window, state.ledger, point.entry, state.written_entries - 1)
                    for block in scan.records:
                        index.add(block.first, point.offset + block.start, block.max_time)
                    if scan.position == 0:
                        break
                    point = Point(scan.entry, point.offset + scan.position)
        except FileNotFoundError:
            raise self._missing(state, 0) from None
        return index

    async def _read_file(
        self, state: LedgerState, first: int, max_entries: int, max_bytes: int
    ) -> Sequence[Entry]:
        point = (await self.index_of(state)).locate(first)
        try:
            async with self._handles.use(self._config.ledger_path(state.ledger)) as file:
                return await _scan_file(file, state, point, first, max_entries, max_bytes)
        except FileNotFoundError:
            raise self._missing(state, first) from None
        except Corrupt as error:
            if self._distrusted is not None and (error.entry or 0) >= state.synced_entries:
                raise Unavailable(f"{error}; {self._distrusted}") from error
            raise

    def _missing(self, state: LedgerState, entry: int) -> AnabranchError:
        if state.is_deleted:
            return NotFound(f"ledger {state.ledger} was deleted")
        return Corrupt(
            f"the file of ledger {state.ledger} is missing", ledger=state.ledger, entry=entry
        )


async def _scan_file(
    file: File, state: LedgerState, point: Point, first: int, max_entries: int, max_bytes: int
) -> Sequence[Entry]:
    last = state.written_entries - 1
    size = min(_WINDOW_BYTES, max_bytes + _BETWEEN_POINTS_BYTES)
    while True:
        window = await _read_window(file, state, point, size)
        scan = scan_entries(
            window, state.ledger, point.entry, first, last, max_entries, max_bytes, True
        )
        if scan.entries:
            return scan.entries
        rest = state.written_bytes - point.offset
        if not _may_go_on(scan, len(window), min(size, rest), rest):
            raise Corrupt(
                f"ledger {state.ledger} entry {scan.entry} fails its checksum, at offset "
                f"{point.offset + scan.position} of its file",
                ledger=state.ledger,
                entry=scan.entry,
            )
        point = Point(scan.entry, point.offset + scan.position)
        size = max(size, scan.needed)


def _may_go_on(scan: Scan, seen: int, asked: int, rest: int) -> bool:
    """Whether another window could show more than this one, of a file that should be so long."""
    if scan.stopped != MORE or scan.position >= rest:
        return False
    return scan.position > 0 or (seen == asked and asked < scan.needed <= rest)


async def _read_window(file: File, state: LedgerState, point: Point, size: int) -> bytes:
    return await file.read(point.offset, min(size, state.written_bytes - point.offset))


def read_memory(
    state: LedgerState, first: int, max_entries: int, max_bytes: int
) -> Sequence[Entry]:
    """From chunks that never left our own memory, so not verified once more."""
    chunks = state.chunks
    found: list[Entry] = []
    room = max_bytes
    for at in range(bisect_right(chunks, first, key=_first_of) - 1, len(chunks)):
        entries = _entries_of(chunks[at], state.ledger, first, max_entries - len(found), room)
        if found and len(entries[0].body) > room:
            break
        found += entries
        first += len(entries)
        room -= sum([len(entry.body) for entry in entries])
        if len(found) >= max_entries or room <= 0 or first < chunks[at].first + chunks[at].count:
            break
    return found


def _first_of(chunk: Chunk) -> int:
    return chunk.first


def _entries_of(
    chunk: Chunk, ledger: int, first: int, max_entries: int, max_bytes: int
) -> list[Entry]:
    if chunk.body is not None:
        return [large_entry(chunk, ledger)]
    last = chunk.first + chunk.count - 1
    return scan_entries(
        chunk.data, ledger, chunk.first, first, last, max_entries, max_bytes, False
    ).entries
