"""Ledgers in memory, with the manners of ledgers on disk.

For tests and simulations of everything above the engine. A `MemoryDisk` outlives processes; a
`MemoryLedgerStore` is one process that uses it. Entries commit in groups, on a later turn of the
loop, never within `submit`; several stores on one disk see each other's ledgers, so a takeover
can be played with the old owner still at work.

What a test may do to it: hold commits back (`pause`, `resume`), let a commit fail with part of it
on disk (`fail_next_commit`), end the process (`crash`), fill the disk (`MemoryDisk.is_full`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from anabranch.errors import Closed, Corrupt, Fenced, Full, NotFound, Unavailable
from anabranch.storage.ledger import Draft, Entry, LedgerEnd, Submission


@dataclass(slots=True, eq=False)
class StoredLedger:
    ledger: int
    properties: Mapping[str, str]
    drafts: list[Draft] = field(default_factory=list)
    length_bytes: int = 0
    end: LedgerEnd | None = None  # set once, by close or recover

    def extend(self, drafts: Sequence[Draft]) -> None:
        self.drafts += drafts
        self.length_bytes += sum(len(draft.body) for draft in drafts)

    def finish(self) -> LedgerEnd:
        if self.end is None:
            self.end = LedgerEnd(len(self.drafts) - 1, self.length_bytes)
        return self.end


class MemoryDisk:
    """What survives a process: ledgers, and the counter their ids come from."""

    def __init__(self) -> None:
        self.ledgers: dict[int, StoredLedger] = {}
        self.is_full = False
        self.recoveries: list[int] = []  # ledgers that `recover` was asked for
        self._last_id = 0

    def add(self, properties: Mapping[str, str]) -> StoredLedger:
        self._last_id += 1
        stored = self.ledgers[self._last_id] = StoredLedger(self._last_id, dict(properties))
        return stored

    def get(self, ledger: int) -> StoredLedger:
        try:
            return self.ledgers[ledger]
        except KeyError:
            raise NotFound(f"no ledger {ledger}") from None


class _Waiting(NamedTuple):
    writer: MemoryLedgerWriter
    drafts: list[Draft]
    durable: asyncio.Future[None]


class MemoryLedgerStore:
    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self._group: dict[MemoryLedgerWriter, _Waiting] = {}
        self._is_scheduled = False
        self._is_paused = False
        self._is_gone = False
        self._kept_of_failure: int | None = None

    async def create(self, properties: Mapping[str, str]) -> MemoryLedgerWriter:
        await self._turn()
        if self.disk.is_full:
            raise Full("no room for another ledger")
        return MemoryLedgerWriter(self, self.disk.add(properties))

    async def open(self, ledger: int) -> MemoryLedgerReader:
        await self._turn()
        return MemoryLedgerReader(self, self.disk.get(ledger))

    async def recover(self, ledger: int) -> LedgerEnd:
        await self._turn()
        self.disk.recoveries.append(ledger)
        end = self.disk.get(ledger).finish()
        for writer in [writer for writer in self._group if writer.ledger == ledger]:
            waiting = self._group.pop(writer)
            writer.commit(waiting.drafts, waiting.durable)  # which finds itself fenced
        return end

    async def delete(self, ledger: int) -> None:
        await self._turn()
        stored = self.disk.ledgers.pop(ledger, None)
        if stored is not None:
            stored.finish()

    async def ledgers(self) -> AsyncIterator[int]:
        await self._turn()
        for ledger in sorted(self.disk.ledgers):
            yield ledger

    async def properties(self, ledger: int) -> Mapping[str, str]:
        await self._turn()
        return self.disk.get(ledger).properties

    async def wait_for_room(self, size: int = 1) -> None:
        """Memory has room or is at its end; it is never behind."""

    def pause(self) -> None:
        """Commit nothing until `resume`: what is submitted stays on its way."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._schedule()

    def fail_next_commit(self, *, kept_entries: int = 0) -> None:
        """The next group fails with its outcome unknown.

        `kept_entries` of each ledger in it reach the disk all the same, for a recovery to find.
        """
        self._kept_of_failure = kept_entries

    def crash(self, *, kept_entries: int = 0) -> None:
        """End this process: nothing it still has in hand is ever answered.

        `kept_entries` of each ledger that was being written reach the disk, unacknowledged.
        """
        self._is_gone = True
        for waiting in self._group.values():
            waiting.writer.keep(waiting.drafts[:kept_entries])
        self._group.clear()

    async def _turn(self) -> None:
        """Be asynchronous, as a disk would; and do nothing for a process that is gone."""
        await asyncio.sleep(0)
        self.check_alive()

    def check_alive(self) -> None:
        if self._is_gone:
            raise Unavailable("this process has crashed")

    def enqueue(self, writer: MemoryLedgerWriter, drafts: list[Draft]) -> asyncio.Future[None]:
        waiting = self._group.get(writer)
        if waiting is None:
            durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # Whoever submits need not wait: no complaint about errors that nobody looked at.
            durable.add_done_callback(lambda done: done.cancelled() or done.exception())
            waiting = self._group[writer] = _Waiting(writer, [], durable)
            self._schedule()
        waiting.drafts.extend(drafts)
        return waiting.durable

    def _schedule(self) -> None:
        if self._group and not self._is_scheduled and not self._is_paused:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        self._is_scheduled = False
        if self._is_paused or self._is_gone:
            return
        group, self._group = self._group, {}
        kept, self._kept_of_failure = self._kept_of_failure, None
        for waiting in group.values():
            if kept is None:
                waiting.writer.commit(waiting.drafts, waiting.durable)
            else:
                waiting.writer.fail(waiting.drafts[:kept], waiting.durable)


class MemoryLedgerReader:
    def __init__(self, store: MemoryLedgerStore, stored: StoredLedger) -> None:
        self._store = store
        self._stored = stored

    @property
    def ledger(self) -> int:
        return self._stored.ledger

    @property
    def last_confirmed(self) -> int:
        return len(self._stored.drafts) - 1

    async def read(self, first: int, *, max_entries: int, max_bytes: int) -> list[Entry]:
        await asyncio.sleep(0)
        self._store.check_alive()
        self._store.disk.get(self.ledger)
        found: list[Entry] = []
        room = max_bytes
        for number, draft in enumerate(self._stored.drafts[first : first + max_entries], first):
            room -= len(draft.body)
            if found and room < 0:
                break
            if crc32c(draft.body[draft.prefix :]) != draft.checksum:
                message = f"ledger {self.ledger} entry {number}: body fails its checksum"
                raise Corrupt(message, ledger=self.ledger, entry=number)
            found.append(Entry(self.ledger, number, draft.body, draft.time_ms, draft.messages))
        return found

    async def find_by_time(self, time_ms: int) -> int:
        await asyncio.sleep(0)
        self._store.check_alive()
        drafts = self._stored.drafts
        return next((n for n, draft in enumerate(drafts) if draft.time_ms >= time_ms), len(drafts))


class MemoryLedgerWriter(MemoryLedgerReader):
    def __init__(self, store: MemoryLedgerStore, stored: StoredLedger) -> None:
        super().__init__(store, stored)
        self._next_entry = 0
        self._is_closed = False  # by us; the end of a ledger that others closed means Fenced
        self._broken: Unavailable | None = None
        self._last: asyncio.Future[None] | None = None

    def submit(self, drafts: Sequence[Draft]) -> Submission:
        self._check_open()
        if self._store.disk.is_full:
            raise Full(f"no room for {len(drafts)} entries in ledger {self.ledger}")
        # Bodies are copied: a caller may reuse its buffer once the entry is answered.
        copies = [draft._replace(body=bytes(draft.body)) for draft in drafts]
        self._last = self._store.enqueue(self, copies)
        first = self._next_entry
        self._next_entry += len(drafts)
        return Submission(first, self._last)

    async def append(self, drafts: Sequence[Draft]) -> int:
        submission = self.submit(drafts)
        await asyncio.shield(submission.durable)
        return submission.first_entry

    async def close(self) -> LedgerEnd:
        self._check_not_fenced()
        self._is_closed = True
        if self._last is not None:
            await asyncio.wait([self._last])
        await asyncio.sleep(0)
        self._check_not_fenced()
        return self._stored.finish()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"ledger {self.ledger} is closed")
        self._check_not_fenced()

    def _check_not_fenced(self) -> None:
        self._store.check_alive()
        if self._broken is not None:
            raise Unavailable(*self._broken.args)
        if self._stored.end is not None and not self._is_closed:
            raise Fenced(f"ledger {self.ledger} was closed by another owner")

    def commit(self, drafts: list[Draft], durable: asyncio.Future[None]) -> None:
        if self._stored.end is not None:
            self._is_closed = False
            durable.set_exception(Fenced(f"ledger {self.ledger} was closed by another owner"))
        else:
            self._stored.extend(drafts)
            durable.set_result(None)

    def keep(self, drafts: list[Draft]) -> None:
        if self._stored.end is None:
            self._stored.extend(drafts)

    def fail(self, kept: list[Draft], durable: asyncio.Future[None]) -> None:
        self.keep(kept)
        self._broken = Unavailable(f"ledger {self.ledger}: the outcome of a commit is unknown")
        durable.set_exception(self._broken)
