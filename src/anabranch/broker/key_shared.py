"""Who owns which slot of a Key_Shared subscription.

A slot is what order is kept by, and each has one owner at a time, or none. Three ways to share:

- `AutoSplit`: consistent hashing. A slot is a sticky hash. Each consumer has POINTS places on a
  ring, a slot belongs to the next place from it on. Owners depend only on who is there, and a
  join or leave moves nothing but what the joiner gets or the leaver had.
- `StickyRanges`: a slot is a sticky hash, and consumers name their ranges themselves.
- `EntryBuckets`: a slot is an entry bucket. All consumers declare the same ranges, which tile the
  ring. Consumer j of k, sorted by (name, id), owns the buckets from j·N/k up to (j+1)·N/k.

Nothing here knows what was delivered: a slot that moved while its old owner still holds entries of
it is withheld by `dispatch.plan_keyed`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from anabranch.errors import BadAssignment, InvalidInput
from anabranch.topics.buckets import MAX_BUCKETS, bucket_of
from anabranch.topics.key_range import KEY_SPACE, KeyRange, tiles
from anabranch.topics.murmur3 import murmur3_32

# More make shares more even (about 10 % apart with 100) and joins dearer.
POINTS = 100
LAST_HASH = 0xFFFF
# Of one consumer; a client that wants more than this wants buckets.
MAX_RANGES = 1024

Ranges = Sequence[tuple[int, int]]  # first and last value, both included, as the wire has them


class SlotOwners(Protocol):
    def join(self, consumer: int, name: str, ranges: Ranges = ()) -> None:
        """Raises BadAssignment if its ranges cannot be served; nothing has changed then."""
        ...

    def leave(self, consumer: int) -> None: ...

    def slot_of(self, sticky_hash: int, entry_hash_min: int | None = None) -> int:
        """Of an entry, by the hash of its key and the stamp of its producer, if it has one."""
        ...

    def owner_of(self, slot: int) -> int | None: ...

    def owned(self) -> list[tuple[int, int, int]]:
        """First and last hash and the consumer they go to, rising; for people."""
        ...


class AutoSplit:
    __slots__ = ("_owners", "_points", "_ring")

    def __init__(self) -> None:
        # Sorted by (point, name, consumer): of two at the same point the first one has it.
        self._ring: list[tuple[int, str, int]] = []
        self._points: list[int] = []  # of the ring, where an owner is searched
        self._owners: list[int | None] = [None]  # one for each point, then the first again

    def join(self, consumer: int, name: str, ranges: Ranges = ()) -> None:
        if ranges:
            raise BadAssignment(
                f"consumer {name!r} names {len(ranges)} hash ranges on a subscription that "
                "splits them by itself; subscribe with mode STICKY"
            )
        for index in range(POINTS):
            # The id makes namesakes differ; the points lie on a ring of 32 bits.
            point = murmur3_32(f"{name}/{consumer}/{index}".encode())
            self._ring.append((point, name, consumer))
        self._replace(sorted(self._ring))

    def leave(self, consumer: int) -> None:
        self._replace([place for place in self._ring if place[2] != consumer])

    def _replace(self, ring: list[tuple[int, str, int]]) -> None:
        self._ring = ring
        self._points = [point for point, _, _ in ring]
        self._owners = [consumer for _, _, consumer in ring]
        self._owners.append(self._owners[0] if ring else None)

    def slot_of(self, sticky_hash: int, entry_hash_min: int | None = None) -> int:
        return sticky_hash

    def owner_of(self, slot: int) -> int | None:
        return self._owners[bisect_left(self._points, slot << 16)]

    def owned(self) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        start = 0
        # Behind the last point the first one has the rest.
        around = [(LAST_HASH << 16, name, consumer) for _, name, consumer in self._ring[:1]]
        for point, _, consumer in self._ring + around:
            end = point >> 16  # the last hash at or before this point
            if end < start:
                continue  # no hash between it and the one before
            if found and found[-1][2] == consumer:
                found[-1] = (found[-1][0], end, consumer)
            else:
                found.append((start, end, consumer))
            start = end + 1
        return found


class StickyRanges:
    __slots__ = ("_held", "_starts")

    def __init__(self) -> None:
        self._held: list[tuple[KeyRange, int]] = []  # sorted, disjoint
        self._starts: list[int] = []

    def join(self, consumer: int, name: str, ranges: Ranges = ()) -> None:
        if not ranges:
            raise BadAssignment(f"consumer {name!r} is sticky but names no hash ranges")
        wanted = parse_ranges(name, ranges)
        held = sorted([*self._held, *((each, consumer) for each in wanted)])
        for (left, _), (right, other) in pairwise(held):
            if left.overlaps(right):
                raise BadAssignment(
                    f"hash range {left} overlaps {right} of consumer {other}; "
                    f"consumer {name!r} must name ranges that nobody has"
                )
        self._replace(held)

    def leave(self, consumer: int) -> None:
        self._replace([each for each in self._held if each[1] != consumer])

    def _replace(self, held: list[tuple[KeyRange, int]]) -> None:
        self._held = held
        self._starts = [each.start for each, _ in held]

    def slot_of(self, sticky_hash: int, entry_hash_min: int | None = None) -> int:
        return sticky_hash

    def owner_of(self, slot: int) -> int | None:
        at = bisect_right(self._starts, slot) - 1
        if at < 0:
            return None
        keys, consumer = self._held[at]
        return consumer if slot <= keys.end else None

    def owned(self) -> list[tuple[int, int, int]]:
        return [(keys.start, keys.end, consumer) for keys, consumer in self._held]


class EntryBuckets:
    __slots__ = ("_declared", "_members", "_owners", "_splits")

    def __init__(self) -> None:
        self._declared: tuple[KeyRange, ...] = ()
        self._splits: tuple[int, ...] = ()
        self._members: list[tuple[str, int]] = []  # sorted
        self._owners: list[int] = []  # one for each bucket

    def join(self, consumer: int, name: str, ranges: Ranges = ()) -> None:
        declared = parse_buckets(name, ranges)
        if self._members and declared != self._declared:
            raise BadAssignment(
                f"consumer {name!r} declares {len(declared)} buckets that differ from the "
                f"{len(self._declared)} of the consumers already there"
            )
        # Empty, the subscription forgets its buckets: the next first consumer may have others.
        self._declared = declared
        self._splits = tuple(bucket.start for bucket in declared[1:])
        insort(self._members, (name, consumer))
        self._spread()

    def leave(self, consumer: int) -> None:
        self._members = [member for member in self._members if member[1] != consumer]
        self._spread()

    def _spread(self) -> None:
        buckets, consumers = len(self._declared), len(self._members)
        self._owners = []
        for place, (_, consumer) in enumerate(self._members):
            share = (place + 1) * buckets // consumers - place * buckets // consumers
            self._owners += [consumer] * share

    def slot_of(self, sticky_hash: int, entry_hash_min: int | None = None) -> int:
        return bucket_of(self._splits, sticky_hash if entry_hash_min is None else entry_hash_min)

    def owner_of(self, slot: int) -> int | None:
        return self._owners[slot] if slot < len(self._owners) else None

    def owned(self) -> list[tuple[int, int, int]]:
        pairs = zip(self._declared, self._owners, strict=False)
        return [(bucket.start, bucket.end, consumer) for bucket, consumer in pairs]


def parse_ranges(name: str, ranges: Ranges) -> list[KeyRange]:
    if len(ranges) > MAX_RANGES:
        raise BadAssignment(
            f"consumer {name!r} names {len(ranges)} hash ranges; at most {MAX_RANGES} are served"
        )
    try:
        return [KeyRange(start, end) for start, end in ranges]
    except InvalidInput as error:
        raise BadAssignment(f"consumer {name!r}: {error}") from error


def parse_buckets(name: str, ranges: Ranges) -> tuple[KeyRange, ...]:
    """In the order declared: they must tile the ring from 0 on, one behind the other."""
    buckets = parse_ranges(name, ranges)
    if buckets != sorted(buckets) or not tiles(KEY_SPACE, buckets):
        raise BadAssignment(
            f"the buckets of consumer {name!r} must tile {KEY_SPACE} in rising order; "
            f"got {', '.join(map(str, buckets[:8])) or 'none'}"
        )
    if buckets[0].size < 2:
        # No key hashes to 0, so a bucket of that one value would never see an entry.
        raise BadAssignment(f"the first bucket of consumer {name!r} holds only 0; widen it")
    assert len(buckets) <= MAX_BUCKETS
    return tuple(buckets)
