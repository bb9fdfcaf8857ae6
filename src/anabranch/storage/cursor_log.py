"""Where acknowledgements become durable: one ledger for all cursors of a managed ledger.

The ledger opens with a snapshot of every cursor (as many entries as it takes); each later entry
holds what changed since. Exactly one write is under way. What is acknowledged meanwhile is merged
into the next one, so a thousand acknowledgements that wait for their receipts cost one entry.

A new ledger takes over when the old one is large, when an owner makes its first change, or when
a write failed: a failed write is never repeated, the snapshot that follows says it all. The order
is create, append the snapshot, compare-and-set the record, and only then answer anybody or delete
the old ledger. A crash in between leaves the old one in force, with everything answered in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from crc32c import crc32c

from anabranch.errors import AnabranchError, Corrupt, Fenced, InvalidInput, Unavailable
from anabranch.runtime.world import Clock
from anabranch.storage.cursor import Cursor, CursorChange
from anabranch.storage.cursor_format import CursorRecord, encode_record, parse_record
from anabranch.storage.ledger import Draft, LedgerEnd, LedgerReader, LedgerStore, LedgerWriter
from anabranch.storage.record_keeper import RecordKeeper, Tenure
from anabranch.storage.trimming import LedgerInfo
from anabranch.topics.positions import EARLIEST, Position

log = logging.getLogger(__name__)

READ_BYTES = 1 << 20
SNAPSHOT_CURSORS_PER_ENTRY = 16
MAX_RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CursorLogConfig:
    # How long an acknowledgement nobody waits for may stay in memory: Pulsar's rate of 1.0.
    flush_seconds: float = 1.0
    # Bytes behind the snapshot at which a new ledger takes over; bounds the time to load.
    max_bytes: int = 4 << 20


@dataclass(slots=True, eq=False)
class LoggedCursor:
    cursor: Cursor
    # No trim goes beyond this: a crash would bring the cursor back here.
    persisted: Position
    is_deleted: bool = False


async def load_cursors(reader: LedgerReader) -> dict[str, LoggedCursor]:
    """Replay a closed cursor ledger."""
    cursors: dict[str, LoggedCursor] = {}
    following = 0
    while following <= reader.last_confirmed:
        entries = await reader.read(following, max_entries=1000, max_bytes=READ_BYTES)
        for entry in entries:
            try:
                record = parse_record(bytes(entry.body))
                if entry.entry == 0 and not record.is_snapshot:
                    raise InvalidInput("the first entry is no snapshot")
            except InvalidInput as error:
                message = f"cursor ledger {reader.ledger} entry {entry.entry}: {error}"
                raise Corrupt(message, ledger=reader.ledger, entry=entry.entry) from error
            _replay(cursors, record)
        following += len(entries)
    return cursors


def _replay(cursors: dict[str, LoggedCursor], record: CursorRecord) -> None:
    for name, change in record.changes.items():
        logged = cursors.get(name)
        if logged is None:
            logged = cursors[name] = LoggedCursor(Cursor(EARLIEST), EARLIEST)
        logged.cursor.apply(change)
        logged.persisted = logged.cursor.mark_delete
    for name in record.deleted:
        cursors.pop(name, None)


class CursorLog:
    def __init__(
        self,
        cursors: dict[str, LoggedCursor],
        *,
        store: LedgerStore,
        keeper: RecordKeeper,
        tenure: Tenure,
        clock: Clock,
        config: CursorLogConfig,
        properties: Callable[[], Mapping[str, str]],
    ) -> None:
        self.cursors = cursors
        self._store = store
        self._keeper = keeper
        self._tenure = tenure
        self._clock = clock
        self._config = config
        self._properties = properties
        self._writer: LedgerWriter | None = None
        self._snapshot_bytes = 0
        self._bytes = 0  # behind the snapshot
        # By name, in the order of the changes, so that equal runs write equal bytes.
        self._dirty: dict[str, None] = {}
        self._deleted: set[str] = set()
        # Marks of cursors whose deletion is not durable yet: a crash would bring them back.
        self._leaving: dict[str, Position] = {}
        self._is_behind = False  # a write failed: only a snapshot can catch up
        self._failures = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._answering: list[asyncio.Future[None]] = []  # those of the write under way
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        tenure.on_end(self._stop)

    def add(self, name: str, cursor: Cursor) -> LoggedCursor:
        """A new cursor. Not there until `persist` has returned."""
        logged = self.cursors[name] = LoggedCursor(cursor, cursor.mark_delete)
        self._deleted.discard(name)
        self._dirty[name] = None
        return logged

    def remove(self, name: str) -> None:
        """Not gone until `persist` has returned."""
        logged = self.cursors.pop(name)
        logged.is_deleted = True
        self._leaving[name] = min(logged.persisted, self._leaving.get(name, logged.persisted))
        self._dirty.pop(name, None)
        self._deleted.add(name)

    def touch(self, name: str) -> None:
        """This cursor changed; written within `flush_seconds` unless somebody asks before."""
        self._dirty[name] = None
        if self._timer is None and self._task is None:
            self._arm(self._config.flush_seconds)

    def floor(self) -> Position | None:
        """What a crash could bring some cursor back to, at worst; None if there are none."""
        marks = [logged.persisted for logged in self.cursors.values()]
        return min([*marks, *self._leaving.values()], default=None)

    async def persist(self) -> None:
        """Return once everything changed before this call is durable."""
        self._tenure.check()
        if not self._is_owing and self._task is None:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._start()
        await waiter

    async def close(self) -> dict[int, LedgerEnd]:
        """Write what is owed and close the ledger; its end, if there was one to close."""
        await self.persist()
        writer, self._writer = self._writer, None
        if writer is None:
            return {}
        return {writer.ledger: await writer.close()}

    @property
    def _is_owing(self) -> bool:
        return bool(self._dirty or self._deleted or self._is_behind)

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None and self._tenure.error is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    def _stop(self, error: AnabranchError) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._answer(error, self._answering)
        self._answer(error, self._waiters)
        self._waiters = []

    async def _write_all(self) -> None:
        error: AnabranchError | None = None
        try:
            # Once because it is due; then only for those who wait. The rest has time until the
            # timer, or a stream of acknowledgements would keep the disk busy for nobody.
            while True:
                self._answering, self._waiters = self._waiters, []
                error = await self._try_write()
                self._answer(error, self._answering)
                if error is not None or not self._waiters:
                    break
        finally:
            self._task = None
            self._answer(Unavailable("the write of cursors was given up"), self._answering)
        if self._tenure.error is not None:
            self._stop(self._tenure.error)
        elif self._is_owing and self._timer is None:
            delay = self._config.flush_seconds * 2 ** min(self._failures, 10)
            self._arm(min(delay, MAX_RETRY_SECONDS))

    async def _try_write(self) -> AnabranchError | None:
        try:
            await self._write()
        except Fenced as error:
            self._tenure.end(error)
            return error
        except AnabranchError as error:
            self._failures += 1
            self._is_behind = True
            self._writer = None
            if self._tenure.error is None:
                log.warning("cursors not written ledger=%s error=%r", self._keeper.name, error)
            return error
        self._failures = 0
        return None

    async def _write(self) -> None:
        self._tenure.check()
        if not self._is_owing:
            return
        limit = max(self._config.max_bytes, 2 * self._snapshot_bytes)
        if self._writer is None or self._is_behind or self._bytes > limit:
            await self._roll()
        else:
            await self._append_changes(self._writer)

    async def _append_changes(self, writer: LedgerWriter) -> None:
        record = self._take_changes()
        if not record.changes and not record.deleted:
            return
        draft = self._draft(record)
        self._bytes += len(draft.body)
        await writer.append([draft])
        self._note_persisted(record.changes, record.deleted)

    def _take_changes(self) -> CursorRecord:
        changes = {}
        for name in self._dirty:
            change = self.cursors[name].cursor.take_change()
            if change is not None:
                changes[name] = change
        deleted = tuple(sorted(self._deleted))
        self._dirty.clear()
        self._deleted.clear()
        return CursorRecord(changes, deleted)

    async def _roll(self) -> None:
        # From here on what was taken out of the cursors is nowhere else, until the end.
        self._is_behind = True
        self._take_changes()
        # Also those whose deletion went into a write that failed: the snapshot lacks them all.
        leaving = list(self._leaving)
        states = {name: logged.cursor.state() for name, logged in self.cursors.items()}
        old_writer, self._writer = self._writer, None
        drafts = [self._draft(record) for record in _snapshot(states)]
        writer = await self._store.create(self._properties())
        await writer.append(drafts)
        old = self._keeper.record.cursor_ledger
        await self._keeper.update(lambda r: replace(r, cursor_ledger=LedgerInfo(writer.ledger)))
        self._writer = writer
        self._snapshot_bytes = sum(len(draft.body) for draft in drafts)
        self._bytes = 0
        self._is_behind = False
        self._note_persisted(states, leaving)
        if old is not None:
            await self._drop(old.ledger, old_writer)

    async def _drop(self, ledger: int, writer: LedgerWriter | None) -> None:
        """The new ledger is in force whatever happens here; a leftover is garbage, found later."""
        try:
            if writer is not None:
                await writer.close()
            await self._store.delete(ledger)
        except AnabranchError as error:
            log.warning("old cursor ledger left behind ledger=%d error=%r", ledger, error)

    def _note_persisted(self, changes: Mapping[str, CursorChange], deleted: Iterable[str]) -> None:
        for name in deleted:
            self._leaving.pop(name, None)
        for name, change in changes.items():
            logged = self.cursors.get(name)
            # Deleted and made anew, or sought back, while the write was under way: what was
            # written is older than what its trim limit must be.
            if logged is not None and change.mark_delete <= logged.cursor.mark_delete:
                logged.persisted = change.mark_delete

    def _draft(self, record: CursorRecord) -> Draft:
        body = encode_record(record)
        return Draft(body, crc32c(body), time_ms=self._clock.wall_ms())

    @staticmethod
    def _answer(error: AnabranchError | None, waiters: Iterable[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(type(error)(*error.args))


def _snapshot(states: Mapping[str, CursorChange]) -> list[CursorRecord]:
    names = list(states)
    records = []
    for at in range(0, max(len(names), 1), SNAPSHOT_CURSORS_PER_ENTRY):
        chunk = names[at : at + SNAPSHOT_CURSORS_PER_ENTRY]
        records.append(CursorRecord({name: states[name] for name in chunk}, is_snapshot=True))
    return records
