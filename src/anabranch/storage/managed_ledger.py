"""A managed ledger: the one log of a topic or segment, for as long as this process owns it.

It is a list of engine ledgers that roll over, one cursor ledger, and a record that names them
(managed_record.py). What it promises, whatever the number of processes that believe they own it:

- an answered submission is read back, in order, by every later owner, at the same position;
- an answered acknowledgement (`persist`, `seek`, creation, deletion) is never forgotten;
- of several owners only the last one to load is ever answered. It recovered the open ledgers
  before it served, so older ones cannot append; it moved the record's version, so they cannot
  roll, trim or seal. The first refusal an old owner meets ends it for good, with `Fenced`.

What a crash leaves behind: between a ledger's creation and the compare-and-set, or between that
and a deletion, an unreferenced ledger (garbage.py). Acknowledgements without a receipt of the
last second are lost, i.e. their entries are delivered again. Nothing else.

The parts: appender.py writes, chain_reader.py reads, managed_cursors.py and cursor_log.py keep
cursors, record_keeper.py keeps the record; trimming.py decides what goes. This file only loads
them, connects them and ends them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from anabranch.errors import AnabranchError, BadVersion, Closed, Fenced, NotFound, Sealed, Stale
from anabranch.runtime.world import Clock
from anabranch.storage.appender import Appender, RollConfig
from anabranch.storage.chain_reader import ChainReader
from anabranch.storage.cursor_log import CursorLog, CursorLogConfig, LoggedCursor, load_cursors
from anabranch.storage.garbage import ledger_properties, referenced_ledgers
from anabranch.storage.ledger import Draft, Entry, LedgerEnd, LedgerStore
from anabranch.storage.managed_cursors import ManagedCursor, ManagedCursors
from anabranch.storage.managed_record import ManagedLedgerRecords, ManagedRecord
from anabranch.storage.record_keeper import RecordKeeper, Tenure
from anabranch.storage.spans import LATEST, Spans
from anabranch.storage.trimming import LedgerInfo, LedgerPolicy, decide_trim
from anabranch.topics.positions import EARLIEST, Position

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    roll: RollConfig = field(default_factory=RollConfig)
    cursors: CursorLogConfig = field(default_factory=CursorLogConfig)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a managed ledger needs of its process."""

    store: LedgerStore
    records: ManagedLedgerRecords
    clock: Clock
    owner: str
    config: ManagedLedgerConfig = field(default_factory=ManagedLedgerConfig)


async def load_managed_ledger(
    name: str,
    around: Surroundings,
    *,
    is_created: bool = True,
    properties: Mapping[str, str] | None = None,
    policy: LedgerPolicy | None = None,
) -> ManagedLedger:
    """Take it over: recover what is open, raise the epoch, then serve.

    BadVersion: another took it at the same time; start over if it is still yours to take. With
    `is_created` one that does not exist is made, with `properties` and `policy`; else NotFound.
    """
    found = await around.records.load(name)
    if found is None:
        if not is_created:
            raise NotFound(f"no managed ledger {name}")
        fresh = ManagedRecord(properties=properties or {}, policy=policy or LedgerPolicy())
        found = fresh, -1
    record, version = found
    ends = await _unless_overtaken(name, around, version, _recover_open(record, around.store))
    record = record.with_ends(ends, around.clock.wall_ms())
    record = replace(record, epoch=record.epoch + 1, owner=around.owner)
    version = await around.records.save(name, record, version)
    loading = _load_cursors(record, around.store)
    cursors = await _unless_overtaken(name, around, version, loading)
    managed = ManagedLedger(name, around, record, version, cursors)
    await managed.cursors.mend_names()
    log.info(
        "loaded ledger=%s epoch=%d ledgers=%d recovered=%d cursors=%d",
        name, record.epoch, len(record.ledgers), len(ends), len(cursors),
    )  # fmt: skip
    return managed


async def _recover_open(record: ManagedRecord, store: LedgerStore) -> dict[int, LedgerEnd]:
    unclosed = record.unclosed
    if record.cursor_ledger is not None and record.cursor_ledger.is_open:
        unclosed = [*unclosed, record.cursor_ledger]
    return {info.ledger: await store.recover(info.ledger) for info in unclosed}


async def _load_cursors(record: ManagedRecord, store: LedgerStore) -> dict[str, LoggedCursor]:
    if record.cursor_ledger is None:
        return {}
    return await load_cursors(await store.open(record.cursor_ledger.ledger))


async def _unless_overtaken(
    name: str, around: Surroundings, version: int, work: Coroutine[Any, Any, T]
) -> T:
    """A ledger that is gone because a later owner needs it no more is no `NotFound` of ours."""
    try:
        return await work
    except NotFound as error:
        found = await around.records.load(name)
        if found is None or found[1] != version:
            raise BadVersion(f"{name}: another owner took it over meanwhile: {error}") from error
        raise


class ManagedLedger:
    def __init__(
        self,
        name: str,
        around: Surroundings,
        record: ManagedRecord,
        version: int,
        cursors: dict[str, LoggedCursor],
    ) -> None:
        self.name = name
        self._around = around
        self._tenure = Tenure()
        self._keeper = RecordKeeper(name, around.records, record, version, self._tenure)
        self._appender = Appender(
            store=around.store,
            keeper=self._keeper,
            tenure=self._tenure,
            clock=around.clock,
            config=around.config.roll,
            properties=partial(self._ledger_properties, "entries"),
        )
        self._cursor_log = CursorLog(
            cursors,
            store=around.store,
            keeper=self._keeper,
            tenure=self._tenure,
            clock=around.clock,
            config=around.config.cursors,
            properties=partial(self._ledger_properties, "cursors"),
        )
        spans = self._appender.spans
        self._reader = ChainReader(around.store, spans, lambda: self._appender.tail)
        self.cursors = ManagedCursors(
            name,
            log=self._cursor_log,
            records=around.records,
            tenure=self._tenure,
            spans=spans,
            epoch=record.epoch,
        )

    def __repr__(self) -> str:
        state = repr(self._tenure.error) if self._tenure.error else "owned"
        return (
            f"ManagedLedger({self.name!r}, epoch {self.epoch}, to {self.last_confirmed}, {state})"
        )

    def _ledger_properties(self, kind: str) -> Mapping[str, str]:
        return ledger_properties(self.name, kind, self.epoch, self._around.clock.wall_ms())

    # What is there

    @property
    def epoch(self) -> int:
        return self.record.epoch

    @property
    def record(self) -> ManagedRecord:
        """As last stored by this owner; the open ledger counts as empty in it."""
        return self._keeper.record

    @property
    def policy(self) -> LedgerPolicy:
        return self.record.policy

    @property
    def is_sealed(self) -> bool:
        return self.record.is_sealed

    @property
    def ended_by(self) -> AnabranchError | None:
        """Why this instance does nothing any more, None while it does."""
        return self._tenure.error

    def on_end(self, listener: Callable[[AnabranchError], None]) -> None:
        """Call it once, as soon as `ended_by` is known."""
        self._tenure.on_end(listener)

    @property
    def first_position(self) -> Position | None:
        """The oldest entry there is."""
        return self.spans().first_from(EARLIEST)

    @property
    def last_confirmed(self) -> Position:
        """The last durable entry; without any, the place just before the first."""
        return self.spans().last

    def spans(self) -> Spans:
        """All durable entries, as a value."""
        return self._appender.spans()

    def ledgers(self) -> list[LedgerInfo]:
        """With the present size of the one that grows."""
        return self._appender.ledgers()

    # Entries

    def submit(self, drafts: Sequence[Draft]) -> asyncio.Future[Position]:
        """Append; the future has the position of the first draft once all are durable.

        The others follow it in the same ledger. Futures of one managed ledger resolve in the
        order of their calls. Raises, or fails with: Sealed, Closed (unloaded), Fenced (another
        owner), Full, Unavailable. After a failure the outcome is unknown: make the producer send
        again, from its first unanswered message on.
        """
        return self._appender.submit(drafts)

    async def append(self, drafts: Sequence[Draft]) -> Position:
        return await self._appender.submit(drafts)

    async def read(self, position: Position, *, max_entries: int, max_bytes: int) -> list[Entry]:
        """Durable entries from `position` on, or from the first one behind it."""
        return await self._reader.read(position, max_entries=max_entries, max_bytes=max_bytes)

    async def wait_for_entries(self, after: Position) -> None:
        """Until there is an entry behind `after`; Sealed once there can never be one."""
        while self.spans().following(after) is None:
            if self.is_sealed:
                raise Sealed(f"{self.name} is sealed at {self.last_confirmed}")
            await self._appender.wait_for_progress()

    async def find_by_time(self, time_ms: int, start: Position = EARLIEST) -> Position | None:
        """The first entry published at `time_ms` or later, leaving out ledgers before `start`'s."""
        return await self._reader.find_by_time(time_ms, start)

    # Cursors

    async def open_cursor(
        self,
        name: str,
        start: Position = LATEST,
        *,
        is_durable: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> ManagedCursor:
        """`start` is the first entry a new cursor has before it; EARLIEST and LATEST will do."""
        return await self.cursors.open(name, start, is_durable=is_durable, properties=properties)

    async def delete_cursor(self, name: str) -> None:
        await self.cursors.delete(name)

    def is_drained(self, name: str) -> bool:
        """Sealed, and everything acknowledged by this subscription. NotFound without a cursor."""
        cursor = self.cursors.get(name)
        if cursor is None:
            raise NotFound(f"no cursor {name} on {self.name}")
        return self.is_sealed and cursor.backlog == 0

    # The life of the whole

    async def accept_controller(self, epoch: int) -> None:
        """Remember who gave an order; Stale if a controller of a later epoch has been here.

        To be asked before anything is created, sealed or deleted on a controller's behalf.
        """

        def accept(record: ManagedRecord) -> ManagedRecord:
            known = record.controller_epoch
            if epoch < known:
                raise Stale(f"{self.name}: order of controller epoch {epoch}, already at {known}")
            return replace(record, controller_epoch=epoch)

        await self._keeper.update(accept)

    async def seal(self, *, controller_epoch: int | None = None) -> Position:
        """Take no more entries, for ever; the last one. Idempotent.

        Stale if a controller gives the order, and one of a later epoch has been here.
        """
        async with self._appender.structure:
            if controller_epoch is not None:
                await self.accept_controller(controller_epoch)
            record = await self._keeper.refresh()
            ends = {} if record.is_sealed else await self._appender.end_current()
            now_ms = max(self._around.clock.wall_ms(), 1)
            await self._keeper.update(
                lambda record: replace(
                    record.with_ends(ends, now_ms),
                    sealed_at_ms=record.sealed_at_ms or now_ms,
                )
            )
            self._appender.ended()
            log.info("sealed ledger=%s at=%s", self.name, self.last_confirmed)
            return self.last_confirmed

    async def set_policy(self, policy: LedgerPolicy) -> None:
        await self._keeper.update(lambda record: replace(record, policy=policy))

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        await self._keeper.update(lambda record: replace(record, properties=dict(properties)))

    async def update_properties(
        self, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """What `change` makes of them; it may be called again if another was faster."""
        await self._keeper.update(
            lambda record: replace(record, properties=dict(change(record.properties)))
        )

    async def trim(self) -> list[int]:
        """Drop the ledgers that nobody needs any more; their ids."""
        async with self._appender.structure:
            record = await self._keeper.refresh()
            floor = self._cursor_log.floor()
            going = decide_trim(self.ledgers(), record.policy, floor, self._around.clock.wall_ms())
            if going:
                await self._keeper.update(lambda record: record.without(going))
                await self._delete_ledgers(going)
            return going

    async def unload(self) -> None:
        """Stop in good order: everything written and closed, so the next owner recovers nothing.

        From the first moment nothing more is taken. If it fails, ask again, or `abandon`.
        """
        self._tenure.check()
        gone = Closed(f"{self.name} was unloaded from {self._around.owner}")
        self._appender.refuse(gone)
        await self._appender.settle()
        async with self._appender.structure:
            ends = await self._appender.end_current()
            ends |= await self._cursor_log.close()
            now_ms = self._around.clock.wall_ms()
            await self._keeper.update(lambda r: replace(r.with_ends(ends, now_ms), owner=""))
            self._appender.ended()
        self._tenure.end(gone)

    def abandon(self, reason: str) -> None:
        """Stop at once and touch nothing: the ownership is lost. What waits fails with Fenced."""
        self._tenure.end(Fenced(f"{self.name} was given up: {reason}"))

    async def delete(self) -> None:
        """The record first, then the ledgers: a crash in between leaves garbage, not a ruin."""
        gone = Closed(f"{self.name} was deleted")
        async with self._appender.structure:
            record = await self._keeper.refresh()
            await self._keeper.delete()
            self._tenure.end(gone)
            await self._delete_ledgers(sorted(referenced_ledgers(record)))

    async def _delete_ledgers(self, going: Sequence[int]) -> None:
        for ledger in going:
            self._reader.forget(ledger)
            try:
                await self._around.store.delete(ledger)
            except AnabranchError as error:
                log.warning("ledger left behind ledger=%d error=%r", ledger, error)
        log.info("dropped ledger=%s ledgers=%s", self.name, list(going))
