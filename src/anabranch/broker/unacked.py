"""What was delivered to whom and is not yet acknowledged, on a Shared or Key_Shared subscription.

Kept per consumer, so that a close costs what that consumer held and a delivery one insertion.
Messages are counted, entries are named: of a batch that is partly acknowledged only the rest
counts. For Key_Shared it also knows which consumer holds a slot, i.e. has entries of it. There is
never more than one: that is what keeps a key from being worked on in two places.

Memory is bounded by the limits: no entry is delivered at or above them (see `receivers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from anabranch.topics.positions import Position

SUBSCRIPTION_LIMIT = 200_000
NO_SLOT = -1  # of every entry on a Shared subscription


# Messages and slot of an entry at a consumer: a plain tuple, made by the thousand.
Held = tuple[int, int]


class Taken(NamedTuple):
    """What an acknowledgement or a return took off a consumer."""

    consumer: int
    messages: int
    slot: int


class Unacked:
    __slots__ = ("_held", "_slots", "holders", "is_blocked", "limit", "messages")

    def __init__(self, limit: int = SUBSCRIPTION_LIMIT) -> None:
        self.limit = limit  # 0: none
        self.messages = 0
        self.is_blocked = False  # from the limit on, until half of it is reached
        self._held: dict[int, dict[Position, Held]] = {}
        self._slots: dict[int, int] = {}  # slot -> entries of it held
        self.holders: dict[int, int] = {}  # slot -> the consumer that holds them

    def __contains__(self, position: Position) -> bool:
        return any(position in held for held in self._held.values())

    def entries(self) -> int:
        return sum(map(len, self._held.values()))

    def of(self, consumer: int) -> dict[Position, Held]:
        """For the eyes only."""
        return self._held.get(consumer, {})

    def room(self) -> int:
        """Messages that may be delivered now, whoever gets them."""
        if self.is_blocked:
            return 0
        return self.limit - self.messages if self.limit else 2**62

    def relimit(self, limit: int) -> None:
        """The policy changed."""
        self.limit = limit
        if not limit or self.messages < limit:
            self.is_blocked = False

    def deliver(
        self,
        consumer: int,
        positions: Sequence[Position],
        counts: Sequence[int],
        slots: Sequence[int] | None = None,
    ) -> None:
        held = self._held.setdefault(consumer, {})
        if slots is None:
            held.update(zip(positions, zip(counts, repeat(NO_SLOT), strict=False), strict=True))
        else:
            held.update(zip(positions, zip(counts, slots, strict=True), strict=True))
            self._hold(consumer, slots)
        self.messages += sum(counts)
        if self.limit and self.messages >= self.limit:
            self.is_blocked = True

    def _hold(self, consumer: int, slots: Iterable[int]) -> None:
        counts, holders = self._slots, self.holders
        for slot in slots:
            assert holders.setdefault(slot, consumer) == consumer, (slot, consumer, holders[slot])
            counts[slot] = counts.get(slot, 0) + 1

    def acknowledge(
        self, consumer: int, positions: Iterable[Position]
    ) -> tuple[int, list[Position]]:
        """Whole entries: the messages of those that the consumer held, and the entries it did not.

        One loop, without a call for each: most of what a busy subscription does is this.
        """
        held = self._held.get(consumer, {})
        messages = 0
        missed = []
        for position in positions:
            item = held.pop(position, None)
            if item is None:
                missed.append(position)
            else:
                messages += item[0]
                if item[1] != NO_SLOT:
                    self._release(item[1])
        if not held:
            self._held.pop(consumer, None)
        self._settle(messages)
        return messages, missed

    def acknowledge_elsewhere(self, position: Position) -> Taken | None:
        """Whoever has it: entries move, and acknowledgements of where they were come late."""
        holder = self._holder_of(-1, position)
        return None if holder is None else self._take(holder, position)

    def acknowledge_part(self, consumer: int, position: Position, left: int) -> Taken | None:
        """Of a batch only `left` messages remain."""
        holder = self._holder_of(consumer, position)
        if holder is None:
            return None
        if left <= 0:
            return self._take(holder, position)
        messages, slot = self._held[holder][position]
        if left >= messages:
            return Taken(holder, 0, slot)
        self._held[holder][position] = (left, slot)
        self._settle(messages - left)
        return Taken(holder, messages - left, slot)

    def give_back(self, consumer: int, position: Position) -> Taken | None:
        """To be delivered again. Only who holds an entry can give it back."""
        if position not in self._held.get(consumer, ()):
            return None
        return self._take(consumer, position)

    def drop_through(self, position: Position) -> list[Taken]:
        """The cursor moved past them by other means: a skip, an expiry."""
        passed = [
            (consumer, each)
            for consumer, held in self._held.items()
            for each in held
            if each <= position
        ]
        return [self._take(consumer, each) for consumer, each in passed]

    def _holder_of(self, consumer: int, position: Position) -> int | None:
        if position in self._held.get(consumer, ()):
            return consumer
        return next((other for other, held in self._held.items() if position in held), None)

    def _take(self, consumer: int, position: Position) -> Taken:
        held = self._held[consumer]
        messages, slot = held.pop(position)
        if not held:
            del self._held[consumer]
        if slot != NO_SLOT:
            self._release(slot)
        self._settle(messages)
        return Taken(consumer, messages, slot)

    def _release(self, slot: int) -> None:
        left = self._slots[slot] - 1
        if left:
            self._slots[slot] = left
        else:
            del self._slots[slot], self.holders[slot]

    def _settle(self, messages: int) -> None:
        self.messages -= messages
        if self.is_blocked and self.messages <= self.limit // 2:
            self.is_blocked = False
