"""Exclusive and Failover: one consumer is active and gets everything, in order.

State is one position, the next to read. What was sent and not acknowledged is not remembered: when
the consumer changes or asks again, reading starts over behind the mark-delete position and skips
what was acknowledged since.
"""

from __future__ import annotations

from typing import Protocol

from anabranch.broker.compaction import kept_bits
from anabranch.broker.consumer import Consumer
from anabranch.broker.delivery import (
    READ_ENTRIES,
    Pump,
    Surrounds,
    deliver,
    left_of,
    note_delivered,
)
from anabranch.broker.dispatch import plan_single
from anabranch.broker.failover import Candidate, elect
from anabranch.broker.redelivery import RedeliveryCounts
from anabranch.storage.ledger import Entry
from anabranch.topics.positions import EARLIEST, Position


class Reader(Protocol):
    async def __call__(
        self, position: Position, *, max_entries: int, max_bytes: int
    ) -> list[Entry]: ...


class SingleDelivery(Pump):
    def __init__(
        self,
        around: Surrounds,
        topic: str,
        read: Reader,
        *,
        is_failover: bool,
        is_compacted: bool,
        max_message_bytes: int,
    ) -> None:
        self.consumers: dict[int, Consumer] = {}  # by the id of their receiver
        self.active: Consumer | None = None
        self.counts = RedeliveryCounts()
        self._topic = topic
        self._read = read
        self._is_failover = is_failover
        self._is_compacted = is_compacted
        self._max_message_bytes = max_message_bytes
        self._next = self._start(around)
        self._generation = 0  # a read that began under an older one is thrown away
        super().__init__(around)

    def attach(self, consumer: Consumer) -> None:
        self.consumers[consumer.receiver.consumer] = consumer
        self._elect(joined=consumer.receiver.consumer)

    def detach(self, consumer: Consumer) -> None:
        if self.consumers.pop(consumer.receiver.consumer, None) is not None:
            self._elect()

    def _elect(self, joined: int | None = None) -> None:
        before = self.active
        election = elect(
            [
                Candidate(each.receiver.priority, each.name, each.receiver.consumer)
                for each in self.consumers.values()
            ],
            self._topic,
            self.around.partition,
            active=None if before is None else before.receiver.consumer,
            joined=joined,
        )
        self.active = None if election.active is None else self.consumers[election.active]
        if self.active is not before:
            self.rewind()
        if self._is_failover:
            for notice in election.notices:
                self.consumers[notice.consumer].tell_active(notice.is_active)
        self.wake()

    def _start(self, around: Surrounds) -> Position:
        mark = around.cursor.mark_delete
        if self._is_compacted and mark <= around.ledger.spans().start:
            return EARLIEST
        return mark.next()

    def rewind(self) -> None:
        self._generation += 1
        self._next = self._start(self.around)

    def ask_again(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        """Single entries cannot be had again without breaking the order: all of them are."""
        if epoch is not None:
            consumer.epoch = epoch
        if consumer is not self.active:
            return
        self.rewind()
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> None:
        """Nothing to settle: what is acknowledged is passed over by the next read."""

    def moved(self) -> None:
        """The mark-delete position went somewhere else by other means than acks."""
        self.rewind()
        self.wake()

    async def turn(self) -> bool:
        consumer = self.active
        if consumer is None:
            return False
        start = self._next_unread()
        if start is None:
            self.around.reached_end()
            return False
        budget, max_bytes = self.budget()
        room = min(consumer.receiver.room(), budget)
        if room <= 0:
            return False
        generation = self._generation
        entries = await self._read(start, max_entries=min(room, READ_ENTRIES), max_bytes=max_bytes)
        if generation == self._generation and entries:
            self._send(consumer, entries)
        return bool(entries) or generation != self._generation

    def _next_unread(self) -> Position | None:
        if self._is_before_topic(self._next):
            return self._next
        return self.around.cursor.next_unacked(self._next)

    def _is_before_topic(self, position: Position) -> bool:
        """What was compacted may be older than anything the topic, or its cursor, still knows."""
        return self._is_compacted and position <= self.around.ledger.spans().start

    def _send(self, consumer: Consumer, entries: list[Entry]) -> None:
        first = Position(entries[0].ledger, entries[0].entry)
        cursor = self.around.cursor
        left: list[int | None] | None = None
        if self._is_compacted or cursor.has_holes or first <= cursor.mark_delete:
            fresh, counts, left = self._unacked(entries)
        else:
            fresh, counts = entries, [entry.messages for entry in entries]
        plan = plan_single(consumer.receiver, counts, budget=self.budget()[0])
        if len(plan.rest) == 0:
            self._next = Position(entries[-1].ledger, entries[-1].entry + 1)
        else:
            rest = fresh[plan.rest[0]]
            self._next = Position(rest.ledger, rest.entry)
        for grant in plan.grants:
            granted = [fresh[index] for index in grant.entries]
            if left is None:
                size = consumer.deliver_plain(granted, self.around.partition)
            else:
                bits = [left[index] for index in grant.entries]
                for entry, each in zip(granted, bits, strict=True):
                    deliver(self.around, consumer, entry, each)
                size = sum([len(entry.body) for entry in granted])
            # Nothing is owed: what was not acknowledged is known from the cursor alone.
            consumer.receiver.permits -= grant.messages
            note_delivered(self.around, consumer, grant.messages, size)

    def _unacked(self, entries: list[Entry]) -> tuple[list[Entry], list[int], list[int | None]]:
        """Those to deliver, the messages of each, and which of its messages if not all."""
        cursor = self.around.cursor
        fresh: list[Entry] = []
        counts: list[int] = []
        left: list[int | None] = []
        for entry in entries:
            position = Position(entry.ledger, entry.entry)
            if cursor.is_acked(position) and not self._is_before_topic(position):
                continue
            bits = cursor.unacked_bits(position)
            if self._is_compacted:
                bits = both(bits, kept_bits(entry, self._max_message_bytes))
            fresh.append(entry)
            counts.append(left_of(entry, bits))
            left.append(bits)
        return fresh, counts, left


def both(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
