from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.topics.key_range import KEY_SPACE, KeyRange
from anabranch.topics.lineage import merge_depth
from anabranch.topics.names import parse_topic_name
from anabranch.topics.new_layouts import initial_layout, migrated_layout, synthetic_layout
from anabranch.topics.ring import Routing

TOPIC = parse_topic_name("persistent://t/n/x")


@pytest.mark.parametrize(
    ("count", "ranges"),
    [
        (1, ["0000-ffff"]),
        (2, ["0000-7fff", "8000-ffff"]),
        (3, ["0000-5554", "5555-aaa9", "aaaa-ffff"]),
        (4, ["0000-3fff", "4000-7fff", "8000-bfff", "c000-ffff"]),
    ],
)
def test_new_topic_has_equal_segments(count: int, ranges: list[str]) -> None:
    layout = initial_layout(count, 7)
    assert [str(each.keys) for each in layout.segments] == ranges
    assert [each.id for each in layout.segments] == list(range(count))
    assert (layout.epoch, layout.next_segment_id) == (0, count)
    assert all(each.is_active and not each.parents for each in layout.segments)
    assert {each.created_at_ms for each in layout.segments} == {7}


def test_new_topic_shares_its_bucket_budget() -> None:
    assert initial_layout(1, 0).segment(0).bucket_count == 4
    assert initial_layout(2, 0).segment(1).bucket_count == 2
    assert initial_layout(8, 0).segment(1).bucket_count == 1
    assert initial_layout(2, 0, bucket_budget=10).segment(0).bucket_count == 5
    assert initial_layout(1, 0, routing=Routing.LOW16).segment(0).bucket_count == 1


@pytest.mark.parametrize("count", [0, -3, 0x10001])
def test_new_topic_with_an_impossible_count_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=str(count)):
        initial_layout(count, 0)


@pytest.mark.parametrize("partitions", [0, -1])
def test_regular_topic_without_partitions_is_one_legacy_segment(partitions: int) -> None:
    layout = synthetic_layout(TOPIC, partitions)
    (only,) = layout.segments
    assert (only.id, only.keys, only.legacy_topic) == (0, KEY_SPACE, "persistent://t/n/x")
    assert (layout.epoch, layout.is_legacy) == (0, True)


def test_regular_topic_has_a_legacy_segment_for_each_partition() -> None:
    layout = synthetic_layout(TOPIC, 3)
    assert [each.legacy_topic for each in layout.segments] == [
        f"persistent://t/n/x-partition-{index}" for index in range(3)
    ]
    assert [str(each.keys) for each in layout.segments] == ["0000-5554", "5555-aaa9", "aaaa-ffff"]
    assert layout.is_legacy


def test_regular_topic_may_have_more_partitions_than_there_are_values() -> None:
    layout = synthetic_layout(TOPIC, 0x10002)
    assert len(layout.segments) == 0x10002
    assert layout.segment(0x10001).keys == KeyRange(1, 1)


@pytest.mark.parametrize("partitions", [2, 3])
def test_migration_seals_every_partition_as_a_parent_of_every_child(partitions: int) -> None:
    layout = migrated_layout(TOPIC, partitions, 9)
    parents, children = layout.segments[:partitions], layout.segments[partitions:]
    assert (layout.epoch, layout.next_segment_id) == (0, 2 * partitions)
    assert layout.is_legacy is False
    for index, parent in enumerate(parents):
        assert parent.is_sealed
        assert (parent.keys, parent.bucket_count) == (KEY_SPACE, 1)
        assert parent.legacy_topic == f"persistent://t/n/x-partition-{index}"
        assert parent.children == tuple(child.id for child in children)
        assert (parent.sealed_at_epoch, parent.sealed_at_ms) == (0, 9)
    for child in children:
        assert child.parents == tuple(range(partitions))
        assert (child.created_at_ms, child.legacy_topic) == (9, None)
        assert child.bucket_count == max(1, 4 // partitions)
        assert merge_depth(layout, child.id) == 1


def test_parent_of_a_migration_is_of_unknown_age() -> None:
    """A seek to a time before the migration must look into it, not replay it from its start."""
    assert migrated_layout(TOPIC, 1, 9).segment(0).created_at_ms == 0


def test_migration_of_a_topic_without_partitions_has_one_parent_and_one_child() -> None:
    layout = migrated_layout(TOPIC, 0, 9)
    parent, child = layout.segments
    assert parent.legacy_topic == "persistent://t/n/x"
    assert (child.id, child.keys, child.parents) == (1, KEY_SPACE, (0,))
    assert merge_depth(layout, 1) == 0


def test_too_many_partitions_cannot_migrate() -> None:
    with pytest.raises(InvalidInput, match="has 65537 partitions"):
        migrated_layout(TOPIC, 0x10001, 0)
