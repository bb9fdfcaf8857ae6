"""All that a Shared or Key_Shared subscription decides about delivery, as one state machine.

The shell reads entries and sends them; this says which, to whom and when. Its turn of work:

1. `wanted()`: messages worth reading now; 0 means wait for permits, acks or a consumer.
2. `returned(limit)`: entries that wait for redelivery and could go out. If there are any, read
   them and pass them to `redeliver`. Else, if `may_read_on()`, read new ones for `dispatch`.
3. Send what the plan grants. What it leaves is remembered here and comes back from `returned`.

Promises, whatever order of calls:

- an entry is at one consumer, or waits here, or is acknowledged; never two of these, never none;
- on Key_Shared, entries of a slot are first delivered in the order in which they were written,
  go out again in that order, and are never at two consumers at once;
- permits and unacknowledged messages of every consumer add up.

When the last consumer leaves, all is forgotten but the counts, and `generation` rises: what is not
acknowledged must be read again from the mark-delete position, and reads begun under an older
generation thrown away. Delayed entries are the shell's (see `delayed`): when due, they are
dispatched like new ones, and are to be cleared when the generation rises.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.broker.dispatch import NO_BUDGET, TURN_MESSAGES, Plan, Rotation, plan_keyed
from anabranch.broker.key_shared import Ranges, SlotOwners
from anabranch.broker.receivers import Receiver
from anabranch.broker.redelivery import RedeliveryCounts, RedeliveryQueue
from anabranch.broker.unacked import NO_SLOT, SUBSCRIPTION_LIMIT, Unacked
from anabranch.topics.positions import Position

# Entries that may wait for a slow consumer before its neighbours must wait too. Each costs about
# 200 bytes here, and slots that cannot move are looked at on every turn.
LOOK_AHEAD = 2_000


class SharedDelivery:
    """`owners` makes it Key_Shared; without them every entry is of one slot."""

    def __init__(
        self,
        owners: SlotOwners | None = None,
        *,
        subscription_limit: int = SUBSCRIPTION_LIMIT,
        look_ahead: int = LOOK_AHEAD,
        turn_messages: int = TURN_MESSAGES,
    ) -> None:
        self.owners = owners
        self.receivers: dict[int, Receiver] = {}
        self.unacked = Unacked(subscription_limit)
        self.queue = RedeliveryQueue()
        self.counts = RedeliveryCounts()
        self.generation = 0
        self._rotation = Rotation()
        self._look_ahead = look_ahead
        self._turn_messages = turn_messages

    # Consumers

    def join(self, receiver: Receiver, ranges: Ranges = ()) -> None:
        """Raises BadAssignment if its ranges cannot be served."""
        assert receiver.consumer not in self.receivers, receiver
        if self.owners is not None:
            self.owners.join(receiver.consumer, receiver.name, ranges)
        self.receivers[receiver.consumer] = receiver

    def leave(self, consumer: int) -> bool:
        """What it held goes back, blameless. True if it was the last: read from the mark again."""
        if self.receivers.pop(consumer, None) is None:
            return False
        if self.owners is not None:
            self.owners.leave(consumer)
        taken = self._take_back(consumer, list(self.unacked.of(consumer)))
        if self.receivers:
            self.queue.add_many(taken)
            return False
        self.queue.clear()
        self.generation += 1
        return True

    # What to read

    def wanted(self) -> int:
        """Messages that could be delivered now, if all keys were right."""
        room = self.unacked.room()
        if room <= 0:
            return 0
        return min(room, sum(max(0, receiver.room()) for receiver in self.receivers.values()))

    def may_read_on(self) -> bool:
        """Whether new entries may be read past those that wait."""
        if self.owners is None:
            return not self.queue
        return len(self.queue) < self._look_ahead

    def returned(self, limit: int) -> list[Position]:
        """Entries that wait and could go out now, in order."""
        if not self.queue or self.wanted() <= 0:
            return []
        return self.queue.first(limit) if self.owners is None else self._movable(limit)

    def _movable(self, limit: int) -> list[Position]:
        assert self.owners is not None
        owner_of, holders = self.owners.owner_of, self.unacked.holders
        with_room = {each.consumer for each in self.receivers.values() if each.room() > 0}

        def is_open(slot: int) -> bool:
            owner = owner_of(slot)
            return owner in with_room and holders.get(slot, owner) == owner

        return self.queue.first(limit, is_open)

    # Delivery

    def dispatch(
        self,
        positions: Sequence[Position],
        counts: Sequence[int],
        slots: Sequence[int] | None = None,
        *,
        budget: int = NO_BUDGET,
    ) -> Plan:
        """New entries, rising. Those that nobody gets now wait here.

        `slots` as `owners.slot_of` has them, on Key_Shared only.
        """
        plan = self._plan(counts, slots, self.queue.slots(), budget)
        self._deliver(plan, positions, counts, slots)
        self.queue.add_many(
            (positions[index], NO_SLOT if slots is None else slots[index]) for index in plan.rest
        )
        return plan

    def redeliver(
        self,
        positions: Sequence[Position],
        counts: Sequence[int],
        slots: Sequence[int] | None = None,
        *,
        budget: int = NO_BUDGET,
    ) -> Plan:
        """Entries that `returned` named, as they were read. Those acknowledged since are in `rest`.

        The others of `rest` still wait.
        """
        # A read takes time, in which entries may leave the queue and earlier ones may join it.
        ready = [index for index in range(len(positions)) if positions[index] in self.queue]
        if slots is not None:
            ready = self._in_turn(ready, positions, slots)
        if len(ready) == len(positions):
            plan = self._plan(counts, slots, (), budget)
        else:
            plan = self._plan_some(ready, counts, slots, budget)
        self._deliver(plan, positions, counts, slots)
        for _, indexes, _ in plan.grants:
            for index in indexes:
                self.queue.discard(positions[index])
        return plan

    def _in_turn(
        self, ready: list[int], positions: Sequence[Position], slots: Sequence[int]
    ) -> list[int]:
        """Without those that have an earlier entry of their slot waiting outside this batch."""
        seen: dict[int, int] = {}  # slot -> entries of it in turn so far, -1 once one is not
        in_turn = []
        for index in ready:
            slot = slots[index]
            place = seen.get(slot, 0)
            if place >= 0 and self.queue.of(slot)[place] == positions[index]:
                seen[slot] = place + 1
                in_turn.append(index)
            else:
                seen[slot] = -1
        return in_turn

    def _plan_some(
        self, chosen: list[int], counts: Sequence[int], slots: Sequence[int] | None, budget: int
    ) -> Plan:
        plan = self._plan(
            [counts[index] for index in chosen],
            None if slots is None else [slots[index] for index in chosen],
            (),
            budget,
        )
        grants = [
            grant._replace(entries=[chosen[index] for index in grant.entries])
            for grant in plan.grants
        ]
        given = {index for grant in grants for index in grant.entries}
        return Plan(grants, [index for index in range(len(counts)) if index not in given])

    def _plan(
        self,
        counts: Sequence[int],
        slots: Sequence[int] | None,
        stuck: Collection[int],
        budget: int,
    ) -> Plan:
        budget = min(budget, self.unacked.room())
        receivers = self.receivers.values()
        if self.owners is None:
            return self._rotation.plan(
                receivers, counts, turn_messages=self._turn_messages, budget=budget
            )
        assert slots is not None, "Key_Shared entries need slots"
        owner_of, holders = self.owners.owner_of, self.unacked.holders
        return plan_keyed(receivers, owner_of, holders, slots, counts, stuck=stuck, budget=budget)

    def _deliver(
        self,
        plan: Plan,
        positions: Sequence[Position],
        counts: Sequence[int],
        slots: Sequence[int] | None,
    ) -> None:
        for consumer, entries, messages in plan.grants:
            self.receivers[consumer].deliver(messages)
            self.unacked.deliver(
                consumer,
                [positions[index] for index in entries],
                [counts[index] for index in entries],
                None if slots is None else [slots[index] for index in entries],
            )

    # Acknowledgements and returns

    def acknowledge(self, consumer: int, position: Position) -> None:
        self.acknowledge_many(consumer, (position,))

    def acknowledge_many(self, consumer: int, positions: Sequence[Position]) -> None:
        """Whole entries, whether that consumer has them, another one, or nobody yet."""
        messages, missed = self.unacked.acknowledge(consumer, positions)
        if messages:
            self.receivers[consumer].settle(messages)
        for position in missed:
            self._acknowledge_elsewhere(position)
        if self.counts:
            for position in positions:
                self.counts.forget(position)

    def _acknowledge_elsewhere(self, position: Position) -> None:
        taken = self.unacked.acknowledge_elsewhere(position)
        if taken is None:
            self.queue.discard(position)
        else:
            self.receivers[taken.consumer].settle(taken.messages)

    def acknowledge_part(self, consumer: int, position: Position, left: int) -> None:
        """Of a batch; `left` messages of it are not acknowledged."""
        if left <= 0:
            self.acknowledge(consumer, position)
            return
        taken = self.unacked.acknowledge_part(consumer, position, left)
        if taken is not None:
            self.receivers[taken.consumer].settle(taken.messages)

    def ask_again(self, consumer: int, positions: Sequence[Position] | None = None) -> int:
        """A consumer wants entries it holds (all: None) delivered again; how many that were."""
        wanted = list(self.unacked.of(consumer)) if positions is None else positions
        taken = self._take_back(consumer, wanted)
        for position, _ in taken:
            self.counts.raise_(position)
        self.queue.add_many(taken)
        return len(taken)

    def _take_back(
        self, consumer: int, positions: Sequence[Position]
    ) -> list[tuple[Position, int]]:
        """(position, slot) of those that the consumer holds."""
        messages = 0
        entries = []
        for position in positions:
            taken = self.unacked.give_back(consumer, position)
            if taken is not None:
                messages += taken.messages
                entries.append((position, taken.slot))
        receiver = self.receivers.get(consumer)
        if receiver is not None:
            receiver.settle(messages)
        return entries

    def drop_through(self, position: Position) -> None:
        """The mark-delete position moved by other means than acks: a skip, an expiry."""
        for taken in self.unacked.drop_through(position):
            self.receivers[taken.consumer].settle(taken.messages)
        self.queue.discard_through(position)
        self.counts.forget_through(position)
