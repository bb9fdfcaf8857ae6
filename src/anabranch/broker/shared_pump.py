"""Shared and Key_Shared: the shell around `SharedDelivery`, which decides who gets what.

New entries are read in order; entries that were given back are read again by position. An entry
with a time to be delivered at waits in `DelayedEntries` until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from anabranch.broker.consumer import Consumer
from anabranch.broker.delayed import DelayedEntries
from anabranch.broker.delivery import (
    READ_BYTES,
    READ_ENTRIES,
    Pump,
    Surrounds,
    deliver,
    left_of,
    note_delivered,
)
from anabranch.broker.dispatch import Plan
from anabranch.broker.entry_traits import deliver_at_ms, slot_hashes
from anabranch.broker.key_shared import Ranges, SlotOwners
from anabranch.broker.shared_delivery import SharedDelivery
from anabranch.errors import AnabranchError
from anabranch.runtime.world import Clock
from anabranch.storage.ledger import Entry
from anabranch.topics.positions import Position


class SharedPump(Pump):
    def __init__(
        self,
        around: Surrounds,
        clock: Clock,
        owners: SlotOwners | None,
        *,
        subscription_limit: int,
        is_delay_honoured: bool = True,
    ) -> None:
        self.consumers: dict[int, Consumer] = {}
        self.delivery = SharedDelivery(owners, subscription_limit=subscription_limit)
        self.delayed = DelayedEntries()
        self._clock = clock
        self._is_delay_honoured = is_delay_honoured
        self._next = around.cursor.mark_delete.next()
        self._timer: asyncio.TimerHandle | None = None
        super().__init__(around)

    def stop(self) -> None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    def attach(self, consumer: Consumer, ranges: Ranges = ()) -> None:
        self.delivery.join(consumer.receiver, ranges)
        self.consumers[consumer.receiver.consumer] = consumer
        self.wake()

    def detach(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.receiver.consumer, None)
        if self.delivery.leave(consumer.receiver.consumer):
            self._start_over()
        self.wake()

    def _start_over(self) -> None:
        self.delayed.clear()
        self._next = self.around.cursor.mark_delete.next()

    def ask_again(
        self, consumer: Consumer, positions: list[Position] | None, epoch: int | None
    ) -> None:
        self.delivery.ask_again(consumer.receiver.consumer, positions)
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: list[Position]) -> None:
        cursor = self.around.cursor
        for position in positions:
            bits = cursor.unacked_bits(position)
            if bits is None:
                self.delivery.acknowledge(consumer.receiver.consumer, position)
            else:
                self.delivery.acknowledge_part(
                    consumer.receiver.consumer, position, bits.bit_count()
                )
        self.wake()

    def limit_unacked(self, per_consumer: int, per_subscription: int) -> None:
        self.delivery.unacked.relimit(per_subscription)
        for receiver in self.delivery.receivers.values():
            receiver.limit(per_consumer)

    def moved(self) -> None:
        """The mark-delete position went forward by a skip or an expiry."""
        self.delivery.drop_through(self.around.cursor.mark_delete)
        self._next = max(self._next, self.around.cursor.mark_delete.next())
        self.wake()

    async def turn(self) -> bool:
        budget, max_bytes = self.budget()
        wanted = min(self.delivery.wanted(), budget)
        if wanted <= 0:
            if self.around.cursor.backlog == 0:
                self.around.reached_end()
            return False
        again = self.delivery.returned(min(wanted, READ_ENTRIES))
        if again:
            return await self._send_again(again)
        due = self._take_due(min(wanted, READ_ENTRIES))
        if due:
            generation = self.delivery.generation
            return self._send_new(await self._read_due(due), generation)
        return self.delivery.may_read_on() and await self._read_on(wanted, max_bytes)

    async def _read_on(self, wanted: int, max_bytes: int) -> bool:
        start = self.around.cursor.next_unacked(self._next)
        if start is None or self.around.cursor.is_over_limit:
            self.around.reached_end()
            return False
        generation = self.delivery.generation
        entries = await self.around.ledger.read(
            start, max_entries=min(wanted, READ_ENTRIES), max_bytes=max_bytes
        )
        if generation != self.delivery.generation:
            return True
        if entries:
            self._next = Position(entries[-1].ledger, entries[-1].entry + 1)
        return self._send_new(self._hold_delayed(entries), generation)

    def _hold_delayed(self, entries: list[Entry]) -> list[Entry]:
        """Those that may go out now. At the tracker's limit the rest stays unread."""
        if not self._is_delay_honoured:
            return entries
        now_ms, ready = self._clock.wall_ms(), []
        for entry in entries:
            due_ms = deliver_at_ms(entry.body)
            if due_ms <= now_ms:
                ready.append(entry)
            elif not self.delayed.add(due_ms, Position(entry.ledger, entry.entry)):
                self._next = Position(entry.ledger, entry.entry)
                break
        self._set_timer()
        return ready

    def _take_due(self, limit: int) -> list[Position]:
        due = self.delayed.take_due(self._clock.wall_ms(), limit, self.around.cursor.is_acked)
        self._set_timer()
        return due

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self.delayed.next_ms()
        if next_ms is not None:
            seconds = max(0, next_ms - self._clock.wall_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _read_due(self, positions: Sequence[Position]) -> list[Entry]:
        try:
            return await self._read_each(positions)
        except AnabranchError:
            # Nobody else remembers them: they are due still, at the next try.
            for position in positions:
                self.delayed.add(self._clock.wall_ms(), position)
            raise

    async def _read_each(self, positions: Sequence[Position]) -> list[Entry]:
        """Entries anywhere; those that follow one another are read together."""
        found: list[Entry] = []
        index = 0
        while index < len(positions):
            first = last = positions[index]
            index += 1
            while index < len(positions) and positions[index] == last.next():
                last = positions[index]
                index += 1
            found += await self._read_run(first, last)
        return found

    async def _read_run(self, first: Position, last: Position) -> list[Entry]:
        found: list[Entry] = []
        position = first
        while position <= last:
            entries = await self.around.ledger.read(
                position, max_entries=last.entry - position.entry + 1, max_bytes=READ_BYTES
            )
            entries = [e for e in entries if Position(e.ledger, e.entry) <= last]
            if not entries:
                break
            found += entries
            position = Position(entries[-1].ledger, entries[-1].entry + 1)
        return found

    async def _send_again(self, positions: list[Position]) -> bool:
        generation = self.delivery.generation
        entries = await self._read_each(positions)
        if generation != self.delivery.generation:
            return True
        read = {Position(e.ledger, e.entry) for e in entries}
        for position in positions:
            if position not in read:  # trimmed or skipped meanwhile
                self.delivery.acknowledge(-1, position)
        places, counts, slots = self._described(entries)
        plan = self.delivery.redeliver(places, counts, slots, budget=self.budget()[0])
        self._send(plan, entries)
        return True

    def _send_new(self, entries: list[Entry], generation: int) -> bool:
        if generation != self.delivery.generation:
            return True
        # What was acknowledged meanwhile, or out of turn before.
        cursor, fresh = self.around.cursor, entries
        if cursor.has_holes or (entries and _position(entries[0]) <= cursor.mark_delete):
            fresh = [e for e in entries if not cursor.is_acked(_position(e))]
        if fresh:
            places, counts, slots = self._described(fresh)
            plan = self.delivery.dispatch(places, counts, slots, budget=self.budget()[0])
            self._send(plan, fresh)
        return bool(entries)

    def _described(
        self, entries: list[Entry]
    ) -> tuple[list[Position], list[int], list[int] | None]:
        places = [Position(e.ledger, e.entry) for e in entries]
        if self.around.cursor.has_partial_batches:
            bits = self.around.cursor.unacked_bits
            counts = [left_of(e, bits(place)) for e, place in zip(entries, places, strict=True)]
        else:
            counts = [e.messages for e in entries]
        owners = self.delivery.owners
        if owners is None:
            return places, counts, None
        return places, counts, [owners.slot_of(*slot_hashes(e.body)) for e in entries]

    def _send(self, plan: Plan, entries: list[Entry]) -> None:
        is_plain = not self.delivery.counts and not self.around.cursor.has_partial_batches
        for consumer_id, indexes, messages in plan.grants:
            consumer = self.consumers[consumer_id]
            granted = [entries[index] for index in indexes]
            if is_plain:
                size = consumer.deliver_plain(granted, self.around.partition)
            else:
                size = self._send_each(consumer, granted)
            note_delivered(self.around, consumer, messages, size)

    def _send_each(self, consumer: Consumer, entries: list[Entry]) -> int:
        redeliveries, unacked_bits = self.delivery.counts, self.around.cursor.unacked_bits
        size = 0
        for entry in entries:
            position = Position(entry.ledger, entry.entry)
            size += len(entry.body)
            deliver(self.around, consumer, entry, unacked_bits(position), redeliveries.of(position))
        return size


def _position(entry: Entry) -> Position:
    return Position(entry.ledger, entry.entry)
