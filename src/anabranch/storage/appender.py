"""Appending to a managed ledger: one engine ledger after another, one owner.

A ledger is made when there is something to append, and ends when it is full or old. In between
(close, create, compare-and-set the record) submissions wait in a queue of bounded size, in order;
one submission never spans two ledgers.

A submission that the engine refuses (no room on disk) was not begun, and its caller hears so at
once. If only too much is under way it waits in the same queue, so that whoever reads from a socket
stops reading instead of failing.

A failed append is another matter, for its outcome is unknown. Its ledger is given up: everything
that waits for it fails, the ledger is recovered, which finds what of it did reach the disk, and
only then does a new one take entries. Nothing is appended elsewhere on a caller's behalf: the
producer sends it again, and its sequence ids remove the double. What was queued behind fails too,
and until the recovery is through submissions are refused, so that a producer that pipelines cannot
overtake its own failed message.

States: `_open` set = appending; else queueing behind a switch, or idle with no ledger at all. A
switch (`_change_ledgers`) may fail at any step and be begun again later: every step of it first
looks at what the record says and what is closed already.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from anabranch.errors import AnabranchError, Busy, Closed, Fenced, Sealed, Unavailable
from anabranch.runtime.world import Clock
from anabranch.storage.ledger import Draft, LedgerEnd, LedgerReader, LedgerStore, LedgerWriter
from anabranch.storage.managed_record import ManagedRecord
from anabranch.storage.record_codec import HEADER_BYTES
from anabranch.storage.record_keeper import RecordKeeper, Tenure
from anabranch.storage.spans import Spans
from anabranch.storage.trimming import LedgerInfo
from anabranch.topics.positions import Position

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RollConfig:
    max_entries: int = 50_000
    max_bytes: int = 2 << 30
    max_age_seconds: float = 4 * 3600.0
    min_age_seconds: float = 0.0  # a younger ledger goes on, however full
    max_queued_bytes: int = 64 << 20


@dataclass(slots=True, eq=False)
class _OpenLedger:
    writer: LedgerWriter
    began_seconds: float
    entries: int = 0  # submitted, durable or not
    size_bytes: int = 0
    is_given_up: bool = False
    age_timer: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Group:
    """Submissions that one commit answers: one callback for all of them."""

    ledger: _OpenLedger
    durable: asyncio.Future[None]
    futures: list[asyncio.Future[Position]] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)


class _Queued(NamedTuple):
    drafts: Sequence[Draft]
    size_bytes: int
    future: asyncio.Future[Position]


class Appender:
    def __init__(
        self,
        *,
        store: LedgerStore,
        keeper: RecordKeeper,
        tenure: Tenure,
        clock: Clock,
        config: RollConfig,
        properties: Callable[[], Mapping[str, str]],
    ) -> None:
        # Held over every sequence of steps that ends in a changed list of ledgers.
        self.structure = asyncio.Lock()
        self.tail: LedgerReader | None = None  # the ledger the record calls open, if it is ours
        self._store = store
        self._keeper = keeper
        self._tenure = tenure
        self._clock = clock
        self._config = config
        self._properties = properties
        self._open: _OpenLedger | None = None
        self._group: _Group | None = None
        # Not answered yet, in order: a set would make runs differ that should be the same.
        self._groups: dict[_Group, None] = {}
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._ending: _OpenLedger | None = None  # ours, and to be closed before another opens
        self._switch: asyncio.Task[None] | None = None
        self._feeding: asyncio.Task[None] | None = None  # waits for the engine to have room
        self._is_switch_due = False
        self._is_renewing = False  # whether the due switch makes a new ledger even if idle
        self._is_recovering = False
        self._refusal: AnabranchError | None = None  # why no more is taken, for good
        self._waiters: list[asyncio.Future[None]] = []
        self._spans = Spans.of([])
        self._spans_of: ManagedRecord | None = None
        tenure.on_end(self._stop)

    # What is there

    def spans(self) -> Spans:
        """Everything durable, now."""
        record = self._keeper.record
        if record is not self._spans_of:
            self._spans_of = record
            sizes = [(info.ledger, info.entries) for info in record.ledgers]
            self._spans = Spans.of(sizes, record.trimmed_to)
        tail, spans = self.tail, self._spans
        if tail is None or not record.ledgers or record.ledgers[-1] != LedgerInfo(tail.ledger):
            return spans
        total = spans.before[-1] + tail.last_confirmed + 1
        if total != spans.total:
            spans = self._spans = spans.with_last(tail.last_confirmed + 1)
        return spans

    def ledgers(self) -> list[LedgerInfo]:
        """As in the record, but with the present size of the one that grows."""
        infos = list(self._keeper.record.ledgers)
        if self._open is not None and infos and infos[-1].ledger == self._open.writer.ledger:
            entries, size = self._open.entries, self._open.size_bytes
            infos[-1] = infos[-1]._replace(entries=entries, size_bytes=size)
        return infos

    async def wait_for_progress(self) -> None:
        """Until something more is durable, or this instance ends (then its error is raised)."""
        self._tenure.check()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    # Appending

    def submit(self, drafts: Sequence[Draft]) -> asyncio.Future[Position]:
        self._tenure.check()
        if self._refusal is not None:
            raise type(self._refusal)(*self._refusal.args)
        assert drafts, "nothing to append"
        size = sum([len(draft.body) for draft in drafts])
        ledger = self._open
        if ledger is None:
            return self._enqueue(drafts, size)
        if self._queue:  # never past those that wait for room
            return self._hold(drafts, size)
        future: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        try:
            self._append(ledger, drafts, size, future)
        except Closed:
            # The engine wants no more in this one. It took nothing, so it may go elsewhere.
            return self._enqueue(drafts, size)
        except Busy:
            return self._hold(drafts, size)
        return future

    def _hold(self, drafts: Sequence[Draft], size: int) -> asyncio.Future[Position]:
        """Queue it behind an open ledger, until the engine has room."""
        future = self._line_up(drafts, size)
        self._start_feeding()
        return future

    def _append(
        self,
        ledger: _OpenLedger,
        drafts: Sequence[Draft],
        size: int,
        future: asyncio.Future[Position],
    ) -> None:
        try:
            first, durable = ledger.writer.submit(drafts)
        except Fenced as error:
            self._tenure.end(error)
            raise
        group = self._group
        if group is None or group.durable is not durable:
            group = self._group = _Group(ledger, durable)
            self._groups[group] = None
            durable.add_done_callback(partial(self._settle, group))
        group.futures.append(future)
        group.positions.append(Position(ledger.writer.ledger, first))
        ledger.entries = first + len(drafts)
        ledger.size_bytes += size
        if self._is_full(ledger):
            self._start_switch()

    def _is_full(self, ledger: _OpenLedger) -> bool:
        config = self._config
        if ledger.entries < config.max_entries and ledger.size_bytes < config.max_bytes:
            return False
        return self._clock.monotonic() >= ledger.began_seconds + config.min_age_seconds

    def _settle(self, group: _Group, durable: asyncio.Future[None]) -> None:
        self._groups.pop(group, None)
        error = durable.exception()
        if error is None:
            for future, position in zip(group.futures, group.positions, strict=True):
                if not future.done():
                    future.set_result(position)
            self._wake()
            return
        if not isinstance(error, AnabranchError):
            error = Unavailable(f"ledger {group.ledger.writer.ledger}: {error!r}")
        if isinstance(error, Fenced) and group.ledger.is_given_up:
            # Fenced by our own recovery, which is no news about the owner.
            error = Unavailable(*error.args)
        _fail_futures(group.futures, error)
        self._fail(group.ledger, error)

    def _fail(self, ledger: _OpenLedger, error: AnabranchError) -> None:
        if isinstance(error, Fenced):
            self._tenure.end(error)
        elif not ledger.is_given_up:
            self._give_up(ledger, error)
            if ledger is self._open:
                self._start_switch(is_renewing=False)

    def _give_up(self, ledger: _OpenLedger, error: AnabranchError) -> None:
        ledger.is_given_up = True
        number, name = ledger.writer.ledger, self._keeper.name
        log.warning("giving up ledger=%d of=%s error=%r", number, name, error)
        self._is_recovering = True
        self._fail_queue(Unavailable(f"behind a failed append: {error}"))

    def _enqueue(self, drafts: Sequence[Draft], size: int) -> asyncio.Future[Position]:
        """Queue it until there is a ledger."""
        future = self._line_up(drafts, size)
        if self._switch is None or self._open is not None:
            self._start_switch()
        return future

    def _line_up(self, drafts: Sequence[Draft], size: int) -> asyncio.Future[Position]:
        if self._keeper.record.is_sealed:
            raise Sealed(f"{self._keeper.name} is sealed at {self.spans().last}")
        if self._is_recovering:
            raise Unavailable(f"{self._keeper.name}: recovering from a failed append")
        if self._queued_bytes + size > self._config.max_queued_bytes and self._queue:
            raise Unavailable(
                f"{self._keeper.name}: {self._queued_bytes} bytes wait for a new ledger, the limit "
                f"is {self._config.max_queued_bytes}"
            )
        future: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._queue.append(_Queued(drafts, size, future))
        self._queued_bytes += size
        return future

    # Changing ledgers

    def _start_switch(self, *, is_renewing: bool = True) -> None:
        """From here on submissions queue, until another ledger is in force."""
        self._detach()
        self._is_switch_due = True
        self._is_renewing |= is_renewing
        if self._switch is None and self._tenure.error is None:
            self._switch = asyncio.get_running_loop().create_task(self._run_switch())

    def _detach(self) -> _OpenLedger | None:
        if self._open is not None:
            if self._open.age_timer is not None:
                self._open.age_timer.cancel()
            self._open, self._ending = None, self._open
        return self._ending

    async def _run_switch(self) -> None:
        try:
            while self._is_switch_due or (self._queue and self._open is None):
                self._is_switch_due = False
                async with self.structure:
                    await self._change_ledgers()
        except AnabranchError as error:
            self._fail_queue(error)
        except Exception as error:
            log.exception("changing ledgers of=%s", self._keeper.name)
            self._fail_queue(Unavailable(f"changing ledgers failed: {error!r}"))
        finally:
            self._switch = None
            self._is_switch_due = self._is_renewing = self._is_recovering = False

    async def _change_ledgers(self) -> None:
        ends = await self.end_current()
        record = self._keeper.record
        if record.is_sealed:
            raise Sealed(f"{self._keeper.name} is sealed at {self.spans().last}")
        is_renewing, self._is_renewing = self._is_renewing or bool(self._queue), False
        writer = await self._store.create(self._properties()) if is_renewing else None
        now_ms = self._clock.wall_ms()

        def change(record: ManagedRecord) -> ManagedRecord:
            record = record.with_ends(ends, now_ms)
            return record if writer is None else record.with_ledger(writer.ledger)

        await self._keeper.update(change)
        self._tenure.check()
        self.ended()
        if writer is not None:
            self._begin(writer)

    async def end_current(self) -> dict[int, LedgerEnd]:
        """Close what is being written. The ends of all ledgers that the record calls open."""
        ledger = self._detach()
        ends: dict[int, LedgerEnd] = {}
        if ledger is not None and not ledger.is_given_up:
            try:
                ends[ledger.writer.ledger] = await ledger.writer.close()
            except Fenced as error:
                self._tenure.end(error)
                raise
            except AnabranchError as error:
                if not ledger.is_given_up:
                    self._give_up(ledger, error)
        try:
            record = await self._keeper.refresh()
            for info in record.unclosed:
                if info.ledger not in ends:
                    ends[info.ledger] = await self._store.recover(info.ledger)
        except AnabranchError:
            self._is_recovering = False  # the next submission tries again
            raise
        return ends

    def ended(self) -> None:
        """The record knows the ends that `end_current` returned."""
        self.tail = self._ending = None
        self._is_recovering = False
        self._wake()

    def _begin(self, writer: LedgerWriter) -> None:
        ledger = self._open = _OpenLedger(writer, self._clock.monotonic())
        self.tail = writer
        loop = asyncio.get_running_loop()
        ledger.age_timer = loop.call_later(self._config.max_age_seconds, self._come_of_age, ledger)
        self._feed(ledger)

    def _feed(self, ledger: _OpenLedger) -> None:
        """What is queued, as far as there is room."""
        # A full ledger detaches itself; what is left waits for the next.
        while self._queue and self._open is ledger:
            drafts, size, future = self._queue[0]
            try:
                self._append(ledger, drafts, size, future)
            except Busy:
                self._start_feeding()
                return
            except AnabranchError as error:
                if isinstance(error, Closed):  # which would pass for the end of all ledgers
                    number = ledger.writer.ledger
                    error = Unavailable(f"ledger {number} was closed at once: {error}")
                # A smaller one behind it might be taken, and overtake it.
                self._fail_queue(error)
            else:
                self._queue.popleft()
                self._queued_bytes -= size

    def _start_feeding(self) -> None:
        if self._feeding is None:
            self._feeding = asyncio.get_running_loop().create_task(self._run_feeding())

    async def _run_feeding(self) -> None:
        """Ends with the queue, or when a change of ledgers takes it over."""
        try:
            while self._queue and self._open is not None:
                await self._store.wait_for_room(_room_for(self._queue[0]))
                if self._open is not None:
                    self._feed(self._open)
                await asyncio.sleep(0)  # should the two ever disagree, others still run
        finally:
            self._feeding = None
        if self._queue and self._switch is None:
            # The ledger they waited behind was ended, by a seal say: the switch finds out.
            self._start_switch()

    def _come_of_age(self, ledger: _OpenLedger) -> None:
        # No new one until there is something to append: an idle topic costs nothing.
        if ledger is self._open:
            self._start_switch(is_renewing=False)

    # Ending

    def refuse(self, error: AnabranchError) -> None:
        """Take no more submissions; those taken go on."""
        self._refusal = error
        if self._open is not None:
            self._detach()
            # Not begun, and no ledger to begin with.
            self._fail_queue(Unavailable(f"{self._keeper.name}: {error}"))

    async def settle(self) -> None:
        """Until no submission is queued or under way."""
        while (task := self._switch or self._feeding) is not None:
            await asyncio.wait([task])
        if self._groups:
            await asyncio.wait([group.durable for group in self._groups])

    def _stop(self, error: AnabranchError) -> None:
        self._detach()
        if self._switch is not None and self._switch is not asyncio.current_task():
            self._switch.cancel()
        if self._feeding is not None:
            self._feeding.cancel()
        self._fail_queue(error)
        groups, self._groups = self._groups, {}
        for group in groups:
            _fail_futures(group.futures, error)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(type(error)(*error.args))

    def _fail_queue(self, error: AnabranchError) -> None:
        queue, self._queue = self._queue, deque()
        self._queued_bytes = 0
        _fail_futures([queued.future for queued in queue], error)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _room_for(queued: _Queued) -> int:
    return queued.size_bytes + HEADER_BYTES * len(queued.drafts)


def _fail_futures(futures: Sequence[asyncio.Future[Position]], error: AnabranchError) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(type(error)(*error.args))
