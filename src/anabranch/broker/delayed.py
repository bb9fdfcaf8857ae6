"""Entries that are not to be delivered before their time.

Only positions are kept, in the order of their times. New ones go to a small heap; when that is
full it is sorted into a run of packed integers, 24 bytes an entry. Runs are never merged: a heap of
their heads says which is next. So a million entries take some 25 MB in a few hundred runs, and but
for `drop` no call ever handles more than one run.

At its limit the tracker refuses. The caller then leaves that entry unread, and all behind it, until
others came due: nothing is delivered early, nothing is lost, and memory stays bounded. There is
nothing to save, since whatever is not acknowledged is read again after a restart.

Entries acknowledged meanwhile (a skip, an expiry) are dropped when they come due, or by `drop`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace

from anabranch.topics.positions import Position

MAX_ENTRIES = 1_000_000
YOUNG_ENTRIES = 4_096

# deliver_at_ms, ledger, entry: sorted by time, then as written
Item = tuple[int, int, int]


class _Run:
    """Sorted items, back to back in one array, and how far they were taken."""

    __slots__ = ("_at", "_numbers")

    def __init__(self, items: list[Item]) -> None:
        self._numbers = array("q", [number for item in items for number in item])
        self._at = 0

    def __len__(self) -> int:
        return (len(self._numbers) - self._at) // 3

    def __iter__(self) -> Iterator[Item]:
        numbers = iter(self._numbers[self._at :])
        return zip(numbers, numbers, numbers, strict=True)

    def head(self) -> Item:
        at = self._at
        return self._numbers[at], self._numbers[at + 1], self._numbers[at + 2]

    def advance(self) -> bool:
        """Past the head; whether there is another."""
        self._at += 3
        return self._at < len(self._numbers)


class DelayedEntries:
    __slots__ = ("_heads", "_limit", "_names", "_runs", "_size", "_young", "_young_limit")

    def __init__(self, limit: int = MAX_ENTRIES, *, young_limit: int = YOUNG_ENTRIES) -> None:
        self._limit = limit
        self._young_limit = young_limit
        self._young: list[Item] = []  # a heap
        self._runs: dict[int, _Run] = {}
        self._heads: list[tuple[Item, int]] = []  # a heap: head of each run, name of the run
        self._names = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, deliver_at_ms: int, position: Position) -> bool:
        """False if there is no room: leave the entry unread and come back."""
        if self._size >= self._limit:
            return False
        heappush(self._young, (deliver_at_ms, position[0], position[1]))
        self._size += 1
        if len(self._young) >= self._young_limit:
            self._young.sort()
            self._settle(self._young)
            self._young = []
        return True

    def _settle(self, items: list[Item]) -> None:
        self._names += 1
        run = self._runs[self._names] = _Run(items)
        heappush(self._heads, (run.head(), self._names))

    def next_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        times = [item[0] for item in self._young[:1]] + [head[0] for head, _ in self._heads[:1]]
        return min(times, default=None)

    def take_due(
        self,
        now_ms: int,
        limit: int,
        is_acked: Callable[[Position], bool] = lambda position: False,
    ) -> list[Position]:
        """From up to `limit` that are due, those to deliver, sorted by position.

        Their times are past, so what is left of order is how they were written. None may be left
        of many that were acknowledged: look at `next_ms` to know whether that was all.
        """
        due: list[Position] = []
        for _ in range(limit):
            item = self._take(now_ms)
            if item is None:
                break
            position = Position(item[1], item[2])
            if not is_acked(position):
                due.append(position)
        due.sort()
        return due

    def _take(self, now_ms: int) -> Item | None:
        from_run = self._heads[0][0] if self._heads else None
        if self._young and (from_run is None or self._young[0] <= from_run):
            if self._young[0][0] > now_ms:
                return None
            self._size -= 1
            return heappop(self._young)
        if from_run is None or from_run[0] > now_ms:
            return None
        self._size -= 1
        name = self._heads[0][1]
        if self._runs[name].advance():
            heapreplace(self._heads, (self._runs[name].head(), name))
        else:
            heappop(self._heads)
            del self._runs[name]
        return from_run

    def drop(self, is_acked: Callable[[Position], bool]) -> int:
        """Forget those acknowledged; how many they were. Goes through all: not for every ack."""
        before = self._size
        self._young = _kept(self._young, is_acked)
        heapify(self._young)
        for name, run in list(self._runs.items()):
            items = _kept(run, is_acked)
            if items:
                self._runs[name] = _Run(items)
            else:
                del self._runs[name]
        self._heads = [(run.head(), name) for name, run in self._runs.items()]
        heapify(self._heads)
        self._size = len(self._young) + sum(map(len, self._runs.values()))
        return before - self._size

    def clear(self) -> None:
        self._young.clear()
        self._runs.clear()
        self._heads.clear()
        self._size = 0


def _kept(items: _Run | list[Item], is_acked: Callable[[Position], bool]) -> list[Item]:
    return [item for item in items if not is_acked(Position(item[1], item[2]))]
