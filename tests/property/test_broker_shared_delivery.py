"""Shared and Key_Shared delivery under any order of joins, leaves, permits, acks and returns.

The model knows where every entry is, and watches what each consumer is handed. Reads are slow: what
`returned` named is handed in only later, when anything may have happened in between.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from anabranch.broker.dispatch import Plan
from anabranch.broker.key_shared import AutoSplit, EntryBuckets, SlotOwners, StickyRanges
from anabranch.broker.receivers import Receiver
from anabranch.broker.shared_delivery import SharedDelivery
from anabranch.topics.positions import Position

BUCKETS = [(0, 0x3FFF), (0x4000, 0x7FFF), (0x8000, 0xFFFF)]
QUARTERS = [(start, start + 0x3FFF) for start in range(0, 0x10000, 0x4000)]
KEYS = [1, 0x1000, 0x5000, 0x5001, 0x9000, 0xFFFF]  # sticky hashes


class Delivery(RuleBasedStateMachine):
    """`owners` is filled in by each kind of subscription below."""

    make_owners: Callable[[], SlotOwners] | None = None

    @initialize(
        subscription_limit=st.sampled_from([0, 12, 1000]), look_ahead=st.sampled_from([1, 5, 100])
    )
    def start(self, subscription_limit: int, look_ahead: int) -> None:
        make = type(self).make_owners
        self.owners = None if make is None else make()
        self.delivery = SharedDelivery(
            self.owners,
            subscription_limit=subscription_limit,
            look_ahead=look_ahead,
            turn_messages=3,
        )
        self.written: list[tuple[Position, int, int]] = []  # position, messages, slot
        self.read_to = 0
        self.left: dict[Position, int] = {}  # messages not acknowledged
        self.at: dict[Position, int] = {}  # position -> the consumer that has it
        self.waiting: set[Position] = set()  # read, and at nobody
        self.first: dict[int, Position] = {}  # slot -> the last first delivery in it
        self.delivered: set[Position] = set()
        self.again: dict[Position, int] = {}  # redelivery counts
        self.permits: dict[int, int] = {}  # those of consumers that were never blocked
        self.pending_read: tuple[int, list[Position]] = (0, [])
        self.joined = 0
        self.join(limit=0, priority=0, permits=50)

    def slot(self, position: Position) -> int:
        return next(slot for each, _, slot in self.written if each == position)

    # Consumers

    @rule(
        limit=st.sampled_from([0, 0, 6, 100]),
        priority=st.integers(0, 1),
        permits=st.sampled_from([0, 4, 50, 50]),
    )
    def join(self, limit: int, priority: int, permits: int) -> None:
        assume(len(self.delivery.receivers) < 4)
        self.joined += 1
        name = f"c{self.joined % 3}"
        receiver = Receiver(self.joined, name, priority=priority, unacked_limit=limit)
        self.delivery.join(receiver, self.ranges())
        receiver.allow(permits)
        self.permits[self.joined] = permits

    def ranges(self) -> list[tuple[int, int]]:
        if isinstance(self.owners, EntryBuckets):
            return BUCKETS
        if isinstance(self.owners, StickyRanges):
            free = [each for each in QUARTERS if self.owners.owner_of(each[0]) is None]
            return free[:1]
        return []

    # The last one leaves seldom: an empty subscription has little to show.
    @precondition(lambda self: len(self.delivery.receivers) > (len(self.written) < 20))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.let_go(data.draw(st.sampled_from(sorted(self.delivery.receivers))))

    def let_go(self, consumer: int) -> None:
        generation = self.delivery.generation
        was_last = self.delivery.leave(consumer)
        assert was_last == (not self.delivery.receivers)
        self.permits.pop(consumer)
        for position in [each for each, holder in self.at.items() if holder == consumer]:
            del self.at[position]
            self.waiting.add(position)
        assert self.delivery.generation == generation + was_last
        if was_last:
            # As the shell must: everything not acknowledged is read again.
            self.waiting.clear()
            self.read_to = 0

    @precondition(lambda self: self.delivery.receivers)
    @rule(data=st.data(), permits=st.integers(1, 9))
    def flow(self, data: st.DataObject, permits: int) -> None:
        consumer = data.draw(st.sampled_from(sorted(self.delivery.receivers)))
        self.delivery.receivers[consumer].allow(permits)
        self.permits[consumer] += permits

    # Entries

    @rule(
        entries=st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from([1, 1, 1, 4])), min_size=1, max_size=8
        ),
        is_read_at_once=st.booleans(),
    )
    def publish(self, entries: list[tuple[int, int]], is_read_at_once: bool) -> None:
        self.write(entries)
        if is_read_at_once:
            self.read_on(len(entries), 2**62)

    def write(self, entries: list[tuple[int, int]]) -> None:
        for sticky_hash, messages in entries:
            position = Position(3, len(self.written))
            slot = -1 if self.owners is None else self.slot_of(sticky_hash)
            self.written.append((position, messages, slot))
            self.left[position] = messages

    def slot_of(self, sticky_hash: int) -> int:
        assert self.owners is not None
        if isinstance(self.owners, EntryBuckets):
            return sum(start <= sticky_hash for start, _ in BUCKETS) - 1
        return self.owners.slot_of(sticky_hash)

    @rule(limit=st.integers(1, 8), budget=st.sampled_from([0, 3, 2**62]))
    def read_on(self, limit: int, budget: int) -> None:
        if not self.delivery.wanted() or not self.delivery.may_read_on():
            return
        batch = self.written[self.read_to : self.read_to + limit]
        self.read_to += len(batch)
        batch = [each for each in batch if self.left[each[0]]]
        positions = [position for position, _, _ in batch]
        counts = [self.left[position] for position in positions]
        slots = None if self.owners is None else [slot for _, _, slot in batch]
        plan = self.delivery.dispatch(positions, counts, slots, budget=budget)
        self.waiting |= set(positions)
        self.check(plan, positions, counts)

    @rule(limit=st.integers(1, 8))
    def read_again(self, limit: int) -> None:
        self.begin_reading_again(limit)
        self.finish_reading_again(2**62)

    @rule(limit=st.integers(1, 8))
    def begin_reading_again(self, limit: int) -> None:
        named = self.delivery.returned(limit)
        assert named == sorted(named)
        assert set(named) <= self.waiting
        self.pending_read = self.delivery.generation, named

    @rule(budget=st.sampled_from([0, 3, 2**62]))
    def finish_reading_again(self, budget: int) -> None:
        generation, named = self.pending_read
        self.pending_read = 0, []
        if generation != self.delivery.generation:
            return
        named = [position for position in named if position in self.left]
        counts = [max(1, self.left[position]) for position in named]
        slots = None if self.owners is None else [self.slot(position) for position in named]
        plan = self.delivery.redeliver(named, counts, slots, budget=budget)
        self.check(plan, named, counts)

    def check(self, plan: Plan, positions: list[Position], counts: list[int]) -> None:
        for consumer, entries, messages in plan.grants:
            assert messages == sum(counts[index] for index in entries)
            self.permits[consumer] -= messages
        for index, consumer in sorted(
            (index, grant.consumer) for grant in plan.grants for index in grant.entries
        ):
            self.hand_over(positions[index], consumer)

    def hand_over(self, position: Position, consumer: int) -> None:
        assert position in self.waiting, "delivered, though it is elsewhere or acknowledged"
        assert self.left[position] > 0
        self.waiting.discard(position)
        self.at[position] = consumer
        if self.owners is None:
            return
        slot = self.slot(position)
        assert self.owners.owner_of(slot) == consumer
        holders = {self.at[each] for each in self.at if self.slot(each) == slot}
        assert holders == {consumer}, "a key at two consumers"
        assert not [each for each in self.waiting if self.slot(each) == slot and each < position], (
            "an earlier entry of the slot still waits"
        )
        if position not in self.delivered:
            assert self.first.get(slot, Position(0, 0)) < position, "first deliveries out of order"
            self.first[slot] = position
            self.delivered.add(position)

    # Acknowledgements and returns

    @precondition(lambda self: self.at)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Several at once, by whoever: entries of others among them."""
        positions = data.draw(
            st.lists(st.sampled_from(sorted(self.at)), min_size=1, max_size=3, unique=True)
        )
        self.settle(positions)

    def settle(self, positions: list[Position]) -> None:
        self.delivery.acknowledge_many(self.at[positions[0]], positions)
        for position in positions:
            del self.at[position]
            self.left[position] = 0
            self.again.pop(position, None)

    @precondition(lambda self: self.at)
    @rule(data=st.data())
    def acknowledge_part(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.at)))
        self.left[position] = data.draw(st.integers(0, self.left[position]))
        self.delivery.acknowledge_part(self.at[position], position, self.left[position])
        if not self.left[position]:
            del self.at[position]
            self.again.pop(position, None)

    @precondition(lambda self: self.waiting and self.delivery.receivers)
    @rule(data=st.data())
    def acknowledge_what_was_given_back(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.waiting)))
        self.delivery.acknowledge_many(min(self.delivery.receivers), [position])
        self.waiting.discard(position)
        self.left[position] = 0
        self.again.pop(position, None)

    @precondition(lambda self: self.at)
    @rule(data=st.data(), everything=st.booleans())
    def ask_again(self, data: st.DataObject, everything: bool) -> None:
        consumer = data.draw(st.sampled_from(sorted(set(self.at.values()))))
        asked = data.draw(st.lists(st.sampled_from(sorted(self.at))))
        self.return_(consumer, None if everything else asked)

    def return_(self, consumer: int, asked: list[Position] | None) -> None:
        mine = {position for position, holder in self.at.items() if holder == consumer}
        count = self.delivery.ask_again(consumer, asked)
        back = mine if asked is None else mine & set(asked)
        assert count == len(back)
        for position in back:
            del self.at[position]
            self.waiting.add(position)
            self.again[position] = self.again.get(position, 0) + 1

    @precondition(lambda self: len(self.written) > 20)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        mark, _, _ = data.draw(st.sampled_from(self.written[:-10]))
        self.delivery.drop_through(mark)
        for position in [each for each in self.left if each <= mark]:
            self.left[position] = 0
            self.at.pop(position, None)
            self.waiting.discard(position)
            self.again.pop(position, None)

    # Laws

    @invariant()
    def every_entry_is_in_one_place(self) -> None:
        if not hasattr(self, "delivery"):
            return
        unacked = self.delivery.unacked
        held = {
            position: consumer
            for consumer in self.delivery.receivers
            for position in unacked.of(consumer)
        }
        assert held == self.at
        assert unacked.entries() == len(held), "held by somebody who left, or by two"
        queued = {position for position, _, _ in self.written if position in self.delivery.queue}
        assert queued == self.waiting
        assert len(self.delivery.queue) == len(queued)

    @invariant()
    def the_books_add_up(self) -> None:
        if not hasattr(self, "delivery"):
            return
        total = 0
        for consumer, receiver in self.delivery.receivers.items():
            owed = sum(self.left[each] for each, holder in self.at.items() if holder == consumer)
            assert receiver.unacked == owed
            assert receiver.permits + receiver.held_permits == self.permits[consumer]
            assert receiver.is_blocked or not receiver.held_permits
            total += owed
        assert self.delivery.unacked.messages == total
        for position in self.left:
            assert self.delivery.counts.of(position) == self.again.get(position, 0)

    def teardown(self) -> None:
        """Whatever happened: with permits and acks, everything is delivered in the end."""
        if hasattr(self, "delivery"):
            self.drain()

    def drain(self) -> None:
        while isinstance(self.owners, StickyRanges) and self.ranges():
            self.add_consumer()
        if not self.delivery.receivers:
            self.add_consumer()
        for _ in range(3 * len(self.written) + 10):
            for consumer, receiver in self.delivery.receivers.items():
                receiver.allow(50)
                self.permits[consumer] += 50
            self.begin_reading_again(5)
            self.finish_reading_again(2**62)
            self.read_on(5, 2**62)
            for position, consumer in list(self.at.items()):
                self.delivery.acknowledge_many(consumer, [position])
                del self.at[position]
                self.left[position] = 0
                self.again.pop(position, None)
            self.every_entry_is_in_one_place()
            self.the_books_add_up()
        assert not any(self.left.values()), "never delivered"
        assert not self.delivery.unacked.holders
        assert not len(self.delivery.counts)

    def add_consumer(self) -> None:
        self.joined += 1
        self.delivery.join(Receiver(self.joined, f"c{self.joined}"), self.ranges())
        self.permits[self.joined] = 0


class Sticky(Delivery):
    make_owners = StickyRanges


class Split(Delivery):
    make_owners = AutoSplit


class Buckets(Delivery):
    make_owners = EntryBuckets


@pytest.mark.parametrize("machine", [Delivery, Split, Sticky, Buckets])
def test_delivery_keeps_its_promises_whatever_happens(machine: type[Delivery]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=50, stateful_step_count=50, deadline=None)
    )


membership = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "publish", "publish", "ack", "again"]), st.integers(0, 99)
    ),
    min_size=10,
    max_size=60,
)


@pytest.mark.parametrize("machine", [Split, Buckets])
@given(steps=membership)
@settings(max_examples=150, deadline=None)
def test_a_key_is_at_one_consumer_however_fast_they_come_and_go(
    machine: type[Delivery], steps: list[tuple[str, int]]
) -> None:
    """Permits never lack here, so that nearly every step moves a key or an entry."""
    run = machine()
    run.start(subscription_limit=0, look_ahead=100)
    for step, number in steps:
        present = sorted(run.delivery.receivers)
        held = sorted(run.at)
        if step == "join" and len(present) < 4:
            run.join(limit=0, priority=0, permits=10_000)
        elif step == "leave" and len(present) > 1:
            run.let_go(present[number % len(present)])
        elif step == "publish":
            run.publish([(KEYS[number % len(KEYS)], 1)] * 2, is_read_at_once=True)
        elif step == "ack" and held:
            run.settle([held[number % len(held)]])
        elif step == "again" and held:
            run.return_(run.at[held[number % len(held)]], [held[number % len(held)]])
        run.read_again(8)
        run.every_entry_is_in_one_place()
    run.drain()
