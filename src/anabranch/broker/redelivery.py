"""Entries that wait to be delivered, again or for the first time, and how often each came back.

The queue holds what was given back and what was read but could not be given. Per slot it is ordered
by position: a slot's entries leave in the order in which they were written. On Shared subscriptions
all entries are of one slot.

Counts are raised when a consumer says "again" (a negative acknowledgement, a redelivery request);
a consumer that goes away blames no message, so a close raises nothing. A count lives until its
entry is acknowledged.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, KeysView
from heapq import merge, nsmallest
from itertools import islice

from anabranch.topics.positions import Position

# From here on sorting a slot once is cheaper than inserting one by one.
_MANY = 64


class RedeliveryQueue:
    __slots__ = ("_slot_of", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, list[Position]] = {}  # sorted, never empty
        self._slot_of: dict[Position, int] = {}

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, position: Position) -> bool:
        return position in self._slot_of

    def slots(self) -> KeysView[int]:
        """Those that have entries here. Later entries of them must not pass."""
        return self._slots.keys()

    def of(self, slot: int) -> list[Position]:
        """For the eyes only."""
        return self._slots.get(slot, [])

    def add(self, position: Position, slot: int) -> None:
        known = self._slot_of.setdefault(position, slot)
        assert known == slot, (position, known, slot)
        waiting = self._slots.setdefault(slot, [])
        if not waiting or position > waiting[-1]:
            waiting.append(position)
            return
        at = bisect_left(waiting, position)
        if waiting[at] != position:
            waiting.insert(at, position)

    def add_many(self, entries: Iterable[tuple[Position, int]]) -> None:
        by_slot: dict[int, list[Position]] = {}
        for position, slot in entries:
            if position not in self._slot_of:
                self._slot_of[position] = slot
                by_slot.setdefault(slot, []).append(position)
        for slot, positions in by_slot.items():
            waiting = self._slots.setdefault(slot, [])
            if len(positions) < _MANY:
                for position in positions:
                    insort(waiting, position)
            else:
                waiting += positions
                waiting.sort()

    def discard(self, position: Position) -> bool:
        slot = self._slot_of.pop(position, None)
        if slot is None:
            return False
        waiting = self._slots[slot]
        del waiting[bisect_left(waiting, position)]
        if not waiting:
            del self._slots[slot]
        return True

    def discard_through(self, position: Position) -> None:
        for each in [each for each in self._slot_of if each <= position]:
            self.discard(each)

    def clear(self) -> None:
        self._slots.clear()
        self._slot_of.clear()

    def first(
        self, limit: int, is_open: Callable[[int], bool] = lambda slot: True
    ) -> list[Position]:
        """The first entries of the slots that are open, in order. They stay in the queue."""
        opened = [waiting for slot, waiting in self._slots.items() if is_open(slot)]
        if len(opened) == 1:
            return opened[0][:limit]
        # Of `limit` entries none can come from a slot whose first one has `limit` before it.
        return list(islice(merge(*nsmallest(limit, opened, key=_head)), limit))


def _head(waiting: list[Position]) -> Position:
    return waiting[0]


class RedeliveryCounts:
    """How often consumers asked to have an entry again. Entries are few: those not yet acked."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Position, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, position: Position) -> int:
        return self._counts.get(position, 0)

    def raise_(self, position: Position) -> None:
        self._counts[position] = self._counts.get(position, 0) + 1

    def forget(self, position: Position) -> None:
        self._counts.pop(position, None)

    def forget_through(self, position: Position) -> None:
        for each in [each for each in self._counts if each <= position]:
            del self._counts[each]
