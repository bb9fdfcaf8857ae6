from __future__ import annotations

import pytest

from anabranch.broker.key_shared import MAX_RANGES, AutoSplit, EntryBuckets, StickyRanges
from anabranch.errors import BadAssignment

HALVES = [(0, 0x7FFF), (0x8000, 0xFFFF)]


def test_nobody_owns_anything_where_nobody_is() -> None:
    assert AutoSplit().owner_of(5) is None
    assert StickyRanges().owner_of(5) is None
    assert EntryBuckets().owner_of(0) is None


def test_namesakes_share_the_ring() -> None:
    split = AutoSplit()
    split.join(1, "same")
    split.join(2, "same")
    assert {split.owner_of(slot) for slot in range(0, 65536, 101)} == {1, 2}


def test_ranges_are_refused_where_the_ring_splits_itself() -> None:
    with pytest.raises(BadAssignment, match="STICKY"):
        AutoSplit().join(1, "c", HALVES)


def test_sticky_ranges_leave_gaps_that_nobody_owns() -> None:
    sticky = StickyRanges()
    sticky.join(1, "c", [(10, 20), (30, 40)])
    assert [sticky.owner_of(slot) for slot in (9, 10, 20, 25, 40, 41)] == [
        None, 1, 1, None, 1, None,
    ]  # fmt: skip


@pytest.mark.parametrize("ranges", [[], [(5, 4)], [(-1, 3)], [(0, 65536)], [(0, 5), (5, 9)]])
def test_sticky_ranges_must_lie_inside_the_ring_and_apart(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(BadAssignment, match="'c'"):
        StickyRanges().join(1, "c", ranges)


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(BadAssignment, match=str(MAX_RANGES)):
        StickyRanges().join(1, "c", [(each, each) for each in range(MAX_RANGES + 1)])


def test_a_range_is_free_again_when_its_owner_left() -> None:
    sticky = StickyRanges()
    sticky.join(1, "a", [(0, 100)])
    with pytest.raises(BadAssignment, match="overlaps"):
        sticky.join(2, "b", [(100, 200)])
    sticky.leave(1)
    sticky.join(2, "b", [(100, 200)])
    assert sticky.owner_of(100) == 2


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(0, 0x7FFF)],
        [(1, 0xFFFF)],
        [(0, 0x7FFF), (0x8001, 0xFFFF)],
        [(0x8000, 0xFFFF), (0, 0x7FFF)],
        [(0, 0), (1, 0xFFFF)],
    ],
)
def test_buckets_must_tile_the_ring_in_order_with_a_first_one_that_can_be_hit(
    ranges: list[tuple[int, int]],
) -> None:
    with pytest.raises(BadAssignment):
        EntryBuckets().join(1, "c", ranges)


def test_all_consumers_must_declare_the_buckets_of_the_first() -> None:
    buckets = EntryBuckets()
    buckets.join(1, "a", HALVES)
    with pytest.raises(BadAssignment, match="differ"):
        buckets.join(2, "b", [(0, 0xFFFF)])
    buckets.leave(1)
    buckets.join(2, "b", [(0, 0xFFFF)])
    assert buckets.owner_of(0) == 2


def test_buckets_go_by_the_stamp_and_else_by_the_hash_of_the_key() -> None:
    buckets = EntryBuckets()
    buckets.join(1, "a", HALVES)
    assert buckets.slot_of(0x9000, entry_hash_min=5) == 0
    assert buckets.slot_of(0x9000) == 1
    assert AutoSplit().slot_of(0x9000, entry_hash_min=5) == 0x9000


def test_more_consumers_than_buckets_leave_some_idle() -> None:
    buckets = EntryBuckets()
    for consumer, name in enumerate(["c", "a", "b"]):
        buckets.join(consumer, name, HALVES)
    assert [buckets.owner_of(bucket) for bucket in range(2)] == [2, 0]
