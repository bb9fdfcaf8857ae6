"""The cursors of one managed ledger, as the rest of the broker holds them.

Acknowledging is immediate in memory and returns at once; `persist` is the receipt. Creating,
deleting and seeking return only when they are durable. A cursor that is not durable lives as long
as its handle, is written nowhere and holds nothing back from trimming.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from anabranch.errors import InvalidInput, NotFound
from anabranch.storage.cursor import Cursor, mark_before, parse_ack_set
from anabranch.storage.cursor_log import CursorLog, LoggedCursor
from anabranch.storage.managed_record import ManagedLedgerRecords
from anabranch.storage.record_keeper import Tenure
from anabranch.storage.spans import Spans
from anabranch.topics.positions import Position


class ManagedCursor:
    """One subscription's handle. After `delete` or the end of the tenure every call raises."""

    def __init__(
        self,
        name: str,
        logged: LoggedCursor,
        *,
        log: CursorLog | None,
        tenure: Tenure,
        spans: Callable[[], Spans],
    ) -> None:
        self.name = name
        self._logged = logged
        self._log = log
        self._tenure = tenure
        self._spans = spans

    def __repr__(self) -> str:
        kind = "" if self.is_durable else ", not durable"
        return f"ManagedCursor({self.name!r}, {self._logged.cursor}{kind})"

    @property
    def is_durable(self) -> bool:
        return self._log is not None

    @property
    def mark_delete(self) -> Position:
        return self._logged.cursor.mark_delete

    @property
    def persisted_mark_delete(self) -> Position:
        """Where a crash would bring this cursor back to, as far as the mark is concerned."""
        return self._logged.persisted

    @property
    def properties(self) -> Mapping[str, str]:
        return self._logged.cursor.properties

    @property
    def is_over_limit(self) -> bool:
        """So many holes that reading ahead should stop until some are filled."""
        return self._logged.cursor.is_over_limit

    @property
    def has_holes(self) -> bool:
        """Whether anything behind the mark is acknowledged, in whole or in part."""
        return self._logged.cursor.has_holes

    @property
    def has_partial_batches(self) -> bool:
        return self._logged.cursor.has_partial_batches

    @property
    def backlog(self) -> int:
        """Entries not acknowledged whole."""
        return self._logged.cursor.backlog(self._spans())

    def is_acked(self, position: Position) -> bool:
        return self._logged.cursor.is_acked(position)

    def unacked_bits(self, position: Position) -> int | None:
        """What is left of a batch acknowledged in part (1 = unacknowledged), else None."""
        return self._logged.cursor.unacked_bits(position)

    def next_unacked(self, position: Position) -> Position | None:
        return self._logged.cursor.next_unacked(position, self._spans())

    def acknowledge(self, positions: Iterable[Position]) -> int:
        """Whole entries; how many were new. Those that do not exist are passed over."""
        added = self._acting().acknowledge(positions, self._spans())
        self._touch()
        return added

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> bool:
        """Part of a batch, by the wire's words (1 = still unacknowledged); true if it is done."""
        left = parse_ack_set(ack_set)
        done = self._acting().acknowledge_batch(position, left, self._spans())
        self._touch()
        return done

    def acknowledge_cumulative(self, position: Position, ack_set: Sequence[int] = ()) -> bool:
        """Everything up to `position`; with words, of `position` only part. True if it was news."""
        left = parse_ack_set(ack_set) if ack_set else None
        moved = self._acting().acknowledge_cumulative(position, self._spans(), left)
        self._touch()
        return moved

    async def persist(self) -> None:
        """The receipt: return once everything acknowledged before this call is durable."""
        self._acting()
        if self._log is not None:
            await self._log.persist()

    async def seek(self, position: Position) -> None:
        """Everything from `position` on is unacknowledged again, everything before is not."""
        cursor, spans = self._acting(), self._spans()
        # Before anything is written: no trim may now go beyond where the seek leads.
        self._logged.persisted = min(self._logged.persisted, mark_before(position, spans))
        cursor.reset(position, spans)
        await self._write()

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        self._acting().set_properties(properties)
        await self._write()

    async def _write(self) -> None:
        self._touch()
        if self._log is not None:
            await self._log.persist()

    def _acting(self) -> Cursor:
        self._tenure.check()
        if self._logged.is_deleted:
            raise NotFound(f"cursor {self.name} was deleted")
        return self._logged.cursor

    def _touch(self) -> None:
        if self._log is None:
            self._logged.persisted = self._logged.cursor.mark_delete
        elif self._logged.cursor.is_changed:
            self._log.touch(self.name)


class ManagedCursors:
    """All durable cursors by name.

    The log is the truth; the store's list of names lets others (a split, a merge) see which
    there are without loading anything. The log is written first: an owner that was fenced fails
    there, before it can touch the list. What a crash leaves between the two, the next load mends.
    """

    def __init__(
        self,
        ledger_name: str,
        *,
        log: CursorLog,
        records: ManagedLedgerRecords,
        tenure: Tenure,
        spans: Callable[[], Spans],
        epoch: int,
    ) -> None:
        self._ledger_name = ledger_name
        self._epoch = epoch
        self._log = log
        self._records = records
        self._tenure = tenure
        self._spans = spans
        self._handles = {
            name: self._handle(name, logged, log) for name, logged in log.cursors.items()
        }
        # Creations and deletions take turns: two of the same name would undo each other.
        self._turn = asyncio.Lock()

    def _handle(self, name: str, logged: LoggedCursor, log: CursorLog | None) -> ManagedCursor:
        return ManagedCursor(name, logged, log=log, tenure=self._tenure, spans=self._spans)

    @property
    def names(self) -> list[str]:
        return sorted(self._handles)

    def all(self) -> list[ManagedCursor]:
        return list(self._handles.values())

    def get(self, name: str) -> ManagedCursor | None:
        return self._handles.get(name)

    async def open(
        self,
        name: str,
        start: Position,
        *,
        is_durable: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> ManagedCursor:
        """The cursor of that name, made with `start` as its first entry if there is none."""
        self._tenure.check()
        if not is_durable:
            if name in self._handles:
                raise InvalidInput(f"{name} is a durable cursor of {self._ledger_name}")
            cursor = Cursor.starting_at(start, self._spans(), properties)
            return self._handle(name, LoggedCursor(cursor, cursor.mark_delete), None)
        async with self._turn:
            handle = self._handles.get(name)
            if handle is None:
                handle = await self._create(name, start, properties)
            return handle

    async def _create(
        self, name: str, start: Position, properties: Mapping[str, str] | None
    ) -> ManagedCursor:
        logged = self._log.add(name, Cursor.starting_at(start, self._spans(), properties))
        try:
            await self._log.persist()
            await self._records.add_cursor_name(self._ledger_name, name, self._epoch)
        except BaseException:
            # Not created as far as anybody was told; if it did reach the log, it goes again.
            if not logged.is_deleted:
                self._log.remove(name)
            raise
        handle = self._handles[name] = self._handle(name, logged, self._log)
        return handle

    async def delete(self, name: str) -> None:
        """Idempotent."""
        self._tenure.check()
        async with self._turn:
            if self._handles.pop(name, None) is not None:
                self._log.remove(name)
            # Also if it was gone: an earlier deletion may have failed half way.
            await self._log.persist()
            await self._records.remove_cursor_name(self._ledger_name, name, self._epoch)

    async def persist(self) -> None:
        """Return once everything acknowledged before this call, on any of them, is durable."""
        await self._log.persist()

    async def mend_names(self) -> None:
        """Make the list of names say what the log says.

        We may have been overtaken since we read the log; names that a later owner listed carry
        its epoch, and stay.
        """
        listed = set(await self._records.cursor_names(self._ledger_name))
        for name in sorted(set(self._handles) - listed):
            await self._records.add_cursor_name(self._ledger_name, name, self._epoch)
        for name in sorted(listed - set(self._handles)):
            await self._records.remove_cursor_name(self._ledger_name, name, self._epoch)
