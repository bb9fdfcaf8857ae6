"""What both ways of delivering share: a task that is woken, reads, and hands out.

Reading ahead of what can be sent would only fill memory, so a turn reads about as much as was
asked for, within bounds, and a connection that does not keep up counts as asking for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from anabranch.broker.consumer import Consumer
from anabranch.broker.dispatch import NO_BUDGET
from anabranch.broker.dispatch_limits import NO_LIMITS, DispatchLimits
from anabranch.broker.rates import RateMeter
from anabranch.errors import AnabranchError
from anabranch.storage.cursor import encode_ack_set
from anabranch.storage.ledger import Entry
from anabranch.storage.managed_cursors import ManagedCursor
from anabranch.storage.managed_ledger import ManagedLedger

log = logging.getLogger(__name__)

READ_ENTRIES = 500
READ_BYTES = 1 << 20
# After a read failed: long enough not to spin, short enough not to be noticed.
RETRY_SECONDS = 0.5


class Surrounds(Protocol):
    """What a delivery needs of its subscription and topic."""

    @property
    def ledger(self) -> ManagedLedger: ...

    @property
    def cursor(self) -> ManagedCursor: ...

    @property
    def partition(self) -> int: ...

    @property
    def meter(self) -> RateMeter: ...

    @property
    def limits(self) -> DispatchLimits: ...

    @property
    def title(self) -> str: ...

    def now_seconds(self) -> float: ...

    def reached_end(self) -> None: ...


class Pump:
    """Runs `turn` whenever it was woken, until that says there is nothing more to do."""

    def __init__(self, around: Surrounds) -> None:
        self.around = around
        self._wake = asyncio.Event()
        self._throttle: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._run(), name=f"deliver {around.title}")

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._task.cancel()
        if self._throttle is not None:
            self._throttle.cancel()

    async def turn(self) -> bool:
        """Send some; whether it is worth going on at once."""
        raise NotImplementedError

    def _may_send(self) -> bool:
        """Whether the limits let anything pass now; if not, this is woken when they do."""
        limits = self.around.limits
        if limits is NO_LIMITS:
            return True
        wait = limits.wait_seconds(self.around.now_seconds())
        if wait > 0 and (self._throttle is None or self._throttle.when() <= _loop_time()):
            self._throttle = asyncio.get_running_loop().call_later(wait, self.wake)
        return wait <= 0

    def budget(self) -> tuple[int, int]:
        """Messages and bytes for one turn."""
        limits = self.around.limits
        if limits is NO_LIMITS:
            return NO_BUDGET, READ_BYTES
        messages, size_bytes = limits.room(self.around.now_seconds())
        return min(messages, NO_BUDGET), min(size_bytes, READ_BYTES)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._may_send() and await self.turn():
                    self._wake.set()
                    # A busy subscription must not keep the loop from its sockets.
                    await asyncio.sleep(0)
            except AnabranchError as error:
                log.warning("delivery paused subscription=%s error=%r", self.around.title, error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()
            except Exception:
                log.exception("delivery failed subscription=%s", self.around.title)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def left_of(entry: Entry, bits: int | None) -> int:
    """Messages of an entry not acknowledged yet."""
    return entry.messages if bits is None else bits.bit_count()


def deliver(
    around: Surrounds,
    consumer: Consumer,
    entry: Entry,
    bits: int | None,
    redelivery_count: int = 0,
) -> None:
    """`bits` are the messages of a batch that are left, None if all are."""
    consumer.deliver(
        entry,
        partition=around.partition,
        redelivery_count=redelivery_count,
        ack_set=None if bits is None else encode_ack_set(bits),
    )


def note_delivered(around: Surrounds, consumer: Consumer, messages: int, size_bytes: int) -> None:
    now_seconds = around.now_seconds()
    around.meter.record(now_seconds, messages, size_bytes)
    consumer.meter.record(now_seconds, messages, size_bytes)
    if around.limits is not NO_LIMITS:
        around.limits.charge(now_seconds, messages, size_bytes)
    consumer.session.flush_soon()
