from __future__ import annotations

import pytest

from anabranch.topics.buckets import (
    MAX_BUCKETS,
    bucket_of,
    bucket_ranges,
    bucket_splits,
    initial_buckets,
    merge_buckets,
    split_buckets,
)
from anabranch.topics.key_range import KEY_SPACE, tiles
from anabranch.topics.ring import Routing

HIGH, LOW = Routing.HIGH16, Routing.LOW16


@pytest.mark.parametrize(
    ("count", "splits"),
    [
        (1, []),
        (2, [0x8000]),
        (3, [0x5555, 0xAAAA]),
        (4, [0x4000, 0x8000, 0xC000]),
        (5, [0x3333, 0x6666, 0x9999, 0xCCCC]),
    ],
)
def test_splits_are_the_starts_of_all_buckets_but_the_first(count: int, splits: list[int]) -> None:
    assert list(bucket_splits(count)) == splits


def test_bucket_is_the_number_of_splits_up_to_the_value() -> None:
    splits = bucket_splits(4)
    assert [bucket_of(splits, value) for value in (0, 0x3FFF, 0x4000, 0xBFFF, 0xFFFF)] == [
        0,
        0,
        1,
        2,
        3,
    ]
    assert bucket_of((), 0xFFFF) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_bucket_ranges_tile_their_ring(count: int) -> None:
    ranges = bucket_ranges(bucket_splits(count))
    assert len(ranges) == count
    assert tiles(KEY_SPACE, ranges)
    assert all(bucket_of(bucket_splits(count), keys.end) == at for at, keys in enumerate(ranges))


def test_budget_is_shared_by_the_first_segments() -> None:
    assert [initial_buckets(HIGH, 4, segments) for segments in (1, 2, 3, 4, 5)] == [4, 2, 1, 1, 1]


def test_children_of_a_split_share_their_parents_buckets() -> None:
    assert [split_buckets(HIGH, 4, children) for children in (2, 3, 4, 9)] == [2, 1, 1, 1]


def test_merge_adds_its_parents_buckets_up_to_a_limit() -> None:
    assert merge_buckets(HIGH, [2, 1, 1]) == 4
    assert merge_buckets(HIGH, [MAX_BUCKETS, 1]) == MAX_BUCKETS


def test_low_half_leaves_nothing_to_tell_buckets_by() -> None:
    assert initial_buckets(LOW, 4, 1) == 1
    assert merge_buckets(LOW, [1, 1]) == 1
