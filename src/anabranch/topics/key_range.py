"""Which part of the key space a segment covers.

The key space is the ring values 0x0000 to 0xFFFF, and a range names its first and its last value,
both inclusive. Ranges are cut without gaps and joined only where they touch, so that a set which
tiles the key space still tiles it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from anabranch.errors import InvalidInput

KEY_SPACE_SIZE = 0x10000
LAST_VALUE = KEY_SPACE_SIZE - 1


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= LAST_VALUE:
            raise InvalidInput(
                f"range [{self.start}, {self.end}] is not one: "
                f"0 <= start <= end <= {LAST_VALUE} must hold"
            )

    @property
    def size(self) -> int:
        return self.end - self.start + 1

    @property
    def midpoint(self) -> int:
        """The last value of the lower half; the lower half is the larger if they differ."""
        return self.start + (self.end - self.start) // 2

    def contains(self, value: int) -> bool:
        return self.start <= value <= self.end

    def overlaps(self, other: KeyRange) -> bool:
        return self.start <= other.end and other.start <= self.end

    def is_adjacent_to(self, other: KeyRange) -> bool:
        return self.end + 1 == other.start or other.end + 1 == self.start

    def halves(self) -> tuple[KeyRange, KeyRange]:
        if self.size < 2:
            raise InvalidInput(f"range {self} holds one value and cannot be split")
        return KeyRange(self.start, self.midpoint), KeyRange(self.midpoint + 1, self.end)

    def split_at(self, points: Sequence[int]) -> tuple[KeyRange, ...]:
        """Cut before each point: a point is the first value of a further range."""
        if not points:
            raise InvalidInput(f"no points given at which to split range {self}")
        starts = [self.start, *points]
        rising = all(left < right for left, right in pairwise(starts))
        if not rising or points[-1] > self.end:
            raise InvalidInput(
                f"split points {list(points)} must rise strictly, "
                f"above {self.start} and up to {self.end}, to split range {self}"
            )
        ends = [point - 1 for point in points] + [self.end]
        return tuple(KeyRange(start, end) for start, end in zip(starts, ends, strict=True))

    def __str__(self) -> str:
        return f"{self.start:04x}-{self.end:04x}"


KEY_SPACE = KeyRange(0, LAST_VALUE)


def union(ranges: Iterable[KeyRange]) -> KeyRange:
    """The range that adjacent ones form together, given in any order."""
    ordered = sorted(ranges)
    if not ordered:
        raise InvalidInput("no ranges given to join")
    for left, right in pairwise(ordered):
        if left.end + 1 != right.start:
            raise InvalidInput(f"ranges {left} and {right} are not adjacent")
    return KeyRange(ordered[0].start, ordered[-1].end)


def tiles(space: KeyRange, ranges: Iterable[KeyRange]) -> bool:
    """Whether the ranges cover the space without gap or overlap."""
    following = space.start
    for each in sorted(ranges):
        if each.start != following:
            return False
        following = each.end + 1
    return following == space.end + 1


def equal_ranges(count: int) -> tuple[KeyRange, ...]:
    """The key space in ranges of one width; the last one also takes the remainder."""
    if not 1 <= count <= KEY_SPACE_SIZE:
        raise InvalidInput(f"{count} ranges asked for; from 1 to {KEY_SPACE_SIZE} are possible")
    width = KEY_SPACE_SIZE // count
    if count == 1:
        return (KEY_SPACE,)
    return KEY_SPACE.split_at([width * index for index in range(1, count)])
