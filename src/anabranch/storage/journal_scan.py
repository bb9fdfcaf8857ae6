"""Reading a journal file after a crash: which records it holds, and whether its end is an end.

A file ends where no intact group of its generation begins, or in the middle of one. That is
ordinary after a crash, as groups are written over zeros or over an older generation, and any part
of the last one may be missing. It is damage if an intact group of the same generation lies
behind: that one was written after everything before it had been synced and acknowledged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from anabranch.runtime.world import File
from anabranch.storage.record_codec import (
    DAMAGED,
    GROUP,
    HEADER_BYTES,
    Record,
    find_group,
    scan_journal,
)

_WINDOW_BYTES = 4 * 1024 * 1024

TakeRecords = Callable[[bytes, Sequence[Record]], Awaitable[None]]
TakePreviousEnd = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the intact part of a journal file ends, and what is known of what follows."""

    groups: int  # that are whole
    end: int  # behind the last whole group
    kept: int  # behind the last intact record; more than `end` if the last group is torn
    torn_bytes: int  # that the last, torn group has behind `kept`
    ledger: int | None = None  # whose entry lies at `kept`, if its header is intact
    entry: int | None = None
    later_group: int | None = None  # where an intact group follows: then this is damage


class JournalScan:
    """One file, front to back. Records are handed over as they are found."""

    def __init__(
        self,
        file: File,
        generation: int,
        size: int,
        take_records: TakeRecords,
        take_previous_end: TakePreviousEnd,
    ) -> None:
        self._file = file
        self._generation = generation
        self._size = size
        self._take_records = take_records
        self._take_previous_end = take_previous_end
        self._window = b""
        self._base = 0

    async def run(self) -> Stop:
        offset, groups = 0, 0
        while (group := await self._group_at(offset)) is not None:
            if groups == 0:
                self._take_previous_end(group.time_ms)
            behind = offset + HEADER_BYTES + group.first
            torn = await self._read_group(offset + HEADER_BYTES, behind, group.messages)
            if torn is not None:
                return await self._stop(groups, offset, torn, behind)
            offset, groups = behind, groups + 1
        return await self._stop(groups, offset, Torn(offset), offset)

    async def _group_at(self, offset: int) -> Record | None:
        start = await self._load(offset, HEADER_BYTES)
        if start + HEADER_BYTES > len(self._window):
            return None
        scan = scan_journal(self._window, start, start + HEADER_BYTES, self._generation)
        group = scan.records[0] if scan.records else None
        if group is None or group.kind != GROUP or group.ledger != offset:
            return None
        return group if offset + HEADER_BYTES + group.first <= self._size else None

    async def _read_group(self, offset: int, behind: int, count: int) -> Torn | None:
        """Hand over its records; where and at which entry it is torn, or None if it is whole."""
        needed = HEADER_BYTES
        while offset < behind:
            start = await self._load(offset, needed)
            end = min(len(self._window), start + behind - offset)
            scan = scan_journal(self._window, start, end, self._generation)
            await self._take_records(self._window, scan.records)
            count -= sum(record.count for record in scan.records)
            offset += scan.position - start
            if scan.stopped == DAMAGED:
                return Torn(offset, scan.ledger, scan.entry)
            if scan.position == start and (
                end - start >= scan.needed or offset + scan.needed > behind
            ):
                return Torn(offset)
            needed = scan.needed
        return None if count == 0 else Torn(offset)

    async def _stop(self, groups: int, end: int, torn: Torn, behind: int) -> Stop:
        known = torn.ledger >= 0
        return Stop(
            groups=groups,
            end=end,
            kept=torn.offset,
            torn_bytes=behind - torn.offset,
            ledger=torn.ledger if known else None,
            entry=torn.entry if known else None,
            later_group=await self._find_later_group(torn.offset),
        )

    async def _find_later_group(self, offset: int) -> int | None:
        while offset + HEADER_BYTES <= self._size:
            start = await self._load(offset, _WINDOW_BYTES)
            found = find_group(self._window, start, self._base, self._generation)
            if found >= 0:
                return self._base + found
            # A header may lie across the end of the window: go back by all but one byte of it.
            offset = max(offset + 1, self._base + len(self._window) - HEADER_BYTES + 1)
        return None

    async def _load(self, offset: int, size: int) -> int:
        """Where `offset` lies in a window that shows `size` bytes from there, if there are."""
        size = min(size, self._size - offset)
        if not self._base <= offset <= offset + size <= self._base + len(self._window):
            self._window = await self._file.read(offset, max(size, _WINDOW_BYTES))
            self._base = offset
        return offset - self._base


@dataclass(frozen=True, slots=True)
class Torn:
    offset: int
    ledger: int = -1
    entry: int = -1
